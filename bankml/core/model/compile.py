# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiles what a model needs, once for each version of the kernels; later starts take it from the cache."""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from bankml.core.refusal import EXIT_OTHER, Refusal

Progress = Callable[[str, int, int | None], None]

# Each module compiles when it is imported; later ones build on earlier ones.
_BASE = ("team", "quantize", "mathf", "rows", "rope", "attention", "attention_rows", "q8_0", "cache_q8")
# Build on none of those, as the weight types do: where there is a second CPU another process compiles them meanwhile.
_APART = ("sorting", "sampling")
# What only some requests ask for.
_SELDOM = ("sampling_more", "probabilities", "grammar", "grammar_tokens", "vocabulary_trie")


def load_ahead() -> None:
    """Load numba and what every model needs in a thread of its own, while the caller does what waits for the disk or hashes.

    Only where nothing is left to compile: that shows its progress, and is `compile_kernels`.
    """

    def load() -> None:
        # What is wrong is told by compile_kernels, where someone waits for it.
        with contextlib.suppress(Exception):
            if not _missing(_BASE + _APART):
                for name in _BASE + _APART:
                    _load(name)

    # No daemon: native code must not be cut off in the middle when the file is refused and the process ends.
    threading.Thread(target=load, name="bankml-load").start()


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
    missing = _missing(_BASE + _APART)
    apart = _compile_apart(types) if missing.intersection(_APART) else None
    steps: list[Callable[[], object]] = [partial(_load, name) for name in _BASE]
    if apart is not None:
        steps.append(apart.wait)
    steps += [partial(_load_type, type_id) for type_id in types]
    steps += [partial(_load, name) for name in _APART]
    _take(steps, progress if missing else None)


def compile_seldom(progress: Progress | None = None) -> None:
    """Import the kernels that only some requests ask for: further samplers, probabilities, grammars."""
    _take([partial(_load, name) for name in _SELDOM], progress if _missing(_SELDOM) else None)


def _take(steps: Sequence[Callable[[], object]], progress: Progress | None) -> None:
    for done, step in enumerate(steps):
        if progress is not None:
            progress("compile kernels (once)", done, len(steps))
        step()
    if progress is not None:
        progress("compile kernels (once)", len(steps), len(steps))


def _missing(names: Iterable[str]) -> set[str]:
    """Which of these modules have to be compiled."""
    compiled = {file.name.partition(".")[0] for file in Path(os.environ["NUMBA_CACHE_DIR"]).glob("*/*.nbi")}
    return set(names) - compiled


def _load(name: str) -> None:
    importlib.import_module(f"bankml.kernels.{name}")


def _load_type(type_id: int) -> None:
    from bankml.kernels.weights import weight_type

    weight_type(type_id, 8)


def _compile_apart(types: Sequence[int]) -> subprocess.Popen[bytes] | None:
    """A process that compiles a part into the same cache; what it fails at is compiled here after it.

    Weight types come first: the cache of type q8_0 builds on that type's kernels.
    """
    from bankml.kernels.team import available_cpus

    if available_cpus() < 2 or not sys.executable:
        return None
    program = (
        "import importlib, sys; import bankml.core.model; from bankml.kernels.weights import weight_type; "
        "[weight_type(int(word), 8) if word.isdecimal() else importlib.import_module(word) for word in sys.argv[1:]]"
    )
    words = [*map(str, types), *(f"bankml.kernels.{name}" for name in ("q8_0", *_APART))]
    with contextlib.suppress(OSError):
        return subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-c", program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    return None
