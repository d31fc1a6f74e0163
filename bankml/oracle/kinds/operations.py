# SPDX-License-Identifier: MIT OR Apache-2.0
"""The operations between products: RMS norm, RoPE, SwiGLU and the rows of an embedding, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bankml.core.exact import stream
from bankml.core.exact.stream import uniform_bits
from bankml.core.gguf.types import TYPE_IDS, TYPES
from bankml.oracle.kind import Tally
from bankml.oracle.options import NUMBER, Option, Options, declared

if TYPE_CHECKING:
    from bankml.reference.build import Reference
    from bankml.reference.ggml import Ggml

Floats = npt.NDArray[np.float32]
Case = dict[str, Any]
"""``operation`` and its parameters; then ``answer``, a list of digests."""

_EMBEDDINGS = ("F32", "F16", "BF16", "Q4_1", "Q8_0")
"""Types whose rows are asked in any order; the kernels oracle dequantizes every type."""
_HEADS = 2
_LANES = 8


class Operations:
    """Kind ``operations``; the option ``seed`` names another stream."""

    name = "operations"
    checks = "RMS norm with and without weights, RoPE in both modes up to position 63,000, SwiGLU over its range, embedding rows"
    against = "ggml's graphs of one operation on its CPU backend"
    small = True
    options: Options = declared(seed=Option(NUMBER, 0))

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """One graph for each case."""
        from bankml.reference.ggml import Ggml

        ggml = Ggml(reference)
        there: dict[str, Callable[[Ggml, Case], Floats]] = {
            "rms_norm": lambda ggml, case: norm_there(ggml, norm_rows(case), case["epsilon"], norm_weight(case)),
            "rope": lambda ggml, case: rope_there(
                ggml, rope_rows(case), rope_positions(case), rope_factors(case), case["dims"], case["neox"], _yarn(case)
            ).reshape(len(rope_positions(case)), -1),
            "swiglu": lambda ggml, case: _by_lanes(swiglu_there(ggml, *gate_and_up(case))),
            "get_rows": _get_rows_there,
        }
        return {
            "cases": [
                {**case, "answer": stream.row_digests(there[case["operation"]](ggml, case))} for case in cases(options["seed"])
            ]
        }

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """bankml's kernel for each case; a row, a position, or eight values of the sweep count one."""
        from bankml.core.exact import operations as ours

        here: dict[str, Callable[[Case], Floats]] = {
            "rms_norm": lambda case: ours.rms_norm(norm_rows(case), case["epsilon"], norm_weight(case)),
            "rope": lambda case: ours.rope(
                rope_rows(case), rope_positions(case), rope_factors(case), neox=case["neox"], yarn=_yarn(case)
            ),
            "swiglu": lambda case: _by_lanes(ours.swiglu(*gate_and_up(case))),
            "get_rows": lambda case: ours.get_rows(case["type"], embedding(case), case["rows"], case["k"], wanted_rows(case)),
        }
        tally = Tally()
        for case in body["cases"]:
            found = stream.row_digests(here[case["operation"]](case))
            asked = {name: value for name, value in case.items() if name != "answer"}
            for number, (mine, theirs) in enumerate(zip(found, case["answer"], strict=True)):
                tally.count(mine == theirs, f"{asked}: row {number}")
        return tally


def cases(seed: int) -> Iterator[Case]:
    """Every operation, with lengths that leave tails, and values of every kind."""
    for k in (576, 64, 128, 1, 7, 100, 1537, 4096):
        for number, epsilon in enumerate((1e-5, 1e-6)):
            for weighted in (True, False):
                own = seed * 1000 + k + number
                yield {"operation": "rms_norm", "k": k, "seed": own, "epsilon": epsilon, "weighted": weighted}
    usual = {"base": 10000.0, "freq_scale": 1.0, "ext": 0.0, "attn": 1.0, "n_ctx_orig": 2048, "factors": False}
    for neox in (False, True):
        for number, (dims, change) in enumerate(
            (
                (64, {"base": 100000.0, "n_ctx_orig": 8192}),
                (128, {"base": 1000000.0, "n_ctx_orig": 32768}),
                (64, {"base": 500000.0, "factors": True}),
                (32, {"freq_scale": 0.25}),
                (96, {"attn": 1.1875}),
                (6, {}),
                (2, {}),
                (128, {"base": 1000000.0, "freq_scale": 0.25, "ext": 1.0, "n_ctx_orig": 32768}),
                (64, {"freq_scale": 0.125, "ext": 1.0, "attn": 0.75, "n_ctx_orig": 4096, "factors": True}),
            )
        ):
            own = seed * 1000 + 2 * number + neox
            yield {"operation": "rope", "neox": neox, "dims": dims, "seed": own, **usual, **change}
    yield {"operation": "swiglu", "sweep": True, "n": 24_600, "seed": seed}
    for n in (*range(1, 18), 31, 100, 1536, 1543):
        yield {"operation": "swiglu", "sweep": False, "n": n, "seed": seed + n}
    for name in _EMBEDDINGS:
        kind = TYPES[TYPE_IDS[name]]
        k = 3 * kind.block if kind.block > 1 else 100
        yield {"operation": "get_rows", "type": name, "rows": 37, "k": k, "seed": seed + kind.id}


# --- inputs
def norm_rows(case: Case) -> Floats:
    """A row of each shape."""
    shapes = (*stream.ROW_SHAPES, "huge")
    return np.stack([stream.activations(shape, case["k"], case["seed"] + j) for j, shape in enumerate(shapes)])


def norm_weight(case: Case) -> Floats | None:
    """The norm's weights, or None."""
    return stream.plain(case["k"], case["seed"] + 999) if case["weighted"] else None


def rope_positions(case: Case) -> npt.NDArray[np.int32]:
    """Positions from 0 to 63,000."""
    return np.array([*range(64), *range(100, 63_001, 700 + case["seed"] % 300), 63_000], np.int32)


def rope_rows(case: Case) -> Floats:
    """float32[positions, heads, dims]."""
    shape = (len(rope_positions(case)), _HEADS, case["dims"])
    return stream.plain(int(np.prod(shape)), case["seed"]).reshape(shape)


def rope_factors(case: Case) -> Floats | None:
    """Frequency factors as Llama 3 has them: 1 for the first pairs, up to 8 for the last; or None."""
    if not case["factors"]:
        return None
    ramp = np.arange(case["dims"] // 2, dtype=np.float32) / np.float32(case["dims"] // 2)
    return np.where(ramp < np.float32(0.25), np.float32(1), np.float32(1) + ramp * np.float32(7)).astype(np.float32)


def gate_and_up(case: Case) -> tuple[Floats, Floats]:
    """Gate and up, float32[n]: the sweep runs evenly over -120 to 120 and ends with edges."""
    n = case["n"]
    up = stream.plain(n, 2 * case["seed"] + 1)
    if not case["sweep"]:
        return stream.activations("outliers", n, 2 * case["seed"]), up
    edges = np.array(
        [0.0, -0.0, np.inf, -np.inf, 2.0**-149, -(2.0**-149), 2.0**-126, 87.0, 88.0, 88.72283, 88.72284, 88.8, 89.0, -87.33655,
         -87.33654, -88.0, -103.97, -103.98, -104.0, 127.0, 128.0, -150.0, 1e30, -1e30],
        np.float32,
    )  # fmt: skip
    steps = np.arange(n - len(edges), dtype=np.float64)
    even = ((steps * 2 - (len(steps) - 1)) / (len(steps) - 1) * 120).astype(np.float32)
    return np.concatenate([even, edges]), np.where(np.arange(n) % 2 == 0, np.float32(1), up)


def embedding(case: Case) -> npt.NDArray[np.uint8]:
    """The embedding's file bytes."""
    return stream.weights(case["type"], case["rows"], case["k"], case["seed"], edges=True)


def wanted_rows(case: Case) -> npt.NDArray[np.int64]:
    """Rows in any order, some twice."""
    return (uniform_bits(50, case["seed"]) % np.uint64(case["rows"])).astype(np.int64)


def _yarn(case: Case) -> dict[str, Any]:
    return {name: case[name] for name in ("base", "freq_scale", "ext", "attn", "n_ctx_orig")}


def _by_lanes(values: Floats) -> Floats:
    """Eight values a row; a tail becomes a row of its own, filled with zeros."""
    padded = np.zeros(-(-len(values) // _LANES) * _LANES, np.float32)
    padded[: len(values)] = values
    return padded.reshape(-1, _LANES)


# --- the reference
def norm_there(ggml: Ggml, x: Floats, epsilon: float, weight: Floats | None) -> Floats:
    """Rows of x normed, and multiplied where there are weights."""

    def build(context: Any, tensors: list[int]) -> int:
        out = ggml.call("ggml_rms_norm", context, tensors[0], epsilon)
        return int(out if weight is None else ggml.call("ggml_mul", context, out, tensors[1]))

    inputs: list[tuple[int, npt.NDArray[Any]]] = [(0, x)] if weight is None else [(0, x), (0, weight)]
    return ggml.compute(build, inputs).reshape(x.shape)


def rope_there(
    ggml: Ggml,
    x: Floats,
    positions: npt.NDArray[np.int32],
    factors: Floats | None,
    dims: int,
    neox: bool,
    yarn: Mapping[str, float],
) -> Floats:
    """x[positions, heads, width] with the first `dims` values of each head rotated."""
    numbers = (yarn["base"], yarn["freq_scale"], yarn["ext"], yarn["attn"], 32.0, 1.0)

    def build(context: Any, tensors: list[int]) -> int:
        third = tensors[2] if factors is not None else None
        shape = (dims, 2 if neox else 0, int(yarn["n_ctx_orig"]))
        return int(ggml.call("ggml_rope_ext", context, tensors[0], tensors[1], third, *shape, *numbers))

    inputs: list[tuple[int, npt.NDArray[Any]]] = [(0, x), (26, positions)]
    if factors is not None:
        inputs.append((0, factors))
    return ggml.compute(build, inputs).reshape(x.shape)


def swiglu_there(ggml: Ggml, gate: Floats, up: Floats) -> Floats:
    """silu(gate) * up."""
    found = ggml.compute(lambda context, t: int(ggml.call("ggml_swiglu_split", context, *t)), [(0, gate), (0, up)])
    return found.reshape(gate.shape)


def _get_rows_there(ggml: Ggml, case: Case) -> Floats:
    kind = TYPES[TYPE_IDS[case["type"]]]
    inputs: list[tuple[int, npt.NDArray[Any]]] = [(26, wanted_rows(case).astype(np.int32))]

    def build(context: Any, tensors: list[int]) -> int:
        return int(ggml.call("ggml_get_rows", context, tensors[1], tensors[0]))

    weights = [(kind.id, (case["k"], case["rows"]), embedding(case))]
    return ggml.compute(build, inputs, weights=weights).reshape(-1, case["k"])


KIND = Operations()
