# SPDX-License-Identifier: MIT OR Apache-2.0
"""What constraints and probabilities cost: the trie, masks over the vocabulary, a schema's grammar, the chain with logprobs.

Times are those of the thread that computes, so that other processes disturb them less; of the model's token it is wall time.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bankml.bench.samples import Samples
from bankml.refusal import Refusal

if TYPE_CHECKING:
    from bankml.core.tokenizer.tokenizer import Tokenizer

STEPS = 48
TOKENS = 32
TOP = 20

_GRAMMARS = {
    "prose": 'root ::= sentence+\nsentence ::= [A-Z] [a-z]+ ([ ,] [a-zà-ÿ]+)* [.!?] " "',
    "lists": 'root ::= ("- " [^\\n]+ "\\n" | [0-9]+ ". " [^\\n]+ "\\n")+',
    "code": 'root ::= (name " = " value "\\n")+\nname ::= [a-z_] [a-z_0-9]*\nvalue ::= [0-9]+ | name | "(" value " + " value ")"',
    "script": "root ::= [぀-ヿ一-鿿 ]+ | [а-яА-Я ,.]+ | [؀-ۿ ]+",
    "thought": 'root ::= "<" [a-z]+ ">" .* "</" [a-z]+ ">"',
}


@dataclass(frozen=True)
class Costs:
    """What was measured; times in milliseconds, ``None`` where the file has no weights.

    Attributes:
        vocabulary: how many tokens there are.
        trie: building the vocabulary's trie.
        first_masks: the first mask of each grammar, which finds the states that it needs.
        masks: all masks on the way through answers of each grammar, the first ones included.
        schema: the grammar of a schema that becomes ``rules`` rules.
        chain: the default chain over logits of the whole vocabulary.
        logprobs: the same, and the logprobs of the most probable tokens.
        token: what the model itself takes for a token, on ``threads`` threads.
    """

    model: Path
    vocabulary: int
    threads: int
    rules: int
    trie: Samples
    first_masks: Samples
    masks: Samples
    schema: Samples
    chain: Samples
    logprobs: Samples
    token: Samples | None

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``: the values, masks only as median and worst."""
        whole = asdict(self)
        whole["model"] = str(self.model)
        for name in ("first_masks", "masks"):
            samples: Samples = getattr(self, name)
            whole[name] = {"median": samples.median, "worst": samples.spread[1], "count": len(samples.values)}
        return whole


def measure_constraints(path: Path, threads: int, rounds: int) -> Costs:
    """Measure on the vocabulary of a file, and where it has weights on its model too.

    Raises:
        Refusal: the file cannot be read, or bankml has no tokenizer for it.
    """
    from bankml.core.constrain.schema import grammar_of_text
    from bankml.core.constrain.trie import VocabularyTrie
    from bankml.core.gguf.reader import GgufFile
    from bankml.core.tokenizer.tokenizer import Tokenizer

    schema = json.dumps(_schema()).encode()
    grammar = grammar_of_text(schema).text.decode()
    with GgufFile.open(path) as gguf:
        tokenizer = Tokenizer.from_gguf(gguf)
        has_weights = bool(gguf.tensors)
    vocabulary = VocabularyTrie.of(tokenizer)
    texts = {**_GRAMMARS, "schema": grammar, "json": grammar_of_text(b'{"type": "object"}').text.decode()}
    walks = [_walk(text, tokenizer, vocabulary, seed) for seed in range(rounds) for text in texts.values()]
    chain, logprobs = _chain(tokenizer.n_vocab, rounds)
    return Costs(
        model=path,
        vocabulary=tokenizer.n_vocab,
        threads=threads,
        rules=grammar.count("::="),
        trie=Samples.of([_spent(lambda: VocabularyTrie.of(tokenizer)) for _ in range(rounds)]),
        first_masks=Samples.of([walk[0] for walk in walks]),
        masks=Samples.of([each for walk in walks for each in walk]),
        schema=Samples.of([_spent(lambda: grammar_of_text(schema)) for _ in range(rounds)]),
        chain=chain,
        logprobs=logprobs,
        token=_token(path, threads, rounds) if has_weights else None,
    )


def _spent(work: Callable[[], Any]) -> float:
    start = time.thread_time()
    work()
    return (time.thread_time() - start) * 1e3


def _schema() -> dict[str, Any]:
    """A schema of orders, customers and places, large enough for its grammar to have the rules that are asked for."""
    place = {"type": "object", "properties": {"street": {"type": "string", "maxLength": 40}, "zip": {"pattern": "^[0-9]{5}$"}}}
    order = {
        "type": "object",
        "properties": {
            "number": {"type": "integer", "minimum": 1, "maximum": 99999},
            "state": {"enum": ["open", "paid", "sent", "returned"]},
            "placed": {"format": "date-time"},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}, "minItems": 1},
            "to": {"$ref": "#/$defs/place"},
            "note": {"type": ["string", "null"]},
        },
        "required": ["number", "state", "placed", "lines"],
    }
    line = {
        "type": "object",
        "properties": {"article": {"type": "string"}, "count": {"type": "integer"}, "price": {"type": "number"}},
    }
    fields = {f"extra{i}": {"anyOf": [{"type": "boolean"}, {"type": "integer"}, {"const": i}]} for i in range(16)}
    return {
        "type": "object",
        "properties": {"id": {"format": "uuid"}, "orders": {"type": "array", "items": order}, **fields},
        "required": ["id", "orders"],
        "$defs": {"place": place, "line": line},
    }


def _walk(text: str, tokenizer: Tokenizer, vocabulary: Any, seed: int) -> list[float]:
    """Milliseconds of the masks on the way through an answer that takes any token that fits."""
    from bankml.core.constrain.grammar import Grammar

    grammar = Grammar.parse(text, tokenizer=tokenizer, vocabulary=vocabulary)
    draw = random.Random(seed)  # noqa: S311 - a walk, not a secret
    spent = []
    for _ in range(STEPS):
        start = time.thread_time()
        mask = grammar.mask()
        spent.append((time.thread_time() - start) * 1e3)
        fitting = np.flatnonzero(mask)
        if not fitting.size:
            break
        token = int(fitting[draw.randrange(fitting.size)])
        if token in vocabulary.eog:
            break
        grammar.accept(token)
    return spent


def _chain(n_vocab: int, rounds: int) -> tuple[Samples, Samples]:
    """The default chain at a temperature of 0.8, alone and with logprobs, over logits that are drawn anew for each token."""
    from bankml.core.sampling import SamplingParams
    from bankml.core.sampling.chain import Sampler
    from bankml.core.sampling.probabilities import Logprobs

    rng = np.random.default_rng(1)
    sampler, measure = Sampler(SamplingParams(seed=1), n_vocab), Logprobs(n_vocab, TOP)
    alone, together = [], []
    for _ in range(rounds * TOKENS):
        logits = (3 * rng.standard_normal(n_vocab)).astype(np.float32)
        start = time.thread_time()
        token = sampler.sample(logits)
        sampler.accept(token)
        middle = time.thread_time()
        measure(logits, sampler.chain.candidates, token)
        alone.append((middle - start) * 1e3)
        together.append((time.thread_time() - start) * 1e3)
    return Samples.of(alone), Samples.of(together)


def _token(path: Path, threads: int, rounds: int) -> Samples | None:
    """Milliseconds that the model takes for a token; None where bankml does not play it."""
    from bankml.core.engine import Engine, EngineOptions

    try:
        engine = Engine.open(path, EngineOptions(n_ctx=512, threads=threads, inexact=True))
    except Refusal:
        return None
    spent = []
    with engine:
        for _ in range(rounds):
            start = time.perf_counter()
            for position in range(TOKENS):
                engine.model.eval([position], position)
            spent.append((time.perf_counter() - start) * 1e3 / TOKENS)
    return Samples.of(spent)
