# SPDX-License-Identifier: MIT OR Apache-2.0
"""The whole model: every layer's output rows and the logits of micro-batches, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bankml.core.oracle.kind import Tally
from bankml.core.oracle.kinds import _stream
from bankml.core.oracle.kinds.sampler import uniform_bits
from bankml.core.refusal import EXIT_OTHER, Refusal

if TYPE_CHECKING:
    from bankml.core.oracle.reference import Reference

Floats = npt.NDArray[np.float32]

TRACES = (1, 28, 63, 64, 150)
"""Rows of the micro-batches whose inner rows are compared: 1, few, and both sides of the tiled kernel's border."""
SCRIPTS = {
    3: (512, 1, 1, 40, 64, 1, 300, 1, 1, 100, 1, 2, 1),
    1: (512, 1, 1, 40, 1),
    2: (512, 1, 1, 40, 1),
    4: (512, 1, 1, 40, 1),
}
"""The reference's threads: sizes of micro-batches, one after the other; the logits of each one's last row are compared."""
_CTX = 2048


class Model:
    """Kind ``model``. Options: ``seed`` of the tokens; ``traces`` and ``scripts`` as TRACES and SCRIPTS."""

    name = "model"
    checks = "every layer's output rows and the logits, in micro-batches of all kinds, past 512 cells with 1 to 4 threads"
    against = "llama_decode in libllama, its inner tensors caught"
    small = True

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Decode each micro-batch in libllama."""
        from bankml.core.gguf.reader import GgufFile
        from bankml.core.model.plan import plan
        from bankml.core.oracle.libllama import LlamaModel

        path = _needed(model)
        with GgufFile.open(path) as gguf:
            layers = plan(gguf).n_layer
        seed = int(options.get("seed", 1))
        traces, scripts = [], []
        with LlamaModel(reference, path, n_ctx=_CTX, threads=3) as llama:
            n_vocab = llama.n_vocab
            for n in options.get("traces", TRACES):
                names = [f"l_out-{layer}" for layer in range(layers)]
                logits, caught = llama.eval(tokens(n, n_vocab, seed + n), 0, rows="all", catch=names)
                rows = {name: _stream.row_digests(caught[name].reshape(n, -1)) for name in names}
                last, _ = llama.eval(tokens(n, n_vocab, seed + n), 0)
                answer = {**rows, "result_output": _stream.row_digests(logits), "last": _stream.row_digests(last)}
                traces.append({"rows": n, "seed": seed + n, "answer": answer})
        for threads, sizes in options.get("scripts", SCRIPTS).items():
            with LlamaModel(reference, path, n_ctx=_CTX, threads=int(threads)) as llama:
                answer_of = [_stream.digest(llama.eval(part, pos)[0][0]) for pos, part in _parts(sizes, llama.n_vocab, seed)]
            scripts.append({"threads": int(threads), "sizes": list(sizes), "seed": seed, "answer": answer_of})
        return {"n_ctx": _CTX, "n_vocab": n_vocab, "traces": traces, "scripts": scripts}

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """Evaluate each micro-batch; every row of every layer, of the logits, and every step of a script count one."""
        from bankml.core.gguf.reader import GgufFile
        from bankml.core.model.model import Model as Player

        path = _needed(model)
        tally = Tally()
        with GgufFile.open(path) as gguf:
            for script in body["scripts"]:
                player = Player.load(gguf, n_ctx=body["n_ctx"], llama_threads=script["threads"])
                try:
                    if script is body["scripts"][0]:
                        _hold_traces(player, body, tally)
                    steps = zip(_parts(script["sizes"], body["n_vocab"], script["seed"]), script["answer"], strict=True)
                    for (pos, part), recorded in steps:
                        same = _stream.digest(_logits(player, part, pos)) == recorded
                        tally.count(same, f"{len(part)} tokens at {pos}, {script['threads']} threads: logits")
                finally:
                    player.close()
        return tally


def _hold_traces(player: Any, body: dict[str, Any], tally: Tally) -> None:
    for trace in body["traces"]:
        n = trace["rows"]
        asked = tokens(n, body["n_vocab"], trace["seed"])
        found = player.trace(asked)
        rows = {name: _stream.row_digests(array) for name, array in found.items()}
        rows["last"] = [_stream.digest(_logits(player, asked, 0))]
        for name, recorded in trace["answer"].items():
            for row, (mine, theirs) in enumerate(zip(rows[name], recorded, strict=True)):
                tally.count(mine == theirs, f"{name}: row {row} of {n}")


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
