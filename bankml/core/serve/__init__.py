# SPDX-License-Identifier: MIT OR Apache-2.0
"""The HTTP server: llama-server's and OpenAI's shapes over one engine.

May import: core.abandon, core.answers, core.chat, core.constrain, core.engine, core.gguf, core.json, core.receipts,
core.sampling, core.tokenizer, refusal.
"""
