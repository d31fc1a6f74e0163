# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiles what a model needs, once for each version of the kernels; later starts take it from the store."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from bankml.core.home import cache_dir
from bankml.core.refusal import EXIT_OTHER, Refusal

Progress = Callable[[str, int, int | None], None]

# Modules of kernels, those that take longest first.
_BASE = ("attention_rows", "sampling", "rope", "rows", "attention", "team")
# What only some requests ask for.
_SELDOM = ("grammar", "vocabulary_trie", "sampling_more", "grammar_tokens", "probabilities")
_WORKERS = 2


def load_ahead() -> None:
    """Load what every model needs in a thread of its own, while the caller does what waits for the disk or hashes.

    Only where nothing is left to compile: that shows its progress, and is `compile_kernels`.
    """

    def load() -> None:
        # What is wrong is told by compile_kernels, where someone waits for it.
        with contextlib.suppress(Exception):
            if not _missing(_BASE):
                _load(_BASE)

    # No daemon: native code must not be cut off in the middle when the file is refused and the process ends.
    threading.Thread(target=load, name="bankml-load").start()


def compile_kernels(matrices: Iterable[tuple[int, int]], cache_type: str = "f16", progress: Progress | None = None) -> None:
    """Load the kernels for these matrices, given by weight type and rows, compiling what the store lacks.

    Raises:
        Refusal: the CPU lacks what the kernels need, or ``BANKML_ISA`` names no tier that runs here.
    """
    try:
        from bankml.kernels.weights import weight_type
    except RuntimeError as error:
        raise Refusal("model.cpu", f"the kernels do not run here: {error}", exit_code=EXIT_OTHER) from None
    types = sorted(set().union(*(weight_type(*each).modules for each in matrices)))
    # The sweep over libm's functions is asked once for each version of the kernels.
    cache = ["cache_q8"] if cache_type == "q8_0" else []
    needed = [*_BASE[:2], *types, *cache, *_BASE[2:]]
    _compile([*needed, "libm_sweep"], progress)
    _load(needed)


def compile_seldom(progress: Progress | None = None) -> None:
    """Load the kernels that only some requests ask for: further samplers, probabilities, grammars."""
    _compile(_SELDOM, progress)
    _load(_SELDOM)


def _missing(names: Iterable[str]) -> list[str]:
    """Which of these modules have to be compiled."""
    from bankml.kernels import store

    return [name for name in names if not store.has(name)]


def _load(names: Iterable[str]) -> None:
    from bankml.kernels import native

    for name in names:
        native.module_named(name)
        native.load(name)


def _compile(names: Sequence[str], progress: Progress | None) -> None:
    """Have other processes compile what is missing; what they fail at is compiled here when it is loaded."""
    from bankml.kernels.team import available_cpus

    missing = deque(dict.fromkeys(_missing(names)))
    total, done = len(missing), 0
    if not total or not sys.executable:
        return
    told = threading.Condition()

    def work() -> None:
        nonlocal done
        with contextlib.suppress(OSError), _worker() as worker:
            assert worker.stdin is not None
            assert worker.stdout is not None
            while missing:
                with contextlib.suppress(IndexError):
                    worker.stdin.write(missing.popleft() + "\n")
                    worker.stdin.flush()
                    if not worker.stdout.readline():
                        break
                    with told:
                        done += 1
                        told.notify()
            worker.stdin.close()

    threads = [threading.Thread(target=work, name="bankml-compile") for _ in range(min(_WORKERS, available_cpus(), total))]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if progress is not None:
            progress("compile kernels (once)", done, total)
        with told:
            told.wait(0.2)
    if progress is not None:
        progress("compile kernels (once)", total, total)


def _worker() -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-m", "bankml.kernels.worker", str(cache_dir())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
