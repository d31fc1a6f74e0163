# SPDX-License-Identifier: MIT OR Apache-2.0
"""``/tokenize``, ``/detokenize`` and ``/apply-template``: text without computing, as llama-server answers it.

Source: post_tokenize, post_detokenize, post_apply_template (tools/server/server-context.cpp).
"""

from __future__ import annotations

import codecs
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from bankml.core.json.faults import server_error, type_error
from bankml.core.json.writer import Joined
from bankml.core.serve.llama.fields import ignored_by_llama
from bankml.core.serve.llama.prompts import mixed, token_id
from bankml.core.serve.llama.request import as_object

if TYPE_CHECKING:
    from bankml.core.engine import Engine
    from bankml.core.tokenizer.tokenizer import Tokenizer

_TOKENS: Final = 1 << 12


def tokenize(engine: Engine, body: Any) -> dict[str, Any]:
    """The tokens of ``content``: a string, or an array of strings and token ids.

    Raises:
        Refusal: a member is of a wrong type, or a token does not exist.
    """
    if not isinstance(body, dict) or "content" not in body:
        return {"tokens": []}
    add_special = _flag(body, "add_special", False)
    parse_special = _flag(body, "parse_special", True)
    with_pieces = _flag(body, "with_pieces", False)
    tokens = mixed(engine.tokenizer, body["content"], add_special, parse_special)
    if not with_pieces:
        return {"tokens": tokens}
    return {"tokens": ({"id": token, "piece": _piece(engine.tokenizer, token)} for token in tokens)}


def detokenize(engine: Engine, body: Any) -> dict[str, Any]:
    """The text of ``tokens``, control tokens included; bytes that make no character read U+FFFD.

    Raises:
        Refusal: ``tokens`` is no array of token ids.
    """
    if not isinstance(body, dict) or "tokens" not in body:
        return {"content": ""}
    tokens = body["tokens"]
    if not isinstance(tokens, list):
        raise server_error(type_error("array", tokens))
    ids = array("i", map(token_id, tokens))
    tokens.clear()
    for token in ids:
        _bytes(engine.tokenizer, token)
    return {"content": Joined(_text(engine.tokenizer, ids))}


def _text(tokenizer: Tokenizer, ids: array[int]) -> Iterator[str]:
    """The text of tokens, some at a time."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for start in range(0, len(ids), _TOKENS):
        yield decoder.decode(tokenizer.join(ids[start : start + _TOKENS]))
    yield decoder.decode(b"", final=True)


def apply_template(engine: Engine, body: Any) -> dict[str, Any]:
    """The prompt that ``messages`` become.

    Raises:
        Refusal: the request's, or the template's.
    """
    return {"prompt": engine.template.apply(as_object(body)).text}


def _flag(body: dict[str, Any], name: str, default: bool) -> bool:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        # llama-server warns in its log and takes the default.
        raise ignored_by_llama(name, type_error("boolean", value), value, "true or false")
    return value


def _bytes(tokenizer: Tokenizer, token: int) -> bytes:
    if not 0 <= token < tokenizer.n_vocab:
        unsigned = token & 0xFFFFFFFFFFFFFFFF
        message = f"vector::_M_range_check: __n (which is {unsigned}) >= this->size() (which is {tokenizer.n_vocab})"
        raise server_error(message)
    return tokenizer.piece(token, special=True)


def _piece(tokenizer: Tokenizer, token: int) -> str | list[int]:
    piece = _bytes(tokenizer, token)
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        return list(piece)
