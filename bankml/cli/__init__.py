# SPDX-License-Identifier: MIT OR Apache-2.0
"""One file per subcommand: parse, call core, print.

May import: core.answers, core.bench, core.chat, core.constrain, core.engine, core.gguf, core.json, core.model,
core.oracle, core.pins, core.receipts, core.sampling, core.serve, core.tokenizer, refusal.
"""
