# SPDX-License-Identifier: MIT OR Apache-2.0
"""Models: plan, weights, KV cache, the graph of each architecture.

May import: core.gguf, core.json, kernels, refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bankml.core.model.model import Model
    from bankml.core.model.plan import Plan

__all__ = ["Model", "Plan"]


def __getattr__(name: str) -> Any:
    # The model loads kernels; a plan does without.
    if name == "Model":
        from bankml.core.model.model import Model

        return Model
    if name == "Plan":
        from bankml.core.model.plan import Plan

        return Plan
    raise AttributeError(name)
