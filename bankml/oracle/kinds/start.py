# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a start holds the compiled kernels to: small questions to each, whose answers the package carries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bankml.core.exact import stream, trials
from bankml.core.exact.cells import EPSILON
from bankml.core.gguf.types import TYPE_IDS
from bankml.core.model.graph import turns
from bankml.oracle.kind import Tally
from bankml.oracle.kinds.attention import attend_there
from bankml.oracle.kinds.operations import norm_there, rope_there, swiglu_there
from bankml.oracle.options import Options, declared

if TYPE_CHECKING:
    from bankml.reference.build import Reference
    from bankml.reference.ggml import Ggml

_HADAMARD = 1


class Start:
    """Kind ``start``; its record is ``bankml/core/exact/kernels.json.gz``, the same bytes as ``tests/records/start.json.gz``."""

    name = "start"
    checks = "products, embedding rows, row operations, rotations and attention: one small question to each compiled kernel"
    against = "ggml's graphs and row functions on its CPU backend"
    small = True
    options: Options = declared()

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Ask the reference every question."""
        from bankml.reference.ggml import Ggml

        ggml = Ggml(reference)
        return {"cases": [{**case, "answer": stream.digest(_there(ggml, case))} for case in trials.cases()]}

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """Ask bankml's kernels; a question counts one."""
        tally = Tally()
        for case in body["cases"]:
            kernel, found = trials.evaluate(case, trials.numbers(case))
            tally.count(stream.digest(found) == case["answer"], f"{kernel}: {trials.where(case)}")
        return tally


def _there(ggml: Ggml, case: trials.Case) -> npt.NDArray[Any]:
    made = trials.numbers(case)
    if case["of"] == "product":
        return _product(ggml, case, made)
    if case["of"] == "get_rows":
        return ggml.dequantized(TYPE_IDS[case["type"]], made["weights"], case["rows"] * case["k"])
    if case["of"] == "rope":
        return _rope(ggml, case, made)
    if case["of"] == "attention":
        return _attention(ggml, case, made)
    return np.stack([ggml.quantized(TYPE_IDS[case["form"]], row) for row in _rows(ggml, case, made)])


def _product(ggml: Ggml, case: trials.Case, made: trials.Numbers) -> npt.NDArray[np.float32]:
    out = ggml.product(TYPE_IDS[case["type"]], made["weights"], case["rows"], case["k"], made["x"])

    def build(context: Any, tensors: list[int]) -> int:
        scaled = ggml.call("ggml_mul", context, tensors[0], tensors[1])
        biased = ggml.call("ggml_add", context, scaled, tensors[2])
        return int(ggml.call("ggml_add", context, biased, tensors[3]))

    inputs = [(0, each) for each in (out, made["scale"], made["bias"], made["residual"])]
    return ggml.compute(build, inputs).reshape(out.shape)


def _rows(ggml: Ggml, case: trials.Case, made: trials.Numbers) -> npt.NDArray[np.float32]:
    """The rows before they are formed."""
    if case["of"] == "norm":
        return norm_there(ggml, made["x"], EPSILON, made["weight"])
    return swiglu_there(ggml, made["x"], made["y"]) if case["of"] == "swiglu" else made["x"]


def _rope(ggml: Ggml, case: trials.Case, made: trials.Numbers) -> npt.NDArray[Any]:
    """Queries as they are rotated, then keys and values as the cache stores them."""
    rotated = {}
    for name in ("q", "k"):
        x = norm_there(ggml, made[name], EPSILON, made[f"{name}_norm"]) if case["norms"] else made[name]
        positions = np.arange(trials.POSITION, trials.POSITION + len(x), dtype=np.int32)
        rotated[name] = rope_there(ggml, x, positions, made.get("factors"), case["dims"], case["neox"], trials.yarn_of(case))
    turn = turns(made["k"].shape[-1]) if case["cache"] == "q8_0" else (0, 0)
    type_id = TYPE_IDS["F16" if case["cache"] == "f16" else "Q8_0"]
    stored = [_turned(ggml, rotated["k"], turn[0]), _turned(ggml, made["v"], turn[1])]
    cells = [ggml.quantized(type_id, row) for each in stored for row in each.reshape(-1, each.shape[-1])]
    return np.concatenate([rotated["q"].reshape(-1).view(np.uint8), *cells])


def _turned(ggml: Ggml, x: npt.NDArray[np.float32], width: int) -> npt.NDArray[np.float32]:
    """Runs of `width` values turned as a quantized cache has them; 0 turns nothing.

    Source: llama_mul_mat_hadamard, llama-impl.h.
    """
    if not width:
        return x

    def build(context: Any, tensors: list[int]) -> int:
        out = ggml.call("ggml_mul_mat", context, tensors[1], tensors[0])
        ggml.call("ggml_mul_mat_set_hint", out, _HADAMARD)
        return int(out)

    # Its values do not count: with the hint the product is computed without them.
    rotation = np.zeros((width, width), np.float32)
    return ggml.compute(build, [(0, np.ascontiguousarray(x).reshape(-1, width)), (0, rotation)]).reshape(x.shape)


def _attention(ggml: Ggml, case: trials.Case, made: trials.Numbers) -> npt.NDArray[np.float32]:
    q, k, v = made["q"], made["k"], made["v"]
    shape, asked = (k.shape[1], len(k)), (case["position"], case.get("threads", 1), trials.scale_of(case))
    if case["cache"] == "f16":
        return attend_there(ggml, q, (TYPE_IDS["F16"], k), (TYPE_IDS["F16"], v), shape, *asked)
    turn, type_id = turns(case["dim"]), TYPE_IDS["Q8_0"]
    stored = []
    for each, width in ((k, turn[0]), (v, turn[1])):
        wide = _turned(ggml, each.astype(np.float32), width).reshape(-1, case["dim"])
        stored.append((type_id, np.concatenate([ggml.quantized(type_id, row) for row in wide])))
    out = attend_there(ggml, _turned(ggml, q, turn[0]), stored[0], stored[1], shape, *asked)
    return _turned(ggml, out.reshape(len(q), -1, case["dim"]), turn[1]).reshape(len(q), -1)


KIND = Start()
