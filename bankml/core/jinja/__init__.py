# SPDX-License-Identifier: MIT OR Apache-2.0
"""The reference's dialect of Jinja, run under limits: lexer, parser, values, built-ins, compiler.

llama.cpp b11192 does not run jinja2. It has its own engine, whose results differ from jinja2's in scoping, in
what prints, in string lengths (bytes), in whitespace control and in every error text. Prompts that must be its bytes
are therefore made by an engine with its rules. Strings are ``bytes`` throughout, as they are there. No Python object
is reachable from a template: every attribute, filter and test is looked up in a table of this package.

May import: core.std_sort.
"""
