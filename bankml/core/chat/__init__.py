# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a model is asked: messages, chat templates and their formats.

May import: core.gguf, core.jinja, core.json, core.tokenizer, refusal.
"""
