# SPDX-License-Identifier: MIT OR Apache-2.0
"""UTF-8 at the borders of tokens: what may be shown yet, and how the reference reads bytes that are not UTF-8."""

from __future__ import annotations

from bankml.refusal import Refusal

_MAX_POINT = 0x10FFFF
_REPLACEMENT = "\ufffd"


def complete(data: bytes | bytearray) -> int:
    """How many bytes of ``data`` stand before a character that is cut off at its end; all of them when none is.

    Only the last four bytes are looked at, and a lead byte counts as cut off until as many bytes follow as it announces,
    whatever they are.

    Source: validate_utf8, tools/server/server-common.cpp.
    """
    size = len(data)
    for back in range(1, min(4, size) + 1):
        byte = data[size - back]
        wanted = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4 if byte & 0xF8 == 0xF0 else 0
        if back < wanted:
            return size - back
    return size


def decode_lenient(data: bytes) -> str:
    """The code points that the reference's tokenizer sees in ``data``; the same as strict decoding where that succeeds.

    Over-long forms and surrogates are taken at their value; a byte that starts nothing, or a character cut short, is one
    U+FFFD and reading goes on at the next byte.

    Raises:
        Refusal: a form past U+10FFFF, on which the reference ends with an exception.

    Source: unicode_cpts_from_utf8, src/unicode.cpp.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    points: list[str] = []
    pos = 0
    while pos < len(data):
        lead = data[pos]
        follow = (
            0 if lead < 0x80 else 1 if lead & 0xE0 == 0xC0 else 2 if lead & 0xF0 == 0xE0 else 3 if lead & 0xF8 == 0xF0 else -1
        )
        tail = data[pos + 1 : pos + 1 + follow] if follow > 0 else b""
        if follow < 0 or len(tail) < follow or any(byte & 0xC0 != 0x80 for byte in tail):
            points.append(_REPLACEMENT)
            pos += 1
            continue
        point = lead if follow == 0 else lead & (0x3F >> follow)
        for byte in tail:
            point = point << 6 | byte & 0x3F
        if point > _MAX_POINT:
            raise Refusal(
                "text.utf8",
                "the text holds a byte sequence past the last code point, on which llama.cpp stops",
                where=f"byte {pos}",
                found=data[pos : pos + 4].hex(" "),
                allowed="UTF-8",
            )
        points.append(chr(point))
        pos += 1 + follow
    return "".join(points)
