# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an answer may be made of: GBNF grammars, masks over a vocabulary, JSON schemas as grammars.

May import: core.json, kernels, refusal.
"""
