# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tokens of the prompts that a request names: texts, token ids, and lists of both.

Source: tokenize_input_prompts, tokenize_mixed, tools/server/server-common.cpp.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

from bankml.core.json.faults import server_error, type_error
from bankml.core.serve.llama.fields import too_many
from bankml.refusal import Refusal

if TYPE_CHECKING:
    from bankml.core.tokenizer.tokenizer import Tokenizer

MAX_PROMPTS: Final = 256
_TEXT = "prompt_string"
_NO_PROMPT = (
    '"prompt" elements must be a string, a list of tokens, a JSON object containing a prompt string, or a list of mixed '
    "strings & tokens."
)


def prompt_tokens(tokenizer: Tokenizer, prompt: Any) -> list[array[int]]:
    """The tokens of each prompt: a list without a token id is a list of prompts, anything else is one.

    Raises:
        Refusal: in llama-server's words; 400. More than :data:`MAX_PROMPTS` are refused here alone.
    """
    several = isinstance(prompt, list) and not any(_is_id(each) for each in prompt)
    if several and not prompt:
        raise _refused('"prompt" must not be empty')
    if several and len(prompt) > MAX_PROMPTS:
        raise too_many("prompt", len(prompt), MAX_PROMPTS)
    try:
        return [_one(tokenizer, each) for each in (prompt if several else [prompt])]
    except Refusal as refusal:
        raise _refused(refusal.message) from None


def mixed(tokenizer: Tokenizer, content: Any, add_special: bool, parse_special: bool) -> array[int]:
    """The tokens of a text, or of a list of texts and ids, of which only a first text begins with the special tokens.

    Raises:
        Refusal: a part is of another type; 500, as where nothing catches it in llama-server.
    """
    if not isinstance(content, list):
        if not isinstance(content, str):
            raise server_error(type_error("string", content))
        return tokenizer.encode_compactly(content, add_special=add_special, parse_special=parse_special)
    found = array("i")
    for index, part in enumerate(content):
        if isinstance(part, str):
            found += tokenizer.encode_compactly(part, add_special=add_special and index == 0, parse_special=parse_special)
        else:
            found.append(token_id(part))
    return found


def token_id(value: Any) -> int:
    """A number as nlohmann::json makes it an int32; -1, which is no token, for one beyond 32 bits, whose bits llama-server drops.

    Raises:
        Refusal: not a number; 500.
    """
    if not isinstance(value, int | float):
        raise server_error(type_error("number", value))
    return int(value) if -(1 << 31) <= value < 1 << 31 else -1


def _one(tokenizer: Tokenizer, prompt: Any) -> array[int]:
    if isinstance(prompt, list):
        ids = [_is_id(each) for each in prompt]
        if all(ids):
            return array("i", map(token_id, prompt))
        if any(ids) and any(isinstance(each, str) for each in prompt):
            return mixed(tokenizer, prompt, add_special=True, parse_special=True)
    if isinstance(prompt, str):
        return tokenizer.encode_compactly(prompt, add_special=True, parse_special=True)
    if not isinstance(prompt, dict) or _TEXT not in prompt:
        raise _refused(_NO_PROMPT)
    if "multimodal_data" in prompt:
        raise _refused("Multimodal data provided, but model does not support multimodal requests.")
    return mixed(tokenizer, prompt[_TEXT], add_special=True, parse_special=True)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _refused(message: str) -> Refusal:
    return Refusal("http.prompt", message, where="/prompt")
