# SPDX-License-Identifier: MIT OR Apache-2.0
"""Oracles: what the reference answers, recorded and compared.

May import: core.answers, core.chat, core.constrain, core.engine, core.exact, core.gguf, core.http, core.json,
core.model, core.pins, core.sampling, core.serve.app, core.serve.llama, core.tokenizer, home, reference, refusal.
"""
