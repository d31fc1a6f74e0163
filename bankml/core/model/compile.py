# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiles what a model needs, once for each version of the kernels; later starts take it from the store."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from bankml.refusal import EXIT_OTHER, Refusal

Progress = Callable[[str, int, int | None], None]

# Modules of kernels, those that take longest first.
_BASE = ("attention.rows", "sampling.samplers", "attention.rope", "activations.rows", "attention.tiled", "team")
# What only some requests ask for.
_OPTIONAL = ("grammar.machine", "grammar.trie", "sampling.more", "grammar.tokens", "sampling.probabilities")
_WORKERS = 2


def load_ahead() -> None:
    """Load what every model needs in a thread of its own, while the caller does what waits for the disk or hashes.

    Only where nothing is left to compile: that shows its progress, and is `compile_kernels`.
    """

    def load() -> None:
        # compile_kernels reports what is wrong, where someone waits for it.
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
        from bankml.kernels.products.weights import weight_type
    except RuntimeError as error:
        raise Refusal("model.cpu", f"the kernels do not run here: {error}", exit_code=EXIT_OTHER) from None
    types = sorted(set().union(*(weight_type(*each).modules for each in matrices)))
    # The sweep over libm's functions is asked once for each version of the kernels.
    cache = ["attention.cache_q8"] if cache_type == "q8_0" else []
    needed = [*_BASE[:2], *types, *cache, *_BASE[2:]]
    _compile([*needed, "libm.sweep"], progress)
    _load(needed)


def compile_optional(progress: Progress | None = None) -> None:
    """Load the kernels that only some requests ask for: further samplers, probabilities, grammars."""
    _compile(_OPTIONAL, progress)
    _load(_OPTIONAL)


def _missing(names: Iterable[str]) -> list[str]:
    """Which of these modules have to be compiled."""
    from bankml.kernels.compiler import store

    return [name for name in names if not store.has(name)]


def _load(names: Iterable[str]) -> None:
    from bankml.kernels.compiler import native

    for name in names:
        native.module_named(name)
        native.load(name)


def _compile(names: Sequence[str], progress: Progress | None) -> None:
    """Have other processes compile what is missing; what they fail at is compiled here when it is loaded."""
    from bankml.kernels.cpus import available_cpus

    missing = deque(dict.fromkeys(_missing(names)))
    total = len(missing)
    if not total or not sys.executable:
        return
    done: list[str] = []
    kept = threading.Condition()
    workers = list(_workers(min(_WORKERS, available_cpus(), total)))
    threads = [threading.Thread(target=_feed, args=(each, missing, done, kept), name="bankml-compile") for each in workers]
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            if progress is not None:
                progress("compile kernels (once)", len(done), total)
            with kept:
                kept.wait(0.2)
    finally:
        # Whoever is interrupted here waits for no compiler.
        for worker in workers:
            worker.kill()
        for thread in filter(threading.Thread.is_alive, threads):
            thread.join()
        for worker in workers:
            worker.communicate()
    if progress is not None:
        progress("compile kernels (once)", total, total)


def _workers(count: int) -> Iterator[subprocess.Popen[bytes]]:
    for _ in range(count):
        with contextlib.suppress(OSError):
            yield subprocess.Popen(
                [sys.executable, "-m", "bankml.kernels.compiler.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )


def _feed(worker: subprocess.Popen[bytes], missing: deque[str], done: list[str], kept: threading.Condition) -> None:
    """Ask a worker for one module after another and keep what it gives, until nothing is missing or it ends."""
    from bankml.kernels.compiler import store

    assert worker.stdin is not None
    assert worker.stdout is not None
    with contextlib.suppress(OSError, IndexError):
        while True:
            worker.stdin.write(missing.popleft().encode() + b"\n")
            worker.stdin.flush()
            name, _, size = worker.stdout.readline().decode().partition(" ")
            code = worker.stdout.read(int(size or 0))
            if not code or len(code) < int(size):
                return
            store.write(name, code)
            with kept:
                done.append(name)
                kept.notify()
