# SPDX-License-Identifier: MIT OR Apache-2.0
"""The slot, the prompt caches and the loop that makes an answer.

May import: core.answers, core.chat, core.constrain, core.exact, core.gguf, core.model, core.pins, core.sampling,
core.tokenizer, refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bankml.core.engine.options import DEFAULT_CTX, EngineOptions

if TYPE_CHECKING:
    from bankml.core.engine.completion import Completion, Step, TokenProbabilities
    from bankml.core.engine.engine import Engine

__all__ = ["DEFAULT_CTX", "Completion", "Engine", "EngineOptions", "Step", "TokenProbabilities"]


def __getattr__(name: str) -> Any:
    # The options alone are read by every command line; they do without numpy.
    if name == "Engine":
        from bankml.core.engine.engine import Engine

        return Engine
    if name in ("Completion", "Step", "TokenProbabilities"):
        from bankml.core.engine import completion

        return getattr(completion, name)
    raise AttributeError(name)
