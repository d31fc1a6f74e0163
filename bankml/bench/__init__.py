# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measuring: models and kernels against the reference.

May import: core.constrain, core.engine, core.exact, core.gguf, core.model, core.pins, core.sampling, core.tokenizer,
home, kernels, reference, refusal.
"""
