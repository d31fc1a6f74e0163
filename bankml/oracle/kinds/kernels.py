# SPDX-License-Identifier: MIT OR Apache-2.0
"""Weight kernels: conversions, activation quantizers, dequantized weights and whole matrix products, bit for bit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bankml.core.exact import stream
from bankml.core.exact.stream import uniform_bits
from bankml.core.gguf.types import TYPE_IDS, TYPES
from bankml.oracle.kind import Tally
from bankml.oracle.options import NAMES, NUMBER, SWITCH, Option, Options, declared, refuse_idle
from bankml.refusal import EXIT_OTHER, Refusal

if TYPE_CHECKING:
    from bankml.core.gguf.reader import GgufFile
    from bankml.reference.build import Reference

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
Case = dict[str, Any]

COLUMNS = (1, 2, 3, 4, 5, 8, 33)
"""Activation rows of a product: the reference picks its kernel by them, with borders at 2, 4 and 8."""
WILD_COLUMNS = (1, 4, 5, 32)
REAL_COLUMNS = (1, 2, 3, 5, 28)
FORMS = ("Q8_0", "Q8_1", "Q8_K", "F16", "BF16")
_EXPONENT_BYTES = {"MXFP4"}
"""Types whose block begins with its scale as an exponent in one byte."""
_ROW_LENGTH = 1024
_CHUNK = 1 << 22


class Kernels:
    """Kind ``kernels``. Without a model: conversions, quantized rows, and tensors of every type, made from a stream.

    Options: ``types``, names of types: only tensors of these; or an empty list: no tensors. ``seed``: another stream. ``wild``:
    only tensors, with NaN and infinities among their scales, among the activations, and among both. With a model all its
    tensors are dequantized; ``tensors`` says which are multiplied: a list of names, ``"all"``, or by default those of the first
    and the last layer and of no layer.
    """

    name = "kernels"
    checks = "half conversions, quantized activations, dequantized weights and matrix products of every weight type"
    against = "ggml-base and ggml-cpu through ctypes: row functions, and ggml_mul_mat in the buffer that llama.cpp picks"
    small = True
    options: Options = declared(
        types=Option(NAMES),
        seed=Option(NUMBER, 0),
        wild=Option(SWITCH, False),
        tensors=Option(NAMES),
    )

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Ask the reference's row functions, and its graphs of one product."""
        from bankml.reference.ggml import Ggml

        ggml = Ggml(reference)
        seed = options["seed"]
        if model is None:
            refuse_idle(self.options, options, ("tensors",), "without a model")
            wild = bool(options["wild"])
            names = _type_names(options["types"])
            matrices = list(_wild(names, seed) if wild else [*_made_up(names, seed), *_smallest(names, seed)])
            whole = not options["types"] and not wild
            conversions = [{**case, "answer": _convert_there(ggml, case)} for case in _conversions()] if whole else []
            rows = [{**case, "answer": stream.digest(_quantized_there(ggml, case))} for case in _rows(seed)] if whole else []
        else:
            refuse_idle(self.options, options, ("types", "seed", "wild"), "of a model")
            matrices, conversions, rows = list(_real(model, options["tensors"])), [], []

        def answer(matrix: Case, data: Bytes) -> None:
            kind, m, k = TYPES[matrix["type_id"]], matrix["rows"], matrix["k"]
            per_row = k // kind.block * kind.bytes
            matrix["dequantized"] = _digest_rows(
                m, k, lambda a, b: ggml.dequantized(kind.id, data[a * per_row : b * per_row], (b - a) * k)
            )
            for product in matrix["products"]:
                # How threads share a row decides what its F16 form keeps of a NaN.
                threads = 1 if product.get("wild") else 2
                product["answer"] = stream.row_digests(ggml.product(kind.id, data, m, k, _activations(matrix, product), threads))

        _each(matrices, model, answer)
        return {"conversions": conversions, "rows": rows, "matrices": matrices}

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """Run bankml's kernels; a conversion, a quantized row, a tensor's weights and each row of a product count one."""
        from bankml.core.exact.products import Held, quantized

        tally = Tally()
        for case in body["conversions"]:
            tally.count(_convert_here(case) == case["answer"], f"conversion {case['to']} from {case['source']}")
        for case in body["rows"]:
            found = stream.digest(quantized(case["form"], _row(case)))
            tally.count(found == case["answer"], f"{case['form']} of a row {case['shape']}, seed {case['seed']}")

        def hold(matrix: Case, data: Bytes) -> None:
            held = Held(matrix["type_id"], data, matrix["rows"], matrix["k"])
            where = f"{matrix['type']} {matrix.get('tensor') or ''} {matrix['rows']} x {matrix['k']}"
            found = _digest_rows(matrix["rows"], matrix["k"], held.dequantized)
            tally.count(found == matrix["dequantized"], f"{where}: dequantized")
            for product in matrix["products"]:
                rows = stream.row_digests(held.product(_activations(matrix, product)))
                for j, (mine, theirs) in enumerate(zip(rows, product["answer"], strict=True)):
                    tally.count(mine == theirs, f"{where}: row {j} of {product['columns']}, seed {product['seed']}")

        _each(body["matrices"], model, hold)
        return tally


# --- what is asked
def _type_names(given: str | list[str] | None) -> list[str]:
    from bankml.core.exact.products import TYPE_IDS as PLAYED

    names = [TYPES[number].name for number in sorted(PLAYED)]
    wanted = names if given is None else [given] if isinstance(given, str) else given
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise Refusal(
            "oracle.type", "bankml has no kernel for this type", found=unknown[0], allowed=", ".join(names), exit_code=EXIT_OTHER
        )
    return wanted


def _made_up(names: list[str], seed: int) -> Iterator[Case]:
    for name in names:
        kind = TYPES[TYPE_IDS[name]]
        if kind.block == 1:
            shapes = [(64, 256), (33, 320), (20, 72), (7, 39), (8, 20)]
        else:
            blocks = (8, 10, 3, 1) if kind.block <= 64 else (2, 3, 1, 1)
            shapes = [(rows, count * kind.block) for rows, count in zip((64, 33, 40, 7), blocks, strict=True)]
        for number, (rows, k) in enumerate(shapes):
            for edges in (False, True):
                own = seed * 1000 + 100 * number + kind.id
                products = [{"columns": n, "seed": own + n, "edges": edges} for n in COLUMNS]
                yield {
                    "type": name, "type_id": kind.id, "rows": rows, "k": k, "seed": own, "edges": edges, "products": products,
                }  # fmt: skip


def _smallest(names: list[str], seed: int) -> Iterator[Case]:
    """Matrices of types whose scale is a power of two in one byte, with the two smallest scales alone: both are subnormal.

    Beside a usual scale they would decide no bit of a product.
    """
    for name in sorted(_EXPONENT_BYTES & set(names)):
        kind = TYPES[TYPE_IDS[name]]
        for number, (rows, count) in enumerate(((64, 8), (33, 10), (40, 3), (7, 1))):
            own = seed * 1000 + 100 * number + 57 + kind.id
            products = [{"columns": n, "seed": own + n, "edges": False} for n in COLUMNS]
            yield {
                "type": name, "type_id": kind.id, "rows": rows, "k": count * kind.block, "seed": own, "edges": False,
                "smallest": True, "products": products,
            }  # fmt: skip


def _wild(names: list[str], seed: int) -> Iterator[Case]:
    for name in names:
        kind = TYPES[TYPE_IDS[name]]
        if kind.block == 1:
            shapes = [(64, 256), (36, 320), (7, 39)]
        else:
            shapes = [(64, (8 if kind.block <= 64 else 2) * kind.block), (36, (9 if kind.block <= 64 else 3) * kind.block)]
        for number, (rows, k) in enumerate(shapes):
            for of_weights, of_rows in ((True, False), (False, True), (True, True)):
                own = seed * 1000 + 100 * number + 31 * of_weights + kind.id
                products = [{"columns": n, "seed": own + n, "edges": False, "wild": of_rows} for n in WILD_COLUMNS]
                yield {
                    "type": name, "type_id": kind.id, "rows": rows, "k": k, "seed": own, "edges": False, "wild": of_weights,
                    "products": products,
                }  # fmt: skip


def _real(model: Path, wanted: str | list[str] | None) -> Iterator[Case]:
    from bankml.core.exact.products import TYPE_IDS as PLAYED
    from bankml.core.gguf.reader import GgufFile

    with GgufFile.open(model) as gguf:
        tensors = [t for t in gguf.tensors.values() if t.type_id in PLAYED]
        layers = sorted({int(t.name.split(".")[1]) for t in tensors if t.name.startswith("blk.")})
        ends = tuple(f"blk.{n}." for n in ({layers[0], layers[-1]} if layers else ()))
        for number, tensor in enumerate(tensors):
            k = tensor.dims[0]
            usual = not tensor.name.startswith("blk.") or tensor.name.startswith(ends)
            multiplied = len(tensor.dims) == 2 and (usual if wanted is None else wanted == "all" or tensor.name in wanted)
            products = [{"columns": n, "seed": 10_000 + number, "edges": n == 5} for n in REAL_COLUMNS] if multiplied else []
            yield {
                "type": TYPES[tensor.type_id].name, "type_id": tensor.type_id, "tensor": tensor.name,
                "rows": tensor.n_elements // k, "k": k, "products": products,
            }  # fmt: skip


def _each(matrices: list[Case], model: Path | None, work: Callable[[Case, Bytes], None]) -> None:
    """Call work(matrix, its file bytes) for each."""
    work = _rescaled(work)
    made_up = [matrix for matrix in matrices if "tensor" not in matrix]
    for matrix in made_up:
        shape = matrix["type"], matrix["rows"], matrix["k"], matrix["seed"]
        work(matrix, stream.wild_weights(*shape) if matrix.get("wild") else stream.weights(*shape, edges=matrix["edges"]))
    if len(made_up) == len(matrices):
        return
    if model is None:
        raise Refusal("oracle.model", "the record is of a model that is not here", hint="name the file", exit_code=EXIT_OTHER)
    from bankml.core.gguf.reader import GgufFile

    with GgufFile.open(model) as gguf:
        for matrix in matrices:
            work(matrix, _data(gguf, matrix["tensor"]))


def smallest_scales(matrix: Case, data: Bytes) -> Bytes:
    """The data of a made-up matrix with scales of 0 and 1 alone, where the matrix asks for it; else as they are."""
    if not matrix.get("smallest"):
        return data
    blocks = data.reshape(-1, TYPES[matrix["type_id"]].bytes).copy()
    blocks[:, 0] &= 1
    return blocks.reshape(-1)


def _rescaled(work: Callable[[Case, Bytes], None]) -> Callable[[Case, Bytes], None]:
    return lambda matrix, data: work(matrix, smallest_scales(matrix, data))


def _data(gguf: GgufFile, name: str) -> Bytes:
    data: Bytes = gguf.data(name)
    return data


def _activations(matrix: Case, product: Case) -> Floats:
    wild = product.get("wild", False)
    return stream.columns(product["columns"], matrix["k"], product["seed"], edges=product["edges"], wild=wild)


def _digest_rows(rows: int, k: int, some: Callable[[int, int], Floats]) -> str:
    """sha256 over all rows as float32, a few at a time."""
    digest = hashlib.sha256()
    step = max(1, _CHUNK // k)
    for first in range(0, rows, step):
        digest.update(some(first, min(rows, first + step)).tobytes())
    return digest.hexdigest()


# --- conversions
def _conversions() -> Iterator[Case]:
    for name in ("F16", "BF16"):
        yield {"to": "F32", "source": name, "type_id": TYPE_IDS[name]}
        yield {"to": name, "source": "F32", "type_id": TYPE_IDS[name]}


def _wide(type_id: int) -> Floats:
    """All values of the narrow type, every tie between two of them and its neighbours, and any bits; no NaN."""
    every = np.arange(1 << 16, dtype=np.uint16)
    exact = every.view(np.float16).astype(np.float32) if type_id == 1 else (every.astype(np.uint32) << 16).view(np.float32)
    sample = uniform_bits(1 << 17, 77).astype(np.uint32)
    bits = exact.view(np.uint32)
    ties = bits + np.uint32(0x1000 if type_id == 1 else 0x8000)
    with np.errstate(over="ignore", invalid="ignore"):
        middles = ((exact[1:].astype(np.float64) + exact[:-1]) / 2).astype(np.float32).view(np.uint32)
    x = np.concatenate([bits, ties, ties - np.uint32(1), ties + np.uint32(1), middles, middles + np.uint32(1), sample])
    values = x.view(np.float32)
    return values[~np.isnan(values)]


def _all_halves() -> Bytes:
    return np.arange(1 << 16, dtype="<u2").view(np.uint8)


def _convert_there(ggml: Any, case: Case) -> str:
    if case["to"] == "F32":
        return stream.digest(ggml.dequantized(case["type_id"], _all_halves(), 1 << 16))
    return stream.digest(ggml.quantized(case["type_id"], _wide(case["type_id"])))


def _convert_here(case: Case) -> str:
    from bankml.core.exact.products import Held, quantized

    if case["to"] == "F32":
        return stream.digest(Held(case["type_id"], _all_halves(), 1, 1 << 16).dequantized())
    return stream.digest(quantized(case["to"], _wide(case["type_id"])))


# --- quantized rows
def _rows(seed: int) -> Iterator[Case]:
    for form in FORMS:
        for shape in (*stream.ROW_SHAPES, *stream.WILD_SHAPES):
            for number in range(8):
                yield {"form": form, "shape": shape, "seed": seed * 1000 + number}


def _row(case: Case) -> Floats:
    return stream.activations(case["shape"], _ROW_LENGTH, case["seed"])


def _quantized_there(ggml: Any, case: Case) -> Bytes:
    row: Bytes = ggml.quantized(TYPE_IDS[case["form"]], _row(case))
    return row


KIND = Kernels()
