# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an argument or option may hold: text, which is UTF-8; a file or a model, whose names are bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    ParamType = click.ParamType[str]
else:
    # Not every version of click that will do has it as a generic class.
    ParamType = click.ParamType


def utf8(data: bytes, code: str, where: str) -> str:
    """Bytes as text.

    Raises:
        Refusal: ``code``: they are not UTF-8; it names the first byte that is wrong.
    """
    from bankml.core.refusal import Refusal

    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"{where}, byte {error.start}"
        raise Refusal(code, "the text is not UTF-8", where=place, found=f"0x{data[error.start]:02x}") from None


def argument_text(value: str, code: str, where: str) -> str:
    """An argument as text.

    Raises:
        Refusal: ``code``: its bytes are not UTF-8.
    """
    return utf8(value.encode("utf-8", "surrogateescape"), code, where)


class _Text(ParamType):
    """Text of the command line; bytes that are not UTF-8 are refused as ``<command>.utf8``."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        command = ctx.command_path.split()[1:2] if ctx is not None else []
        return argument_text(str(value), f"{command[0] if command else 'bankml'}.utf8", _place(param))


class _Model(ParamType):
    """A path, or a name from ``bankml list``: any bytes that a file name may have."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value)


def _place(param: click.Parameter | None) -> str:
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    return "the argument" if param is None else f"the argument {param.human_readable_name}"


TEXT = _Text()
MODEL = _Model()
FILE = click.Path(path_type=Path)
