# SPDX-License-Identifier: MIT OR Apache-2.0
"""The kinds of oracle by name; each is imported only when it is asked for."""

from __future__ import annotations

import importlib
from typing import cast

from bankml.oracle.kind import Kind
from bankml.refusal import EXIT_OTHER, Refusal

_ROOM = "bankml.oracle.kinds"

KINDS: dict[str, str] = {
    name: f"{_ROOM}.{name}:KIND"
    for name in (
        "guard",
        "keys",
        "tokenizer",
        "template",
        "libm",
        "kernels",
        "operations",
        "attention",
        "start",
        "model",
        "params",
        "sampler",
        "greedy",
        "sampled",
        "serve",
        "logprobs",
        "completion",
        "grammar",
        "schema",
        "constrained",
        "chat",
    )
}


def load_kind(name: str) -> Kind:
    """The kind of that name.

    Raises:
        Refusal: there is no such kind.
    """
    if name not in KINDS:
        raise Refusal(
            "oracle.kind",
            "there is no such kind of oracle",
            found=name,
            allowed=", ".join(KINDS),
            exit_code=EXIT_OTHER,
        )
    module, attribute = KINDS[name].split(":")
    return cast(Kind, getattr(importlib.import_module(module), attribute))
