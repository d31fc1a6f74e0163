# SPDX-License-Identifier: MIT OR Apache-2.0
"""The whole model: every layer's output rows and the logits of micro-batches, bit for bit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bankml.core.exact import stream
from bankml.core.exact.stream import uniform_bits
from bankml.oracle.kind import Tally
from bankml.oracle.options import NAMES, NUMBER, NUMBERS, NUMBERS_BY_NAME, Option, Options, choice, declared, refuse_idle
from bankml.refusal import EXIT_OTHER, Refusal

if TYPE_CHECKING:
    from bankml.oracle.cases.small_models import Shape
    from bankml.reference.build import Reference

Floats = npt.NDArray[np.float32]
Answers = dict[str, Any]
"""``n_ctx``, ``n_vocab``, ``cache``, ``traces`` and ``scripts`` of one model."""

TRACES = (1, 28, 63, 64, 150)
"""Rows of the micro-batches whose inner rows are compared: 1, few, and both sides of the tiled kernel's border."""
SCRIPTS = {
    3: (512, 1, 1, 40, 64, 1, 300, 1, 1, 100, 1, 2, 1),
    1: (512, 1, 1, 40, 1),
    2: (512, 1, 1, 40, 1),
    4: (512, 1, 1, 40, 1),
}
"""The reference's threads: sizes of micro-batches, one after the other; the logits of each one's last row are compared."""
SMALL_TRACES = (1, 5, 11, 65)
SMALL_SCRIPTS = {3: (300, 1, 7, 1, 210, 1, 1, 4, 64, 1)}
_CTX = 2048


class Model:
    """Kind ``model``. With a model: that one. Without: small models of every architecture, made from a stream.

    Options: ``seed`` of the tokens; ``traces`` and ``scripts`` as TRACES and SCRIPTS; ``shapes``, names of small models;
    ``cache``: ``f16``, or ``q8_0`` for a quantized cache.
    """

    name = "model"
    checks = "every layer's output rows and the logits, in micro-batches of all kinds, past 512 cells with 1 to 4 threads"
    against = "llama_decode in libllama, its inner tensors caught"
    small = True
    options: Options = declared(
        seed=Option(NUMBER, 1),
        traces=Option(NUMBERS),
        scripts=Option(NUMBERS_BY_NAME),
        shapes=Option(NAMES),
        cache=Option(choice("f16", "q8_0"), "f16"),
    )

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Decode each micro-batch in libllama."""
        seed, cache, traces, scripts = (options[name] for name in ("seed", "cache", "traces", "scripts"))
        if model is not None:
            refuse_idle(self.options, options, ("shapes",), "of a model")
            return _asked(reference, model, _CTX, traces or TRACES, scripts or SCRIPTS, seed, cache)
        traces, scripts = traces or SMALL_TRACES, scripts or SMALL_SCRIPTS
        made = []
        for shape, path in _made(options["shapes"]):
            made.append({"shape": shape.name, **_asked(reference, path, 1024, traces, scripts, seed, cache)})
        return {"made": made}

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """Evaluate each micro-batch; every row of every layer, of the logits, and every step of a script count one."""
        tally = Tally()
        if "made" not in body:
            _hold(_needed(model), body, tally, "")
            return tally
        recorded = {answers["shape"]: answers for answers in body["made"]}
        for shape, path in _made(list(recorded)):
            _hold(path, recorded[shape.name], tally, f"{shape.name}: ")
        return tally


def _made(given: str | list[str] | None) -> Iterator[tuple[Shape, Path]]:
    """The small models of those names, or all that play, each in a file that is gone afterwards."""
    from bankml.core.model.plan import PLAYED_TYPES
    from bankml.oracle.cases.small_models import SHAPES, write

    names = [given] if isinstance(given, str) else given
    unknown = set(names or ()) - {shape.name for shape in SHAPES}
    if unknown:
        raise Refusal("oracle.shape", "there is no such small model", found=", ".join(sorted(unknown)), exit_code=EXIT_OTHER)
    for shape in SHAPES:
        if shape.name in names if names is not None else set(shape.types) <= PLAYED_TYPES:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / f"{shape.name}.gguf"
                write(shape, path)
                yield shape, path


def _asked(
    reference: Reference,
    path: Path,
    n_ctx: int,
    traces: Sequence[int],
    scripts: Mapping[Any, Sequence[int]],
    seed: int,
    cache: str,
) -> Answers:
    """The reference's answers on one model."""
    from bankml.core.gguf.reader import GgufFile
    from bankml.core.model.plan import plan
    from bankml.reference.libllama import LlamaModel

    with GgufFile.open(path) as gguf:
        layers = plan(gguf).n_layer
    names = [f"l_out-{layer}" for layer in range(layers)]
    traced, scripted = [], []
    with LlamaModel(reference, path, n_ctx=n_ctx, threads=3, cache_type=cache) as llama:
        n_vocab = llama.n_vocab
        for n in traces:
            asked = tokens(n, n_vocab, seed + n)
            logits, caught = llama.eval(asked, 0, rows="all", catch=names)
            rows = {name: stream.row_digests(caught[name].reshape(n, -1)) for name in names}
            last, _ = llama.eval(asked, 0)
            answer = {**rows, "result_output": stream.row_digests(logits), "last": stream.row_digests(last)}
            traced.append({"rows": n, "seed": seed + n, "answer": answer})
    for threads, sizes in scripts.items():
        with LlamaModel(reference, path, n_ctx=n_ctx, threads=int(threads), cache_type=cache) as llama:
            steps = [stream.digest(llama.eval(part, pos)[0][0]) for pos, part in _parts(sizes, n_vocab, seed)]
        scripted.append({"threads": int(threads), "sizes": list(sizes), "seed": seed, "answer": steps})
    return {"n_ctx": n_ctx, "n_vocab": n_vocab, "cache": cache, "traces": traced, "scripts": scripted}


def _hold(path: Path, answers: Answers, tally: Tally, where: str) -> None:
    """bankml's answers on one model."""
    from bankml.core.gguf.reader import GgufFile
    from bankml.core.model.model import Model as Player

    with GgufFile.open(path) as gguf:
        for number, script in enumerate(answers["scripts"]):
            cache = answers.get("cache", "f16")
            player = Player.load(gguf, n_ctx=answers["n_ctx"], llama_threads=script["threads"], cache_type=cache)
            try:
                if number == 0:
                    _hold_traces(player, answers, tally, where)
                steps = zip(_parts(script["sizes"], answers["n_vocab"], script["seed"]), script["answer"], strict=True)
                for (pos, part), recorded in steps:
                    same = stream.digest(_logits(player, part, pos)) == recorded
                    tally.count(same, f"{where}{len(part)} tokens at {pos}, {script['threads']} threads: logits")
            finally:
                player.close()


def _hold_traces(player: Any, answers: Answers, tally: Tally, where: str) -> None:
    for trace in answers["traces"]:
        n = trace["rows"]
        asked = tokens(n, answers["n_vocab"], trace["seed"])
        found = {name: stream.row_digests(array) for name, array in player.trace(asked).items()}
        found["last"] = [stream.digest(_logits(player, asked, 0))]
        for name, recorded in trace["answer"].items():
            for row, (mine, theirs) in enumerate(zip(found[name], recorded, strict=True)):
                tally.count(mine == theirs, f"{where}{name}: row {row} of {n}")


def _logits(player: Any, part: Sequence[int], pos: int) -> Floats:
    logits: Floats = player.eval(part, pos)
    return logits


def tokens(n: int, n_vocab: int, seed: int) -> list[int]:
    """n token ids from the stream."""
    return [int(word % np.uint64(n_vocab)) for word in uniform_bits(n, seed)]


def _parts(sizes: Sequence[int], n_vocab: int, seed: int) -> Iterator[tuple[int, list[int]]]:
    """(first cell, tokens) of each micro-batch."""
    whole = tokens(sum(sizes), n_vocab, seed)
    pos = 0
    for size in sizes:
        yield pos, whole[pos : pos + size]
        pos += size


def _needed(model: Path | None) -> Path:
    if model is None:
        raise Refusal("oracle.model", "this oracle needs the model file", hint="name it after the record", exit_code=EXIT_OTHER)
    return model


KIND = Model()
