# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml serve``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bankml.cli.engine_options import Opening, engine_options
from bankml.cli.values import MODEL, TEXT

if TYPE_CHECKING:
    from bankml.core.engine import Engine


@click.command()
@click.argument("model", type=MODEL, required=False)
@click.option(
    "--listen",
    type=TEXT,
    default="127.0.0.1:18093",
    show_default=True,
    metavar="HOST:PORT",
    help="Loopback address to answer on.",
)
@engine_options
@click.option("--allow-origin", type=TEXT, multiple=True, metavar="O[,O...]", help="Let web pages of these origins read answers.")
@click.option("--read-timeout", type=click.FloatRange(min=0, min_open=True), default=30.0, show_default=True, metavar="SECONDS",
              help="Cut off a client that takes so long for its request, or is silent so long.")  # fmt: skip
@click.option("--write-timeout", type=click.FloatRange(min=0, min_open=True), default=120.0, show_default=True, metavar="SECONDS",
              help="Cut off a client that takes nothing of its answer for so long.")  # fmt: skip
@click.option("--quiet", is_flag=True, help="No row on stderr for each request.")
def command(
    model: str | None,
    listen: str,
    opening: Opening,
    allow_origin: tuple[str, ...],
    read_timeout: float,
    write_timeout: float,
    quiet: bool,
) -> None:
    """Answer over HTTP from a verified model, as llama-server answers, each answer with a receipt.

    MODEL is a path or a name from `bankml list`; without it, the default model. The file is guarded, hashed and held to
    its pin before the port opens.
    """
    from bankml.core.http.settings import Settings, listen_address, origins

    host, port = listen_address(listen)
    settings = Settings(
        host=host,
        port=port,
        allow_origin=origins(allow_origin),
        quiet=quiet,
        llama_threads=opening.options.llama_threads,
        threads=opening.options.threads,
        read_seconds=read_timeout,
        write_seconds=write_timeout,
    )

    from bankml.core.http.server import bound_socket, run
    from bankml.core.pins import resolve_model
    from bankml.core.serve.app import create_app

    path = resolve_model(model)
    bound, settings = bound_socket(settings)

    def open_engine() -> Engine:
        return _open(path, opening)

    engine = open_engine()

    def ready() -> None:
        sha256 = engine.verified.sha256 if engine.verified else "none"
        click.echo(
            f"bankml serve: {path.name} verified (sha256 {sha256}); threads {settings.threads or 'all'}, "
            f"llama-threads {settings.llama_threads}, ctx {engine.n_ctx}; listening on http://{settings.address}",
            err=True,
        )

    run(lambda stopping, log: create_app(engine, settings, open_engine, stopping, log), settings, bound, ready)


def _open(path: Path, opening: Opening) -> Engine:
    click.echo(f"bankml serve: verifying {path.name}", err=True)
    verified = opening.verify(path)
    click.echo("bankml serve: loading; kernels are compiled at the first start", err=True)
    engine = opening.load(verified, warm=True)
    # The first answer with a grammar does not wait for it.
    _ = engine.vocabulary
    if engine.inexact is not None:
        click.echo(f"bankml serve: answers are not exact: {engine.inexact}", err=True)
    # A template that does not run is refused at the start, as llama-server does, not at the first request.
    _ = engine.template
    return engine
