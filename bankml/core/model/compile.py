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


def compile_kernels(type_ids: Iterable[int], progress: Progress | None = None) -> None:
    """Import the kernels for these weight types, compiling where the cache is cold.

    Raises:
        Refusal: the CPU lacks what the kernels need, or ``BANKML_ISA`` names no tier that runs here.
    """
    try:
        from bankml.kernels import isa  # noqa: F401 - decides the tier, or says why none runs
    except RuntimeError as error:
        raise Refusal("model.cpu", f"the kernels do not run here: {error}", exit_code=EXIT_OTHER) from None
    cold = not any(Path(os.environ["NUMBA_CACHE_DIR"]).glob("*/*.nbi"))
    types = sorted(set(type_ids))
    total = len(_BASE) + len(types)
    report = progress if progress is not None and cold else None
    for done, name in enumerate(_BASE):
        if report is not None:
            report("compile kernels (once)", done, total)
        importlib.import_module(f"bankml.kernels.{name}")
    from bankml.kernels.weights import weight_type

    for done, type_id in enumerate(types, len(_BASE)):
        if report is not None:
            report("compile kernels (once)", done, total)
        weight_type(type_id, 8)
    if report is not None:
        report("compile kernels (once)", total, total)
