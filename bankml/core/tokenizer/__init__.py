# SPDX-License-Identifier: MIT OR Apache-2.0
"""The byte-level BPE tokenizer: vocabulary, pre-tokenizers, merges, and UTF-8 at the borders of tokens.

May import: core.abandon, core.gguf, core.std_sort, kernels, refusal.
"""
