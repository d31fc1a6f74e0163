# SPDX-License-Identifier: MIT OR Apache-2.0
"""The options of an engine as flags, and how a command opens one: pin, progress and warnings included."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bankml.cli.values import FILE
from bankml.core.engine.options import DEFAULT_CTX, DEFAULT_LLAMA_THREADS, EngineOptions

if TYPE_CHECKING:
    from bankml.core.engine import Engine
    from bankml.core.pins import Verified

_FLAGS = (
    click.option("--fork", metavar="F", type=FILE, help="Pin to hold the file to; else the file's own."),
    click.option("--ctx", "n_ctx", metavar="N", type=click.IntRange(min=0), default=DEFAULT_CTX, show_default=True,
                 help="Tokens of the context; 0 for what the model was trained with."),
    click.option("--threads", metavar="N", type=click.IntRange(min=1), envvar="BANKML_THREADS",
                 help="Threads that compute; without it one for each processor that may be used."),
    click.option("--llama-threads", metavar="N", type=click.IntRange(min=1, max=512), default=DEFAULT_LLAMA_THREADS,
                 show_default=True, envvar="BANKML_LLAMA_THREADS", help="llama-server's -t whose bits long answers have."),
    click.option("--cache-type", type=click.Choice(["f16", "q8_0"]), default="f16", show_default=True,
                 envvar="BANKML_CACHE_TYPE",
                 help="Type of the KV cache; q8_0 takes 53 % of the memory and gives llama-server's q8_0 answers."),
    click.option("--inexact", is_flag=True, help="Answer even where the bits would not be the reference's, and say so."),
)  # fmt: skip


@dataclass(frozen=True)
class Opening:
    """A model file to open: its pin, where one is named, and the options of the engine."""

    fork: Path | None
    options: EngineOptions

    def verify(self, path: Path, *, allow_unpinned: bool = False) -> Verified:
        """Hash the file and hold it to its pin, with progress on a terminal.

        Raises:
            Refusal: as :func:`bankml.core.pins.verify` does, except for an unpinned file that is allowed; a line says so.
        """
        from bankml.cli.progress import bars
        from bankml.core.model.compile import load_ahead
        from bankml.core.pins import measure, verify
        from bankml.refusal import Refusal

        # The kernels are loaded while the file is hashed.
        load_ahead()
        with bars() as progress:
            try:
                return verify(path, self.fork, progress=progress)
            except Refusal as refusal:
                if not allow_unpinned or refusal.code != "pin.unpinned":
                    raise
            verified = measure(path, progress=progress)
        click.echo(f"bankml: {path.name} is unpinned: no record vouches for sha256 {verified.sha256}", err=True)
        return verified

    def load(self, verified: Verified, *, warm: bool) -> Engine:
        """Load the verified file, with progress on a terminal.

        Args:
            verified: the record of the gate.
            warm: compile the optional kernels now, too.

        Raises:
            Refusal: as :meth:`bankml.core.engine.Engine.open` does.
        """
        from bankml.cli.progress import bars
        from bankml.core.engine import Engine

        with bars() as progress:
            engine = Engine.open(verified.path, self.options, verified=verified, progress=progress)
            if warm:
                engine.warm(progress)
        return engine


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the flags of an engine; their values come as one argument, ``opening``."""

    @functools.wraps(command)
    def collect(*args: Any, fork: Path | None, **flags: Any) -> Any:
        options = {name: flags.pop(name) for name in ("n_ctx", "threads", "llama_threads", "cache_type", "inexact")}
        return command(*args, opening=Opening(fork, EngineOptions(**options)), **flags)

    for flag in reversed(_FLAGS):
        collect = flag(collect)
    return collect
