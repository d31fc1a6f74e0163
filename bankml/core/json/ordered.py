# SPDX-License-Identifier: MIT OR Apache-2.0
"""JSON as nlohmann's ordered_json reads and writes it: key order kept, the last duplicate wins, numbers printed its way."""

from __future__ import annotations

import json
import math
from typing import Any, Final, NoReturn

from bankml.core.json.doubles import number
from bankml.core.json.writer import blocks
from bankml.refusal import Refusal

MAX_TEXT: Final = 1 << 20


def read(text: bytes) -> Any:
    """The value of a JSON text. Integers beyond 64 bits become doubles.

    Raises:
        Refusal: ``schema.json``, or ``schema.limit`` where the text is too long or nested too deeply.
    """
    if len(text) > MAX_TEXT:
        raise _too_long()
    try:
        value = json.loads(
            text.removeprefix(b"\xef\xbb\xbf").decode("utf-8"),
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_integer,
        )
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise Refusal("schema.limit", "the schema is nested too deeply") from None
    except ValueError as error:
        raise Refusal("schema.json", "the schema is no JSON", found=str(error)) from None
    return value


def rewritten(value: Any) -> Any:
    """A schema as llama-server hands it on: written out and read again.

    Raises:
        Refusal: as :func:`read`.
    """
    size = 0
    for block in blocks(value):
        size += len(block)
        if size > MAX_TEXT:
            raise _too_long()
    return read(dump(value).encode("utf-8"))


def _too_long() -> Refusal:
    message = f"the schema is too long: bankml's limit is {MAX_TEXT} bytes"
    return Refusal("schema.limit", message, allowed=f"at most {MAX_TEXT} bytes")


def dump(value: Any) -> str:
    """A value as one line without blanks."""
    if isinstance(value, dict):
        return "{" + ",".join([f"{dump(key)}:{dump(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([dump(item) for item in value]) + "]"
    if isinstance(value, float):
        return number(value)
    return json.dumps(value, ensure_ascii=False)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"number overflow parsing '{text[:40]}'")
    return value


def _integer(text: str) -> int | float:
    if len(text) > 20:
        return _finite(text)
    value = int(text)
    return value if -(2**63) <= value < 2**64 else float(value)
