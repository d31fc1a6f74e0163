# SPDX-License-Identifier: MIT OR Apache-2.0
"""The slot, the prompt caches and the loop that makes an answer.

May import: core.constrain, core.exact, core.gguf, core.model, core.pins, core.sampling, core.text, refusal.
"""

from bankml.core.engine.completion import Completion, Step, TokenProbabilities
from bankml.core.engine.engine import DEFAULT_CTX, Engine

__all__ = ["DEFAULT_CTX", "Completion", "Engine", "Step", "TokenProbabilities"]
