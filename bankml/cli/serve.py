# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml serve``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bankml.cli.values import FILE, MODEL, TEXT

if TYPE_CHECKING:
    from bankml.core.engine import Engine
    from bankml.core.model.graph import CacheType


@click.command()
@click.argument("model", type=MODEL, required=False)
@click.option("--fork", type=FILE, help="Pin to hold the file to; without it, the file's own.")
@click.option(
    "--listen",
    type=TEXT,
    default="127.0.0.1:18093",
    show_default=True,
    metavar="HOST:PORT",
    help="Loopback address to answer on.",
)
@click.option("--ctx", type=click.IntRange(min=1), default=4096, show_default=True, metavar="N", help="Cells of the context.")
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    envvar="BANKML_THREADS",
    metavar="N",
    help="Threads that compute; without it one for each processor that may be used.",
)
@click.option(
    "--llama-threads",
    type=click.IntRange(min=1, max=512),
    default=3,
    show_default=True,
    envvar="BANKML_LLAMA_THREADS",
    metavar="N",
    help="llama-server's -t whose bits long answers have.",
)
@click.option("--cache-type", type=click.Choice(["f16", "q8_0"]), default="f16", show_default=True, envvar="BANKML_CACHE_TYPE",
              help="Type of the KV cache; q8_0 takes 53 % of the memory and gives llama-server's q8_0 answers.")  # fmt: skip
@click.option("--inexact", is_flag=True, help="Answer even where the bits would not be the reference's; receipts say so.")
@click.option("--allow-origin", type=TEXT, multiple=True, metavar="O[,O...]", help="Let web pages of these origins read answers.")
@click.option("--read-timeout", type=click.FloatRange(min=0, min_open=True), default=30.0, show_default=True, metavar="SECONDS",
              help="Cut off a client that takes so long for its request, or is silent so long.")  # fmt: skip
@click.option("--write-timeout", type=click.FloatRange(min=0, min_open=True), default=120.0, show_default=True, metavar="SECONDS",
              help="Cut off a client that takes nothing of its answer for so long.")  # fmt: skip
@click.option("--quiet", is_flag=True, help="No row on stderr for each request.")
def command(
    model: str | None,
    fork: Path | None,
    listen: str,
    ctx: int,
    threads: int | None,
    llama_threads: int,
    cache_type: CacheType,
    inexact: bool,
    allow_origin: tuple[str, ...],
    read_timeout: float,
    write_timeout: float,
    quiet: bool,
) -> None:
    """Answer over HTTP from a verified model, as llama-server answers, each answer with a receipt.

    MODEL is a path or a name from `bankml list`; without it, the default model. The file is guarded, hashed and held to
    its pin before the port opens.
    """
    from bankml.core.serve.settings import Settings, listen_address, origins

    host, port = listen_address(listen)
    settings = Settings(
        host=host,
        port=port,
        allow_origin=origins(allow_origin),
        quiet=quiet,
        llama_threads=llama_threads,
        threads=threads,
        read_seconds=read_timeout,
        write_seconds=write_timeout,
    )

    from bankml.core.pins import resolve_model
    from bankml.core.serve.server import bound_socket, run

    path = resolve_model(model)
    bound, settings = bound_socket(settings)

    def open_engine() -> Engine:
        return _open(path, fork, ctx, threads, llama_threads, cache_type, inexact)

    engine = open_engine()

    def ready() -> None:
        sha256 = engine.verified.sha256 if engine.verified else "none"
        click.echo(
            f"bankml serve: {path.name} verified (sha256 {sha256}); threads {threads or 'all'}, llama-threads {llama_threads}, "
            f"ctx {engine.n_ctx}; listening on http://{settings.address}",
            err=True,
        )

    run(engine, settings, bound, open_engine, ready)


def _open(
    path: Path, fork: Path | None, ctx: int, threads: int | None, llama_threads: int, cache_type: CacheType, inexact: bool
) -> Engine:
    """Verify the file, then load it; each with its progress on a terminal."""
    from bankml.cli.progress import bars
    from bankml.core.engine import Engine
    from bankml.core.model.compile import load_ahead
    from bankml.core.pins import verify

    load_ahead()
    with bars() as progress:
        click.echo(f"bankml serve: verifying {path.name}", err=True)
        verified = verify(path, fork, progress=progress)
        click.echo("bankml serve: loading; kernels are compiled at the first start", err=True)
        engine = Engine.open(
            verified.path,
            n_ctx=ctx,
            threads=threads,
            llama_threads=llama_threads,
            cache_type=cache_type,
            verified=verified,
            inexact=inexact,
            progress=progress,
        )
        engine.warm(progress)
        # The first answer with a grammar does not wait for it.
        _ = engine.vocabulary
    if engine.inexact is not None:
        click.echo(f"bankml serve: answers are not exact: {engine.inexact}", err=True)
    # A template that does not run is refused at the start, as llama-server does, not at the first request.
    _ = engine.template
    return engine
