# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the compiled kernels are asked at a start: small questions to which the record has the reference's answers.

A question is a case: what it is ``of``, and its parameters. ``numbers`` makes what is given, to the reference as to the kernels;
``evaluate`` asks the entries that the graph points at. A good model has no NaN, nor have the numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bankml.core.exact import operations, stream
from bankml.core.exact.attention import attend
from bankml.core.exact.cells import EPSILON, Cells
from bankml.core.exact.products import Held
from bankml.core.gguf.types import TYPE_IDS, TYPES
from bankml.core.model.graph import rows_mode
from bankml.kernels import matmul
from bankml.kernels.weights import REPACKED_ROWS
from bankml.kernels.weights import TYPE_IDS as PLAYED

if TYPE_CHECKING:
    from bankml.core.model.plan import Plan

Case = dict[str, Any]
Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
Numbers = dict[str, npt.NDArray[Any]]
"""A case's numbers by name."""

_PAD = 256
_LENGTHS = {1: 320, 32: 320, 64: 320, 128: 384, 256: 512}
_COLUMNS = (1, 5, 33)
_WIDTHS = {"F32": 19, "F16": 19, "BF16": 19, "Q8_1": 64, "Q8_K": 256}
"""Short rows for each form: of long ones a norm rounds away how their squares were summed."""
_HEAD_WIDTHS = (64, 128, 96, 80, 32, 256, 40, 6)
"""Widths of heads: with the reference's halves of 32 and without, and some that leave a rest."""
_ATTENTION = ((1, 99, 1, 3), (1, 99, 1, 2), (1, 99, 1, 1), (1, 349, 8, 3), (3, 97, 2, 3), (66, 0, 2, 3))
"""Rows, the first one's cell, the reference's threads, the most heads at once: one row, one in spans, few, many."""
_HEADS, _TILED_HEADS, _ROPE_HEADS, _ROPE_WIDTH = 9, 3, 2, 64
_PLAIN = {"base": 10000.0, "freq_scale": 1.0, "ext": 0.0, "attn": 1.0, "n_ctx_orig": 2048}
_YARN = {"base": 500000.0, "freq_scale": 0.125, "ext": 1.0, "attn": 0.75, "n_ctx_orig": 4096}
POSITION = 1000


@dataclass(frozen=True)
class Used:
    """What of the kernels a model uses.

    Attributes:
        matrices: the type of each matrix, and whether its rows divide by eight: the reference repacks only such.
        head_dim: width of a head.
        rope_dims: how much of it is rotated.
        neox: halves of a head are rotated, not neighbours.
        head_norms: queries and keys are normed.
        cache_type: ``f16`` or ``q8_0``.
    """

    matrices: frozenset[tuple[str, bool]] = frozenset()
    head_dim: int = 0
    rope_dims: int = 0
    neox: bool = False
    head_norms: bool = False
    cache_type: str = "f16"

    def asks(self, case: Case) -> bool:
        """Whether a case is of a kernel that is used."""
        of = case["of"]
        if of in ("product", "get_rows"):
            return (case["type"], case["rows"] % REPACKED_ROWS == 0) in self.matrices
        if of in ("form", "norm", "swiglu", "join"):
            # In F32 every bit of the operation itself is seen.
            return case["form"] in {"F32", *(form_of(name) for name, _ in self.matrices)}
        if case["cache"] != self.cache_type:
            return False
        if of == "rope":
            odd = self.rope_dims % 4 != 0
            return (case["neox"], case["norms"], case["dims"] % 4 != 0) == (self.neox, self.head_norms, odd)
        # A width that the record has not is held to all that leave a rest past 32 as it does.
        same = {self.head_dim} if self.head_dim in _HEAD_WIDTHS else {w for w in _HEAD_WIDTHS if (w - self.head_dim) % 32 == 0}
        return case["dim"] in (same or {w for w in _HEAD_WIDTHS if w % 32})


def used_by(plan: Plan, types: Mapping[str, int], cache_type: str) -> Used:
    """What a model uses, with the type ids of its tensors."""
    return Used(
        frozenset((TYPES[types[name]].name, rows % REPACKED_ROWS == 0) for name, (rows, _) in plan.matrices.items()),
        plan.head_dim,
        plan.rope.dims,
        plan.architecture.neox,
        any(name.endswith("attn_q_norm.weight") for name in plan.vectors),
        cache_type,
    )


def form_of(type_name: str) -> str:
    """The form in which a type's product reads activations, as the type of a file."""
    if TYPES[TYPE_IDS[type_name]].block == 1:
        return type_name
    return "Q8_K" if TYPES[TYPE_IDS[type_name]].block == 256 else "Q8_1"


def cases() -> Iterator[Case]:
    """Every question."""
    for number in sorted(PLAYED):
        kind = TYPES[number]
        for rows, k in _shapes(kind.block):
            for columns in _COLUMNS:
                yield {"of": "product", "type": kind.name, "rows": rows, "k": k, "columns": columns}
            yield {"of": "get_rows", "type": kind.name, "rows": rows, "k": k}
    for form, k in _WIDTHS.items():
        for of in ("form", "norm", "swiglu", "join"):
            yield {"of": of, "form": form, "k": k}
    for cache in ("f16", "q8_0"):
        for dims in (64, 6):
            for neox in (False, True):
                for norms in (False, True):
                    for yarn in (False, True):
                        yield {"of": "rope", "cache": cache, "dims": dims, "neox": neox, "norms": norms, "yarn": yarn}
    for dim in _HEAD_WIDTHS:
        for rows, position, threads, together in _ATTENTION:
            yield {
                "of": "attention", "cache": "f16", "dim": dim, "rows": rows, "position": position, "threads": threads,
                "together": together,
            }  # fmt: skip
        if dim % 32 == 0:
            for rows, position in ((1, 99), (3, 97)):
                yield {"of": "attention", "cache": "q8_0", "dim": dim, "rows": rows, "position": position}


def _shapes(block: int) -> Iterator[tuple[int, int]]:
    """Rows and lengths of matrices: rows that divide by eight, and rows that do not."""
    yield 40, _LENGTHS[block]
    if block == 1:
        yield from ((40, 100), (36, 320))
    yield 35, _LENGTHS[block]


def numbers(case: Case) -> Numbers:
    """The numbers of a case: float32, halves in a cache, file bytes of weights."""
    of = case["of"]
    if of in ("product", "get_rows"):
        return _of_matrix(case)
    if of == "rope":
        return _of_rope(case)
    if of == "attention":
        return _of_attention(case)
    n, k = 64 if of == "norm" else 8, case["k"]
    x = stream.even(n * k, k).reshape(n, k)
    if of == "swiglu":
        return {"x": x * np.float32(6), "y": stream.even(n * k, k + 1).reshape(n, k)}
    return {"x": x, "weight": stream.even(k, k + 2)} if of == "norm" else {"x": x}


def evaluate(case: Case, made: Numbers) -> tuple[str, npt.NDArray[Any]]:
    """The kernel that a case is about, as ``module.name``, and what it gives."""
    return _EVALUATE[case["of"]](case, made)


def _of_matrix(case: Case) -> Numbers:
    rows, k, seed = case["rows"], case["k"], TYPE_IDS[case["type"]]
    made: Numbers = {"weights": _weights(case["type"], rows, k)}
    if case["of"] == "product":
        n = case["columns"]
        x = stream.even(n * k, seed + 100).reshape(n, k)
        made |= {"x": x, "scale": stream.even(1, seed + 200), "bias": stream.even(rows, seed + 300)}
        made |= {"residual": stream.even(n * rows, seed + 400).reshape(n, rows)}
    return made


@functools.lru_cache(1)
def _weights(type_name: str, rows: int, k: int) -> Bytes:
    return stream.weights(type_name, rows, k, TYPE_IDS[type_name], edges=False)


def _of_rope(case: Case) -> Numbers:
    shape, width = (3, _ROPE_HEADS, _ROPE_WIDTH), _ROPE_WIDTH
    made: Numbers = {"q": stream.even(3 * _ROPE_HEADS * width, 1).reshape(shape)}
    made |= {name: stream.even(3 * width, seed).reshape(3, 1, width) for name, seed in (("k", 2), ("v", 3))}
    made |= {name: stream.even(width, seed) for name, seed in (("q_norm", 4), ("k_norm", 5)) if case["norms"]}
    if case["yarn"]:
        made["factors"] = np.linspace(1, 8, case["dims"] // 2, dtype=np.float32)
    return made


def _of_attention(case: Case) -> Numbers:
    rows, dim = case["rows"], case["dim"]
    used = case["position"] + rows
    # The reference takes one row in spans where its padded cells are 512 and more.
    cells = -(-used // _PAD) * _PAD
    heads = _HEADS if rows < 64 else _TILED_HEADS
    made: Numbers = {"q": stream.even(rows * heads * dim, dim).reshape(rows, heads, dim)}
    for name, seed in (("k", dim + 1), ("v", dim + 2)):
        made[name] = np.zeros((1, cells, dim), np.float16)
        made[name][0, :used] = stream.even(used * dim, seed).reshape(used, dim)
    return made


def _product(case: Case, made: Numbers) -> tuple[str, npt.NDArray[Any]]:
    held = _held(case["type"], case["rows"], case["k"])
    added = {word: made[name] for name, word in _ADDED.items() if name in made}
    kind = held.matrix.kind
    return (kind.gemv if case["columns"] == 1 else kind.gemm).symbol, held.product(made["x"], added)


def _get_rows(case: Case, made: Numbers) -> tuple[str, npt.NDArray[Any]]:
    held = _held(case["type"], case["rows"], case["k"])
    return held.matrix.kind.get_rows.symbol, held.dequantized()


@functools.lru_cache(1)
def _held(type_name: str, rows: int, k: int) -> Held:
    return Held(TYPE_IDS[type_name], _weights(type_name, rows, k), rows, k)


def _row_operation(case: Case, made: Numbers) -> tuple[str, npt.NDArray[Any]]:
    form, x = case["form"], made["x"]
    if case["of"] == "norm":
        return "rows.norm_rows", operations.normed(x, EPSILON, made["weight"], form)
    if case["of"] == "swiglu":
        return "rows.swiglu_rows", operations.gated(x, made["y"], form)
    if case["of"] == "join":
        return "attention_rows.join_form", operations.joined(x, form)
    return "rows.form_rows", operations.rounded(x, form)


def _rope(case: Case, made: Numbers) -> tuple[str, npt.NDArray[Any]]:
    n, _, width = made["q"].shape
    table = operations.rope_table(POSITION, POSITION + n, made.get("factors"), case["dims"], yarn_of(case))
    cells = Cells(case["cache"], width, n)
    norms: dict[str, Floats] = {name: made[name] for name in ("q_norm", "k_norm") if name in made}
    q = cells.store(made["q"], made["k"], made["v"], table.address, case["dims"], case["neox"], norms)
    parts = (q.view(np.uint8), cells.keys(n), cells.values(n))
    name = "rope.rope_store" if case["cache"] == "f16" else "cache_q8.rope_store"
    return name, np.concatenate([part.reshape(-1) for part in parts])


def _attention(case: Case, made: Numbers) -> tuple[str, npt.NDArray[Any]]:
    q, k, v = made["q"], made["k"], made["v"]
    scale = scale_of(case)
    if case["cache"] == "f16":
        tiled = rows_mode(case["rows"], case["dim"]) == "many"
        found = attend(q, k, v, case["position"], case["threads"], scale, case["together"])
        return "attention.rows_tiled" if tiled else "attention_rows.attend", found
    used = case["position"] + case["rows"]
    cells = Cells("q8_0", case["dim"], used)
    keys, values = (each[0, :used, None].astype(np.float32) for each in (k, v))
    cells.store(np.zeros((used, 0, case["dim"]), np.float32), keys, values, 0, 0, False, {})
    return "cache_q8.attend_rows", cells.attend(q, case["position"], scale)


def where(case: Case) -> str:
    """A case in words."""
    members = ", ".join(f"{name} {value}" for name, value in case.items() if name not in ("of", "answer"))
    return f"{case['of']} ({members})"


def scale_of(case: Case) -> float:
    """What llama.cpp multiplies the scores with, in float32 steps."""
    return float(np.float32(1) / np.sqrt(np.float32(case["dim"])))


def yarn_of(case: Case) -> dict[str, float]:
    """The numbers of a rotation."""
    return _YARN if case["yarn"] else _PLAIN


_ADDED = {"scale": matmul.SCALE, "bias": matmul.BIAS, "residual": matmul.RESIDUAL}
_EVALUATE: dict[str, Callable[[Case, Numbers], tuple[str, npt.NDArray[Any]]]] = {
    "product": _product,
    "get_rows": _get_rows,
    "rope": _rope,
    "attention": _attention,
    **dict.fromkeys(("form", "norm", "swiglu", "join"), _row_operation),
}
