# SPDX-License-Identifier: MIT OR Apache-2.0
"""The GGUF container: types, file, header, guard, writer.

May import: core.json, refusal.
"""
