# SPDX-License-Identifier: MIT OR Apache-2.0
"""llama-server's dialect: its routes, requests, shapes and words, and OpenAI's as llama-server has them.

May import: core.answers, core.chat, core.constrain, core.engine, core.gguf, core.http, core.json, core.receipts,
core.sampling, core.serve, core.tokenizer, refusal.
"""
