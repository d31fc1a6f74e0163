# SPDX-License-Identifier: MIT OR Apache-2.0
"""The speed of a model in llama-bench's terms, and as a ratio to llama-bench round by round."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bankml.bench.llama_bench import Round, llama_bench_round
from bankml.bench.process import machine_facts, peak_resident_bytes
from bankml.bench.samples import Samples
from bankml.core.gguf.reader import GgufFile

if TYPE_CHECKING:
    from bankml.core.model import Model
    from bankml.reference.build import Reference

MICRO_BATCH = 512
BATCH = 2048
"""llama-bench's default: it asks for the logits of the last token of each batch."""


@dataclass(frozen=True)
class Plan:
    """What is measured: ``prompt`` tokens at once, ``generate`` tokens one by one, both after ``depth`` tokens."""

    prompt: int = 512
    generate: int = 128
    depth: int = 0
    rounds: int = 5
    threads: int = 2
    llama_threads: int = 3


@dataclass
class Report:
    """The measurements of one run."""

    model: Path
    plan: Plan
    bytes_per_token: int
    prefill: Samples | None = None
    decode: Samples | None = None
    resident_bytes: int | None = None
    memory_read: float | None = None
    """Bytes a second that the same number of threads reads from memory, measured in the same minute: the best pass."""
    load_seconds: float = 0.0
    first_prompt_seconds: float = 0.0
    """The first prompt after loading, when nothing is in the caches."""
    reference: dict[str, Any] | None = None
    their_prefill: Samples | None = None
    their_decode: Samples | None = None
    their_resident_bytes: int | None = None
    machine: dict[str, object] = field(default_factory=machine_facts)

    @property
    def share_of_memory(self) -> float | None:
        """Bytes of weights a second in the fastest round of decoding, as a share of what memory gives."""
        if self.decode is None or not self.memory_read:
            return None
        return self.bytes_per_token * max(self.decode.values) / self.memory_read

    @property
    def first_token_seconds(self) -> dict[str, float]:
        """Seconds to the first token of the prompt: ``cold``, with the loading of the model before it, and ``warm``."""
        if self.prefill is None:
            return {}
        return {
            "first_token_seconds_cold": self.load_seconds + self.first_prompt_seconds,
            "first_token_seconds_warm": self.plan.prompt / self.prefill.median,
        }

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``: medians, spreads and samples, ratios where there was a reference."""
        plan = self.plan
        members: dict[str, Any] = {
            "model": self.model.name,
            "prompt": plan.prompt,
            "generate": plan.generate,
            "depth": plan.depth,
            "rounds": plan.rounds,
            "threads": plan.threads,
            "bytes_per_token": self.bytes_per_token,
            "memory_read_bytes_per_second": self.memory_read,
            "share_of_memory": self.share_of_memory,
            "load_seconds": self.load_seconds,
            **self.first_token_seconds,
            "resident_bytes": self.resident_bytes,
            **_parts(self.prefill, self.decode),
            "machine": self.machine,
        }
        if self.reference is not None:
            members["reference"] = {
                **self.reference,
                "resident_bytes": self.their_resident_bytes,
                **_parts(self.their_prefill, self.their_decode),
            }
            for name, mine, theirs in (
                ("pp_ratio", self.prefill, self.their_prefill),
                ("tg_ratio", self.decode, self.their_decode),
            ):
                if mine is not None and theirs is not None:
                    members.update(mine.over(theirs).as_dict(name))
        return members


class Ours:
    """A loaded model that prefills and decodes fixed random tokens."""

    load_seconds = 0.0
    first_prompt_seconds = 0.0

    def __init__(self, model: Model, plan: Plan) -> None:
        self._model = model
        self._plan = plan
        stream = np.random.default_rng(0)
        self._tokens: list[int] = stream.integers(model.n_vocab, size=plan.depth + max(plan.prompt, plan.generate)).tolist()

    @classmethod
    def load(cls, gguf: GgufFile, plan: Plan, progress: Any = None) -> Self:
        """Load the model with a context just long enough, as llama-bench does, and warm up as it does."""
        from bankml.core.model import Model

        n_ctx = plan.depth + max(plan.prompt, plan.generate, 1)
        start = time.perf_counter()
        ours = cls(Model.load(gguf, n_ctx=n_ctx, threads=plan.threads, llama_threads=plan.llama_threads, progress=progress), plan)
        ours.load_seconds = time.perf_counter() - start
        if plan.depth:
            ours._prefill(0, plan.depth)
        if plan.prompt:
            ours.first_prompt_seconds = plan.prompt / ours.prefill()
        if plan.generate:
            ours._decode(1)
        return ours

    def prefill(self) -> float:
        """Tokens a second of the prompt, in micro-batches of 512."""
        start = time.perf_counter()
        self._prefill(self._plan.depth, self._plan.prompt)
        return self._plan.prompt / (time.perf_counter() - start)

    def decode(self) -> float:
        """Tokens a second of tokens evaluated one by one, with logits and without sampling."""
        start = time.perf_counter()
        self._decode(self._plan.generate)
        return self._plan.generate / (time.perf_counter() - start)

    def close(self) -> None:
        """Free the model."""
        self._model.close()

    def _prefill(self, first: int, count: int) -> None:
        for at in range(0, count, MICRO_BATCH):
            end = min(at + MICRO_BATCH, count)
            logits = end == count or end % BATCH == 0
            self._model.eval(self._tokens[first + at : first + end], first + at, logits=logits)

    def _decode(self, count: int) -> None:
        depth = self._plan.depth
        for at in range(depth, depth + count):
            self._model.eval(self._tokens[at : at + 1], at)


def measure_depths(
    path: Path,
    plan: Plan,
    depths: Sequence[int],
    reference: Reference | None = None,
    progress: Any = None,
    round_done: Callable[[], object] | None = None,
) -> list[Report]:
    """Measure a model after each number of tokens, then the memory's speed.

    Raises:
        Refusal: the file does not play, or llama-bench failed.
    """
    from bankml.bench.memory import memory_read

    reports = [measure(path, replace(plan, depth=depth), reference, progress, round_done) for depth in depths]
    # Last, for its buffer would count as the model's.
    memory = max(memory_read(plan.threads).values)
    for report in reports:
        report.memory_read = memory
    return reports


def measure(
    path: Path,
    plan: Plan,
    reference: Reference | None = None,
    progress: Any = None,
    round_done: Callable[[], object] | None = None,
) -> Report:
    """Measure a model; with a reference every round measures both, the one that begins changing from round to round.

    Raises:
        Refusal: the file does not play, or llama-bench failed.
    """
    with GgufFile.open(path) as gguf:
        report = Report(path, plan, bytes_per_token(gguf))
        facts = reference.facts() if reference is not None else None
        ours = Ours.load(gguf, plan, progress)
        try:
            mine: list[Round] = []
            theirs: list[Round] = []
            for number in range(plan.rounds):
                if reference is not None and number % 2:
                    theirs.append(_their_round(reference, path, plan))
                mine.append(_our_round(ours, plan))
                if reference is not None and not number % 2:
                    theirs.append(_their_round(reference, path, plan))
                if round_done is not None:
                    round_done()
            report.resident_bytes = peak_resident_bytes()
        finally:
            ours.close()
    report.prefill, report.decode = _samples(mine)
    report.load_seconds, report.first_prompt_seconds = ours.load_seconds, ours.first_prompt_seconds
    if theirs:
        report.reference = facts
        report.their_prefill, report.their_decode = _samples(theirs)
        report.their_resident_bytes = max(each.resident_bytes for each in theirs)
    return report


def bytes_per_token(gguf: GgufFile) -> int:
    """Bytes of weights that one decoded token reads: every tensor, but one row of an embedding that is not also the output."""
    tied = "output.weight" not in gguf.tensors
    total = 0
    for name, tensor in gguf.tensors.items():
        rows = tensor.dims[1] if len(tensor.dims) > 1 else 1
        total += tensor.n_bytes // rows if name == "token_embd.weight" and not tied else tensor.n_bytes
    return total


def _our_round(ours: Ours, plan: Plan) -> Round:
    return Round(ours.prefill() if plan.prompt else None, ours.decode() if plan.generate else None, 0)


def _their_round(reference: Reference, path: Path, plan: Plan) -> Round:
    return llama_bench_round(reference, path, plan.prompt, plan.generate, plan.depth, plan.threads)


def _samples(rounds: Sequence[Round]) -> tuple[Samples | None, Samples | None]:
    prefill = [each.prefill for each in rounds if each.prefill is not None]
    decode = [each.decode for each in rounds if each.decode is not None]
    return Samples.of(prefill) if prefill else None, Samples.of(decode) if decode else None


def _parts(prefill: Samples | None, decode: Samples | None) -> dict[str, Any]:
    return {
        **(prefill.as_dict("pp_tokens_per_second") if prefill else {}),
        **(decode.as_dict("tg_tokens_per_second") if decode else {}),
    }
