# SPDX-License-Identifier: MIT OR Apache-2.0
"""Record what the reference makes of vocabularies that no model has, for tests/text/test_tokenizer_odd.py.

Usage: python testing/record_odd_vocabularies.py REFERENCE_DIR tests/text/records/odd-vocabularies.json.gz [--check]

With ``--check`` the reference is asked again and nothing is written: exit code 0 only if the record stands.

Merges outside the vocabulary and out of order, bytes without a token, every end-of-generation and infill name at once,
special tokens of equal length that overlap, odd token types, special ids out of range, stripped white space.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from bankml.core.gguf.types import ARRAY, BOOL, I32, STRING, U32
from bankml.core.gguf.writer import write_gguf
from bankml.core.tokenizer.bpe import BYTE_CHARS
from bankml.core.tokenizer.vocab_special import _EOG_TEXTS, _FIM_TEXTS
from bankml.oracle.cases.token_corpus import Draw
from bankml.oracle.kinds.tokenizer import MODES
from bankml.reference.build import Reference
from bankml.reference.vocabulary import ReferenceVocab

NAMES = [*" ".join(_FIM_TEXTS.values()).split(), *_EOG_TEXTS.split(), "<|channel|>", "<|message|>", "<|start|>"]
LETTERS = ("abcd e1'\n", "abé中 .,!s'")
PRE = ("smollm", "gpt-2", "llama-bpe", "qwen2", "jina-v2-de", "dbrx", "tekken", "deepseek-v3")
IDS = ("bos", "eos", "eot", "eom", "fim_pre", "fim_pad", "fim_sep", "padding", "prefix", "suffix")
FLAGS = ("add_space_prefix", "add_bos_token", "add_eos_token")
ROLES = ("bos", "eos", "fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep")


def shuffled(draw: Draw, items: list[Any]) -> list[Any]:
    """The items in a drawn order."""
    rest = list(items)
    return [rest.pop(draw.below(len(rest))) for _ in items]


def definition(draw: Draw, number: int) -> dict[str, Any]:
    """One vocabulary."""
    letters = LETTERS[number % 2]
    parts = sorted({BYTE_CHARS[byte] for byte in letters.encode()})
    merges: list[str] = []
    for _ in range(5 + draw.below(200)):
        left, right = draw.one(parts), draw.one(parts)
        if len(left + right) <= 12:
            merges.append(f"{left} {right}")
            if draw.below(5):
                parts.append(left + right)
    merges = shuffled(draw, merges)
    if number % 3 == 0:
        merges += [*merges[:5], "nospace", "  x", "a "]
    kept = 60 if number % 4 == 0 else 85
    tokens = dict.fromkeys((part for part in parts if draw.below(100) < kept), 1)
    for _ in range(draw.one((0, 3, 40))):
        tokens.setdefault("".join(draw.one("ab< >") for _ in range(1 + draw.below(5))), draw.one((1, 2, 3, 3, 4, 4, 5, 6, 0, 9)))
    for name in (*NAMES, "<mask>", "[MASK]", "<unk>", "<s>"):
        if draw.below(2):
            tokens[name] = draw.one((1, 3, 4))
    rows = [(text, 1 if kind == 6 and len(text.encode()) < 3 else kind) for text, kind in shuffled(draw, list(tokens.items()))]
    needed = {"</s>", "<unk>", "<s>", "<|endoftext|>"} <= set(tokens)
    return {
        "name": draw.one(("x", "My Modern-BERT", "Phi-3 mini" if needed else "x")),
        "pre": draw.one(PRE),
        "tokens": [text for text, _ in rows],
        "types": [kind for _, kind in rows],
        "merges": merges,
        "ids": {key: draw.one((0, 3, len(rows) - 1, len(rows) + 5)) for key in IDS if draw.below(10) < 3},
        "flags": {key: bool(draw.below(2)) for key in FLAGS if draw.below(10) < 3},
    }


def write(path: Path, given: dict[str, Any]) -> None:
    """The vocabulary as a file; the test writes it the same way."""
    write_gguf(
        path,
        [
            ("general.architecture", STRING, "llama"),
            ("general.name", STRING, given["name"]),
            ("tokenizer.ggml.model", STRING, "gpt2"),
            ("tokenizer.ggml.pre", STRING, given["pre"]),
            ("tokenizer.ggml.tokens", (ARRAY, STRING), given["tokens"]),
            ("tokenizer.ggml.token_type", (ARRAY, I32), given["types"]),
            ("tokenizer.ggml.merges", (ARRAY, STRING), given["merges"]),
            *((f"tokenizer.ggml.{key}_token_id", U32, value) for key, value in given["ids"].items()),
            *((f"tokenizer.ggml.{key}", BOOL, value) for key, value in given["flags"].items()),
        ],
        [],
    )


def text(draw: Draw, given: dict[str, Any], letters: str) -> str:
    """A text of the vocabulary's letters and, half the time, of its tokens."""
    if draw.below(2):
        return "".join(draw.one(letters) for _ in range(draw.one((3, 20, 130))))
    items = [*given["tokens"], *letters, " ", "  "]
    return "".join(draw.one(items) for _ in range(1 + draw.below(12)))


def answers(vocab: ReferenceVocab, draw: Draw, given: dict[str, Any], letters: str) -> dict[str, Any]:
    """What the reference says of one vocabulary."""
    safe = not vocab.number("get_add_bos") or vocab.number("bos") >= 0
    safe = safe and (not vocab.number("get_add_eos") or vocab.number("eos") >= 0)
    rows = []
    for turn in range(40):
        content = text(draw, given, letters)
        # Without the token that it should add, the reference aborts.
        mode = MODES[turn % 4] if safe else (False, MODES[turn % 4][1])
        ids = vocab.encode(content.encode(), *mode)
        rows.append([content, *mode, ids, vocab.decode(ids, *mode).decode("latin-1")])
    return {
        "roles": {role: vocab.number(role) for role in ROLES},
        "eog": vocab.which("is_eog"),
        "control": vocab.which("is_control"),
        "pieces": [[vocab.piece(token, special).decode("latin-1") for special in (False, True)] for token in range(vocab.size)],
        "texts": rows,
    }


def main(reference: str, target: str, *options: str) -> int:
    """Write the record, or hold it to the reference; returns 0, or 1 where it does not stand."""
    draw = Draw(7)
    asked = Reference(reference)
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(24):
            given = definition(draw, number)
            path = Path(folder) / f"{number}.gguf"
            write(path, given)
            with ReferenceVocab(asked, path) as vocab:
                cases.append({**given, "answers": answers(vocab, draw, given, LETTERS[number % 2])})
    if "--check" in options:
        committed = json.loads(gzip.decompress(Path(target).read_bytes()))["vocabularies"]
        fresh = json.loads(json.dumps(cases))
        same = sum(a == b for a, b in zip(committed, fresh, strict=False))
        print(f"odd-vocabularies: {same} of {max(len(committed), len(fresh))} identical")
        return 0 if committed == fresh else 1
    record = {"made_with": asked.facts(), "vocabularies": cases}
    Path(target).write_bytes(gzip.compress(json.dumps(record, separators=(",", ":")).encode(), mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
