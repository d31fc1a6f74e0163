# SPDX-License-Identifier: MIT OR Apache-2.0
"""A build of llama.cpp b11192, asked: its library in this process, its server, its headers.

May import: refusal.
"""
