# SPDX-License-Identifier: MIT OR Apache-2.0
"""Text: tokenizer, pre-tokenizers, chat template, streaming UTF-8."""
