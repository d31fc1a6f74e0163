# SPDX-License-Identifier: MIT OR Apache-2.0
"""One file per subcommand: parse, call core, print.

May import: bench, core.answers, core.chat, core.constrain, core.engine, core.gguf, core.http, core.json, core.model,
core.pins, core.receipts, core.sampling, core.serve.app, core.serve.llama, core.tokenizer, oracle, reference, refusal.
"""
