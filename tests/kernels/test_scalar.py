# SPDX-License-Identifier: MIT OR Apache-2.0
"""The scalar models against what the reference answered, and the fast kernels against the scalar models."""

import hashlib
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bankml.core.exact import attention as fast_attention
from bankml.core.exact import operations as fast_operations
from bankml.core.exact import products as fast_products
from bankml.core.exact import stream
from bankml.core.gguf.types import TYPE_IDS
from bankml.kernels.scalar import arithmetic, attention, products, quantizers, rope, rows
from bankml.oracle.kinds import attention as attention_kind
from bankml.oracle.kinds import operations as operations_kind
from bankml.oracle.kinds.kernels import smallest_scales
from bankml.oracle.record import read_record

pytestmark = pytest.mark.long

RECORDS = Path(__file__).resolve().parent.parent / "records"
F32 = np.float32
FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)


def record_of(name):
    return read_record(RECORDS / f"{name}.json.gz").body


def same_bits(a, b):
    a, b = np.asarray(a, F32), np.asarray(b, F32)
    return a.shape == b.shape and bool(((a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))).all())


# --- arithmetic
@settings(max_examples=300, deadline=None)
@given(FINITE, FINITE, FINITE)
def test_fma_rounds_once(a, b, c):
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    got = arithmetic.fma(F32(a), F32(b), F32(c))
    if not np.isfinite(got):
        assert abs(exact) >= Fraction(2) ** 128 - Fraction(2) ** 103
        return
    with np.errstate(over="ignore"):
        # Past the largest float lies infinity.
        below, above = np.nextafter(got, F32(-np.inf)), np.nextafter(got, F32(np.inf))
    error = abs(exact - Fraction(float(got)))
    for near in (below, above):
        if np.isfinite(near):
            other = abs(exact - Fraction(float(near)))
            assert error < other or (error == other and got.view(np.uint32) % 2 == 0)


def test_fma_where_rounding_twice_is_wrong():
    # The exact sum lies 2^-70 below the middle of two float32; float64 drops that, and the tie would go up.
    a, b, c = F32(1 + 2.0**-23), F32((1 - 2.0**-23) * 2.0**-24), F32(1 + 2.0**-23)
    assert F32(np.float64(a) * np.float64(b) + np.float64(c)) == F32(1 + 2.0**-22)
    assert arithmetic.fma(a, b, c) == F32(1 + 2.0**-23)


def test_narrow_formats():
    every = np.arange(1 << 16, dtype=np.uint16)
    wide = every.view(np.float16).astype(F32)
    assert same_bits(arithmetic.half(wide), wide)
    wide = (every.astype(np.uint32) << 16).view(F32)
    assert same_bits(arithmetic.bfloat(wide), wide)
    assert arithmetic.bfloat(F32(1 + 2.0**-8)) == F32(1)
    assert arithmetic.bfloat(F32(1 + 3 * 2.0**-8)) == F32(1 + 2.0**-6)
    assert arithmetic.half(F32(65520)) == np.inf


# --- the models against the reference
def test_quantizers_give_the_references_bytes():
    held = 0
    for case in record_of("kernels")["rows"]:
        x = stream.activations(case["shape"], 1024, case["seed"])
        if np.isnan(x).any() or case["form"] not in ("Q8_0", "Q8_1", "Q8_K"):
            continue
        if case["form"] == "Q8_K":
            parts = [
                p for b in quantizers.q8_k(x) for p in (b.d.astype("<f4"), b.q.astype(np.int8), np.asarray(b.sums).astype("<i2"))
            ]
        else:
            parts = []
            for b in quantizers.q8(x):
                sums = [b.s.astype("<f2")] if case["form"] == "Q8_1" else []
                parts += [b.d.astype("<f2"), *sums, b.q.astype(np.int8)]
        found = stream.digest(np.frombuffer(b"".join(part.tobytes() for part in parts), np.uint8))
        assert found == case["answer"], case
        held += 1
    assert held > 150


RECORDED = [name for name in products.TYPES if (RECORDS / f"kernels-{name.lower()}.json.gz").exists()]


@pytest.mark.parametrize("name", RECORDED)
def test_weights_and_products_of_the_reference(name):
    held = 0
    for matrix in record_of(f"kernels-{name.lower()}")["matrices"]:
        if matrix["rows"] > 40:
            continue
        weights = stream.weights(name, matrix["rows"], matrix["k"], matrix["seed"], edges=matrix["edges"])
        weights = smallest_scales(matrix, weights)
        found = products.dequantize(name, weights, matrix["rows"])
        assert hashlib.sha256(found.astype("<f4").tobytes()).hexdigest() == matrix["dequantized"]
        for product in matrix["products"]:
            n = product["columns"]
            if n > 8 or (matrix["rows"] > 8 and n > 5):
                continue
            x = stream.columns(n, matrix["k"], product["seed"], edges=product["edges"])
            out = products.product(name, weights, matrix["rows"], x)
            for row, recorded in zip(out, product["answer"], strict=True):
                # Which NaN it is depends on the processor's operands, which a model in numpy does not fix.
                if not np.isnan(row).any():
                    assert stream.digest(row) == recorded, (matrix["rows"], matrix["k"], n)
                    held += 1
    assert held > 50


def test_attention_of_the_reference():
    held = set()
    for case in record_of("attention")["cases"]:
        n, cells = case["rows"], case["position"] + case["rows"]
        few = cells < 200 if n in (2, 64, 65) else n == 1 and cells in (1, 17, 100, 257)
        if not few and not (n == 1 and cells == 513 and case["threads"] > 2):
            continue
        q, k, v = attention_kind._inputs(case)
        padded, scale = k.shape[1], F32(attention_kind.scale_of(case))
        row = n - 1
        out = []
        for head in range(case["heads"]):
            kv = head // (case["heads"] // case["kv_heads"])
            visible = (q[row, head], k[kv, :cells], v[kv, :cells], scale)
            if n >= 64:
                out.append(attention.tiled(*visible))
            elif n == 1 and padded >= 512:
                out.append(attention.split(*visible, -(-padded // case["threads"])))
            else:
                out.append(attention.reference(*visible))
        assert stream.digest(np.concatenate(out)) == case["answer"][row], case
        held.add("tiled" if n >= 64 else "split" if padded >= 512 else "few" if n > 1 else "one")
    assert held == {"tiled", "split", "few", "one"}


def test_rotation_of_the_reference():
    for case in record_of("operations")["cases"]:
        if case["operation"] != "rope":
            continue
        positions, x = operations_kind.rope_positions(case), operations_kind.rope_rows(case)
        factors = operations_kind.rope_factors(case)
        low, high = (
            fast_operations.corr_dims(case["dims"], case["n_ctx_orig"], case["base"], 32.0, 1.0) if case["ext"] else (0, 0)
        )
        yarn = rope.Yarn(F32(case["freq_scale"]), F32(case["ext"]), F32(case["attn"]), F32(low), F32(high))
        for j in (0, 1, 30, 70, len(positions) - 1):
            pairs = rope.table(int(positions[j]), case["dims"], case["base"], yarn, factors)
            heads = [rope.rotate(head, pairs, neox=case["neox"]) for head in x[j]]
            assert stream.digest(np.concatenate(heads)) == case["answer"][j], (case["dims"], case["neox"], positions[j])


def test_norm_and_swiglu_of_the_reference():
    for case in record_of("operations")["cases"]:
        if case["operation"] == "rms_norm":
            weight = operations_kind.norm_weight(case)
            for x, recorded in zip(operations_kind.norm_rows(case), case["answer"], strict=True):
                found = rows.rms_norm(x, case["epsilon"], np.ones_like(x) if weight is None else weight)
                assert stream.digest(found) == recorded
        if case["operation"] == "swiglu":
            gate, up = operations_kind.gate_and_up(case)
            found = stream.row_digests(operations_kind._by_lanes(rows.swiglu(gate, up)))
            assert found == case["answer"]


# --- the fast kernels against the models
@pytest.mark.parametrize("name", [name for name in products.TYPES if TYPE_IDS[name] in fast_products.TYPE_IDS])
def test_fast_products(name):
    kind = products.scalar_type(name)
    unit = max(kind.BLOCK, 32)
    number = TYPE_IDS[name]
    for m, k, seed in ((8, unit, 71), (5, 3 * unit, 72), (12, 2 * unit, 73)):
        weights = stream.weights(name, m, k, seed, edges=True)
        held = fast_products.Held(number, weights, m, k)
        assert same_bits(held.dequantized(), products.dequantize(name, weights, m))
        for n in (1, 2, 4, 9):
            x = stream.columns(n, k, seed + n, edges=True)
            assert same_bits(held.product(x), products.product(name, weights, m, x)), (m, k, n)


def test_fast_attention():
    for rows_, position, dim, threads in ((1, 40, 64, 3), (1, 520, 32, 4), (3, 10, 96, 1), (64, 9, 32, 1)):
        case = {
            "rows": rows_, "position": position, "dim": dim, "heads": 2, "kv_heads": 1, "spread": "rising", "seed": position,
        }  # fmt: skip
        q, k, v = attention_kind._inputs(case)
        scale = attention_kind.scale_of(case)
        fast = fast_attention.attend(q, k, v, position, threads, scale).reshape(rows_, 2, dim)
        for row in {0, rows_ - 1}:
            cells = position + row + 1
            visible = (q[row, 1], k[0, :cells], v[0, :cells], F32(scale))
            if rows_ >= 64:
                model = attention.tiled(*visible)
            elif rows_ == 1 and k.shape[1] >= 512:
                model = attention.split(*visible, -(-k.shape[1] // threads))
            else:
                model = attention.reference(*visible)
            assert same_bits(fast[row, 1], model)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(width=32, min_value=-130, max_value=130), min_size=8, max_size=8))
def test_fast_swiglu(gate):
    gate, up = np.array(gate, F32), stream.plain(8, 5)
    assert same_bits(fast_operations.swiglu(gate, up), rows.swiglu(gate, up))


@settings(max_examples=60, deadline=None)
@given(st.lists(FINITE, min_size=32, max_size=32))
def test_fast_quantizer(x):
    x = np.array(x, F32)
    with np.errstate(all="ignore"):
        (block,) = quantizers.q8(x)
        expected = np.concatenate(
            [block.d.astype("<f2").reshape(1).view(np.uint8), block.s.astype("<f2").reshape(1).view(np.uint8),
             block.q.astype(np.int8).view(np.uint8)]
        )  # fmt: skip
        found = fast_products.quantized("Q8_1", x)
    assert (found == expected).all()
