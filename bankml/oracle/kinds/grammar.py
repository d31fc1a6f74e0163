# SPDX-License-Identifier: MIT OR Apache-2.0
"""The grammar oracle: masks over the whole vocabulary after each token, and the parser's reasons."""

from __future__ import annotations

import ctypes as c
import hashlib
import os
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bankml.oracle.cases.grammar import GRAMMARS, NAMES_TOKENS, REFUSED
from bankml.oracle.kind import Tally
from bankml.oracle.options import TEXT, Option, Options, declared, files_in
from bankml.reference.build import Reference
from bankml.reference.vocabulary import ReferenceVocab
from bankml.refusal import EXIT_OTHER, Refusal

STEPS: Final = 24
WALKS: Final = 2
_DATA: Final = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])


class _Array(c.Structure):
    _fields_ = (("data", c.c_void_p), ("size", c.c_size_t), ("selected", c.c_int64), ("sorted", c.c_bool))


class ReferenceGrammar:
    """libllama's grammar sampler. Raises: ValueError with what the library printed when it refuses the grammar."""

    def __init__(self, vocab: ReferenceVocab, text: bytes) -> None:
        self._lib = lib = vocab._lib
        lib.llama_sampler_init_grammar.restype = c.c_void_p
        self._size = vocab.size
        with tempfile.TemporaryFile() as caught:
            kept = os.dup(2)
            os.dup2(caught.fileno(), 2)
            said: list[bytes] = []
            log = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)(lambda _, line, __: said.append(line))
            lib.llama_log_set(log, None)
            try:
                made = lib.llama_sampler_init_grammar(vocab.pointer, text, b"root")
            finally:
                lib.llama_log_set(vocab._quiet, None)
                os.dup2(kept, 2)
                os.close(kept)
            caught.seek(0)
            printed = caught.read()
        if not made:
            raise ValueError(_reason(printed, b"".join(said), text))
        self._sampler = c.c_void_p(made)

    def mask(self) -> npt.NDArray[np.bool_]:
        """Which tokens keep their logit."""
        data = np.zeros(self._size, _DATA)
        data["id"] = np.arange(self._size)
        array = _Array(data.ctypes.data, self._size, -1, False)
        self._lib.llama_sampler_apply(self._sampler, c.byref(array))
        return np.asarray(data["logit"] == 0)

    def accept(self, token: int) -> None:
        """Go on after a token that the mask lets pass; the library ends the process for any other."""
        self._lib.llama_sampler_accept(self._sampler, c.c_int32(token))

    def free(self) -> None:
        """Give the memory back."""
        self._lib.llama_sampler_free(self._sampler)


def _reason(printed: bytes, logged: bytes, text: bytes) -> str:
    marker = b"error parsing grammar: "
    if marker in printed:
        return printed.split(marker, 1)[1].removesuffix(b"\n\n" + text + b"\n").decode("utf-8", "replace")
    lines = [line for line in logged.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[0].split(": ", 1)[-1] if lines else ""


def described(mask: npt.NDArray[np.bool_]) -> str:
    """How many tokens pass, and eight hexadecimal digits of sha256 over the mask's bits."""
    return f"{int(mask.sum())}:{hashlib.sha256(np.packbits(mask).tobytes()).hexdigest()[:8]}"


def _byte_tokens(vocab: ReferenceVocab) -> dict[int, int]:
    found: dict[int, int] = {}
    for token in range(vocab.size):
        piece = vocab.piece(token, True)
        if len(piece) == 1:
            found.setdefault(piece[0], token)
    return found


def _followed(grammar: ReferenceGrammar, tokens: Sequence[int], eog: set[int]) -> dict[str, Any]:
    """Masks before each token; stops before one that does not pass and after an end."""
    masks = []
    for token in tokens:
        mask = grammar.mask()
        masks.append(described(mask))
        if not mask[token] or token in eog:
            return {"tokens": list(tokens[: len(masks)]), "masks": masks}
        grammar.accept(token)
    masks.append(described(grammar.mask()))
    return {"tokens": list(tokens), "masks": masks}


def _walked(grammar: ReferenceGrammar, seed: int, eog: set[int]) -> dict[str, Any]:
    """Tokens drawn from those that pass."""
    draw = random.Random(seed)  # noqa: S311 - a stream that is the same everywhere
    tokens, masks = [], []
    for _ in range(STEPS):
        mask = grammar.mask()
        masks.append(described(mask))
        choices = [int(token) for token in np.flatnonzero(mask) if int(token) not in eog]
        if not choices:
            break
        tokens.append(draw.choice(choices))
        grammar.accept(tokens[-1])
    else:
        masks.append(described(grammar.mask()))
    return {"tokens": tokens, "masks": masks}


class Grammar:
    """Kind ``grammar``; the option ``grammars`` names a folder of further ``*.gbnf`` files, their texts go into the record."""

    name = "grammar"
    checks = "masks over the whole vocabulary after each token of a text, whole tokens and bytes; reasons of the parser"
    against = "libllama's llama_sampler_init_grammar, _apply and _accept through ctypes"
    small = True
    options: Options = declared(grammars=Option(TEXT))

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Run every grammar through libllama with the vocabulary of ``model``."""
        vocab = ReferenceVocab(reference, _needed(model))
        eog, single = set(vocab.which("is_eog")), _byte_tokens(vocab)
        cases = dict(GRAMMARS)
        if options["grammars"] is not None:
            for path in files_in(options["grammars"], "*.gbnf"):
                cases[path.name] = (path.read_text(encoding="utf-8"), ())
        grammars = []
        for name, (text, texts) in cases.items():
            runs = []
            for each in texts:
                data = each.encode()
                paths = [vocab.encode(data, False, True)]
                if b"<|" not in data and all(byte in single for byte in data):
                    paths.append([single[byte] for byte in data])
                runs += [self._run(vocab, text, lambda g, path=path: _followed(g, path, eog)) for path in paths]
            if name not in NAMES_TOKENS:
                runs += [
                    self._run(vocab, text, lambda g, seed=seed: _walked(g, seed, eog))
                    for seed in range(WALKS if texts else 4 * WALKS)
                ]
            grammars.append({"name": name, "text": text, "runs": runs})
        refusals = []
        for text in REFUSED:
            try:
                ReferenceGrammar(vocab, text.encode()).free()
                reason = ""
            except ValueError as error:
                reason = str(error)
            refusals.append({"text": text, "reason": reason})
        return {"grammars": grammars, "refusals": refusals}

    @staticmethod
    def _run(vocab: ReferenceVocab, text: str, way: Any) -> dict[str, Any]:
        grammar = ReferenceGrammar(vocab, text.encode())
        run: dict[str, Any] = way(grammar)
        grammar.free()
        return run

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """Each mask and each refusal counts once."""
        from bankml.core.constrain.grammar import Grammar as Ours
        from bankml.core.constrain.trie import VocabularyTrie
        from bankml.core.gguf.reader import GgufFile
        from bankml.core.tokenizer.tokenizer import Tokenizer

        with GgufFile.open(_needed(model)) as gguf:
            tokenizer = Tokenizer.from_gguf(gguf)
        vocabulary = VocabularyTrie.of(tokenizer)
        tally = Tally()
        for case in body["grammars"]:
            for number, run in enumerate(case["runs"]):
                grammar = Ours.parse(case["text"], tokenizer=tokenizer, vocabulary=vocabulary)
                where = f"{case['name']} run {number}"
                _compare_run(tally, grammar, run, where)
        for case in body["refusals"]:
            _compare_refusal(tally, tokenizer, case)
        return tally


def _compare_run(tally: Tally, grammar: Any, run: dict[str, Any], where: str) -> None:
    for i, recorded in enumerate(run["masks"]):
        mask = grammar.mask()
        found = described(mask)
        tally.count(found == recorded, f"{where} step {i}: {found}, recorded {recorded}")
        if i == len(run["tokens"]):
            break
        token = run["tokens"][i]
        if grammar.allows(token) != mask[token]:
            tally.count(False, f"{where} step {i}: token {token} alone is judged otherwise than in the mask")
        if not mask[token]:
            break
        grammar.accept(token)


def _compare_refusal(tally: Tally, tokenizer: Any, case: dict[str, Any]) -> None:
    from bankml.core.constrain.grammar import Grammar as Ours

    try:
        Ours.parse(case["text"], tokenizer=tokenizer)
        found = ""
    except Refusal as refusal:
        found = refusal.message
    wanted = _shown(case["reason"], case["text"])
    tally.count(found == wanted, f"{case['text']!r}: {found!r}, recorded {wanted!r}")


def _shown(reason: str, text: str) -> str:
    """The reason as bankml shows it: where the reference quotes the grammar from a place to its end, only the beginning."""
    from bankml.core.constrain.gbnf import quoted

    words, at, rest = reason.partition(" at ")
    return f"{words} at {quoted(rest.encode(), 0)}" if at and rest and text.endswith(rest) else reason


def _needed(model: Path | None) -> Path:
    if model is None:
        raise Refusal("oracle.model", "this record needs the model whose vocabulary it was made with", exit_code=EXIT_OTHER)
    return model


KIND = Grammar()
