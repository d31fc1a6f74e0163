# SPDX-License-Identifier: MIT OR Apache-2.0
"""Text: tokenizer, pre-tokenizers, chat template, streaming UTF-8.

May import: core.abandon, core.gguf, core.json, kernels, refusal.
"""
