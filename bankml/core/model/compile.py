# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiles what a model needs, once for each version of the kernels; later starts take it from the cache."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from bankml.core.refusal import EXIT_OTHER, Refusal

Progress = Callable[[str, int, int | None], None]

# Each module compiles when it is imported; later ones build on earlier ones.
_BASE = ("team", "quantize", "mathf", "rows", "rope", "attention", "q8_0", "cache_q8", "sorting", "sampling", "sampling_more")
_CONSTRAINED = ("probabilities", "grammar", "grammar_tokens", "vocabulary_trie")


def compile_kernels(type_ids: Iterable[int], progress: Progress | None = None) -> None:
    """Import the kernels for these weight types, compiling where the cache is cold.

    Raises:
        Refusal: the CPU lacks what the kernels need, or ``BANKML_ISA`` names no tier that runs here.
    """
    try:
        from bankml.kernels import isa  # noqa: F401 - decides the tier, or says why none runs
    except RuntimeError as error:
        raise Refusal("model.cpu", f"the kernels do not run here: {error}", exit_code=EXIT_OTHER) from None
    types = sorted(set(type_ids))
    report = _report(_BASE, len(_BASE) + len(types), progress)
    for done, name in enumerate(_BASE):
        report(done)
        importlib.import_module(f"bankml.kernels.{name}")
    from bankml.kernels.weights import weight_type

    for done, type_id in enumerate(types, len(_BASE)):
        report(done)
        weight_type(type_id, 8)
    report(len(_BASE) + len(types))


def compile_constrained(progress: Progress | None = None) -> None:
    """Import the kernels for grammars and probabilities, compiling where the cache is cold."""
    report = _report(_CONSTRAINED, len(_CONSTRAINED), progress)
    for done, name in enumerate(_CONSTRAINED):
        report(done)
        importlib.import_module(f"bankml.kernels.{name}")
    report(len(_CONSTRAINED))


def _report(names: Iterable[str], total: int, progress: Progress | None) -> Callable[[int], None]:
    """What tells how many modules are done; nothing where none of them has to be compiled."""
    cache = Path(os.environ["NUMBA_CACHE_DIR"])
    cold = any(not any(cache.glob(f"*/{name}.*.nbi")) for name in names)
    if progress is None or not cold:
        return lambda done: None
    return lambda done: progress("compile kernels (once)", done, total)
