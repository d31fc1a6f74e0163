# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tokenizer's oracle: ids of texts with specials added and parsed or not, pieces, detokenized text."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from bankml.core.gguf.reader import GgufFile
from bankml.core.tokenizer.pretokenizer_patterns import PRE
from bankml.core.tokenizer.tokenizer import Tokenizer
from bankml.oracle.cases.token_corpus import broken, drawn, neighbours, written
from bankml.oracle.cases.token_vocabulary import write_vocabulary
from bankml.oracle.kind import Tally
from bankml.oracle.options import NUMBER, SWITCH, TEXT, Option, Options, declared, refuse_idle
from bankml.reference.build import Reference
from bankml.reference.vocabulary import ReferenceVocab
from bankml.refusal import EXIT_OTHER, Refusal

MODES: Final = ((False, False), (False, True), (True, False), (True, True))
"""``(add_special, parse_special)`` of a text's four encodings; ``(special, remove)`` of its four decodings."""

SEED: Final = 11192
EVERY: Final = "every"
CHUNK: Final = 256
_POINTS: Final = ((0, 0x3400), (0x4D00, 0x5000), (0x9F00, 0xAD00), (0xD600, 0x18E00), (0x1AF00, 0x20100), (0xE0000, 0xE0200))


class _Side(Protocol):
    """What both the reference and bankml can do with a vocabulary."""

    def encode(self, text: bytes, add_special: bool, parse_special: bool) -> list[int]: ...

    def piece(self, token: int, special: bool) -> bytes: ...

    def decode(self, tokens: Sequence[int], special: bool, remove: bool) -> bytes: ...


class _Ours:
    """bankml's side, asked in bytes as the library is."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.encode = tokenizer.encode
        self.piece = tokenizer.piece
        self.decode = tokenizer.decode


def _digest(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
    return hashlib.sha256(data).hexdigest()


def _short_digests(side: _Side, text: bytes) -> str:
    """Eight hexadecimal digits for each of the four encodings."""
    return "".join(_digest(side.encode(text, *mode))[:8] for mode in MODES)


def _decodings(side: _Side, ids: Sequence[int]) -> list[str]:
    return [_digest(side.decode(ids, *mode))[:16] for mode in MODES]


def _pieces(side: _Side, size: int, special: bool) -> str:
    return _digest(b"\0".join(side.piece(token, special) for token in range(size)))


def _points() -> Iterator[int]:
    for first, end in _POINTS:
        yield from range(first, end, CHUNK)


def _surrogate_free(first: int) -> str:
    return "" if 0xD800 <= first < 0xE000 else neighbours(first, CHUNK)


def _facts(vocab: ReferenceVocab) -> dict[str, Any]:
    return {
        "n_vocab": vocab.size,
        "bos": vocab.number("bos"),
        "eos": vocab.number("eos"),
        "add_bos": bool(vocab.number("get_add_bos")),
        "add_eos": bool(vocab.number("get_add_eos")),
        "eog": vocab.which("is_eog"),
        "control": _digest(vocab.which("is_control")),
        "pieces": _pieces(vocab, vocab.size, False),
        "pieces_special": _pieces(vocab, vocab.size, True),
    }


def _our_facts(ours: Tokenizer) -> dict[str, Any]:
    side = _Ours(ours)
    return {
        "n_vocab": ours.n_vocab,
        "bos": -1 if ours.bos is None else ours.bos,
        "eos": -1 if ours.eos is None else ours.eos,
        "add_bos": ours.add_bos,
        "add_eos": ours.add_eos,
        "eog": sorted(ours.eog),
        "control": _digest([token for token in range(ours.n_vocab) if ours.is_control(token)]),
        "pieces": _pieces(side, ours.n_vocab, False),
        "pieces_special": _pieces(side, ours.n_vocab, True),
    }


def _ask_server(reference: Reference, model: Path, texts: Iterable[str], port: int | None) -> list[list[list[int]]]:
    """The four encodings of each text by llama-server's ``/tokenize``."""
    answers = []
    with reference.server(model, ctx=512, threads=2, port=port) as server:
        for text in texts:
            four = []
            for add_special, parse_special in MODES:
                body = {"content": text, "add_special": add_special, "parse_special": parse_special}
                status, answer = server.post("/tokenize", body)
                if status != 200:
                    raise Refusal("reference.tokenize", "the reference refused a text", found=str(answer), exit_code=EXIT_OTHER)
                four.append(answer["tokens"])
            answers.append(four)
    return answers


@contextlib.contextmanager
def _file(model: Path | None, pre: str | None) -> Iterator[Path]:
    """The model, or for ``pre`` a small vocabulary that is made for the occasion."""
    if pre is None:
        if model is None:
            raise Refusal("oracle.model", "this record needs its model file, or a vocabulary with pre=NAME", exit_code=EXIT_OTHER)
        yield model
        return
    with tempfile.TemporaryDirectory(prefix="bankml-vocab-") as folder:
        path = Path(folder) / "vocabulary.gguf"
        write_vocabulary(path, pre)
        yield path


def _names() -> list[str]:
    """One name for each meaning that a pre-tokenizer can have."""
    return list({pre: name for name, pre in reversed(PRE.items())}.values())


def _survey_texts() -> list[str]:
    return [*written(), *drawn(SEED + 1, 150)]


def _survey(name: str, reference: Reference) -> str:
    with _file(None, name) as path, ReferenceVocab(reference, path) as vocab:
        return "".join(_short_digests(vocab, text.encode()) for text in _survey_texts())


def _compare_survey(tally: Tally, name: str, recorded: str) -> None:
    with _file(None, name) as path, GgufFile.open(path) as gguf:
        side = _Ours(Tokenizer.from_gguf(gguf))
    for place, text in enumerate(_survey_texts()):
        _compare_digests(tally, side, text, recorded[32 * place : 32 * place + 32], f"{name}: {text!r}")


class TokenizerKind:
    """Texts through ``llama_tokenize`` or ``/tokenize``, and back.

    Options: ``pre=NAME`` records a small vocabulary of that pre-tokenizer instead of a model, ``pre=every`` one of each
    in digests; ``server=1`` asks llama-server for the written texts (``port=N``); ``fuzz=N`` draws N texts; ``points=1``
    adds the code points.
    """

    name = "tokenizer"
    checks = "token ids of texts and byte strings, specials added and parsed or not; pieces; detokenized text; special tokens"
    against = "llama_tokenize, llama_token_to_piece, llama_detokenize (libllama), /tokenize (llama-server)"
    small = True
    options: Options = declared(
        pre=Option(TEXT),
        fuzz=Option(NUMBER, 2000),
        server=Option(SWITCH, False),
        port=Option(NUMBER),
        points=Option(SWITCH, False),
    )

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Ask for the written texts in full, for drawn ones and code points in digests."""
        pre = options["pre"]
        if pre == EVERY:
            refuse_idle(self.options, options, ("fuzz", "server", "port", "points"), f"with pre={EVERY}")
            return {"survey": {name: _survey(name, reference) for name in _names()}}
        count = options["fuzz"]
        texts = written()
        with _file(model, pre) as path, ReferenceVocab(reference, path) as vocab:
            if options["server"]:
                encodings = _ask_server(reference, path, texts, options["port"])
            else:
                encodings = [[vocab.encode(text.encode(), *mode) for mode in MODES] for text in texts]
            rows = [
                {"text": text, "ids": four, "decoded": _decodings(vocab, four[3])}
                for text, four in zip(texts, encodings, strict=True)
            ]
            strings = list(broken(SEED, 300))
            fuzz = list(drawn(SEED, count))
            return {
                "pre": pre,
                "facts": _facts(vocab),
                "texts": rows,
                "bytes": [{"hex": data.hex(), "ids": [vocab.encode(data, *mode) for mode in MODES]} for data in strings],
                "fuzz": {
                    "seed": SEED,
                    "sha256": _digest(fuzz),
                    "digests": [_short_digests(vocab, text.encode()) for text in fuzz],
                },
                "points": [_short_digests(vocab, _surrogate_free(first).encode()) for first in _points()]
                if options["points"]
                else [],
            }

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """Encode and decode it all again."""
        tally = Tally()
        if "survey" in body:
            for name, recorded in body["survey"].items():
                _compare_survey(tally, name, recorded)
            return tally
        with _file(model, body["pre"]) as path, GgufFile.open(path) as gguf:
            ours = Tokenizer.from_gguf(gguf)
        facts = _our_facts(ours)
        for name, value in body["facts"].items():
            tally.count(facts[name] == value, f"{name}: {facts[name]}, recorded {value}")
        side = _Ours(ours)
        for row in body["texts"]:
            _compare_ids(tally, side, row["text"].encode(), row["ids"], row["text"])
            found = _decodings(side, row["ids"][3])
            for mode, digest, recorded in zip(MODES, found, row["decoded"], strict=True):
                tally.count(digest == recorded, f"decoded {row['text']!r}, special and remove {mode}")
        for row in body["bytes"]:
            _compare_ids(tally, side, bytes.fromhex(row["hex"]), row["ids"], row["hex"])
        digests = body["fuzz"]["digests"]
        fuzz = list(drawn(body["fuzz"]["seed"], len(digests)))
        tally.count(_digest(fuzz) == body["fuzz"]["sha256"], "the drawn texts are not those of the record")
        for text, recorded in zip(fuzz, digests, strict=True):
            _compare_digests(tally, side, text, recorded, repr(text))
        for first, recorded in zip(_points(), body["points"], strict=False):
            _compare_digests(tally, side, _surrogate_free(first), recorded, f"U+{first:04X} and on")
        return tally


def _compare_ids(tally: Tally, side: _Side, text: bytes, recorded: list[list[int]], shown: str) -> None:
    for mode, ids in zip(MODES, recorded, strict=True):
        found = side.encode(text, *mode)
        tally.count(found == ids, f"{shown!r}, add and parse special {mode}: {found}, recorded {ids}")


def _compare_digests(tally: Tally, side: _Side, text: str, recorded: str, shown: str) -> None:
    found = _short_digests(side, text.encode())
    for place, mode in enumerate(MODES):
        part = slice(8 * place, 8 * place + 8)
        tally.count(found[part] == recorded[part], f"{shown}, add and parse special {mode}")


KIND = TokenizerKind()
