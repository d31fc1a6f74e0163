# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q1_0 weights times q8_0 activations, in the order of the reference's vec_dot, by tables.

File block, 128 weights: ``half d, byte q[16]``, a bit each; weight = bit ? d : -d.
Packed group of W rows, per block: ``half d[W], word q[4][W]``: a word for each 32 activations, four bits a lane.

Per output and block: A[L] = dy0*dot of 4, A[L] = fma(dy_s, dot of 4, A[L]) for s = 1..3, acc[L] = fma(d, A[L], acc[L]); HS-A.
dy is a half and the dot product below 512, so their product is exact and the fma is a sum. So each four activations have a table
of that product for every pattern of four bits, a vector long, and a permutation looks it up for W rows. A vector of eight
holds the patterns whose highest bit is set; the others are their negatives, and the packed bits say which. A quant of -128, which
NaN and infinities give, is not negated in the reference's 8 bits: a row with one has a second set of tables for those patterns.

Source: ggml_vec_dot_q1_0_q8_0, ggml-cpu/arch/x86/quants.c.
"""

from __future__ import annotations

from llvmlite import ir

from bankml.kernels.blocks.walk import is_wild, tame
from bankml.kernels.compiler import types
from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled, entry, kernel
from bankml.kernels.compiler.simd import (
    ADDR,
    F32,
    FW,
    I8,
    I32,
    I64,
    IW,
    Emit,
    V,
    copy2,
    f32xw,
    ld_f16,
    ld_i64,
    ld_u8,
    mk,
    st_f32,
    st_i8,
    tup,
)
from bankml.kernels.products.matmul import (
    BLOCKS,
    COLUMN_PART,
    COLUMNS,
    GROUPS,
    OUT,
    OUT_STRIDE,
    ROW_PARTS,
    WEIGHTS,
    Y_STRIDE,
    Y,
    finish,
    part_start,
)
from bankml.kernels.superblocks.lanes import first_nans

BLOCK, BYTES = 128, 18
MINUS_OFFSET = 0
PACKED = W * BYTES
_Q = 2 * W
# Tables of 32 activations: eight of W floats.
_TABLES = 8 * 4 * W
# Weight blocks whose tables are held at a time, and groups whose sums wait for the next ones: both fit the first two caches.
_SPAN1, _GROUPS1 = (12, 64) if W == 16 else (24, 128)
# Sets of tables beside the usual one for a careful step.
_TURNED = 1 if W == 8 else 0
_COLUMNS, _SPAN, _GROUPS = (3, 4, 64) if W == 16 else (4, 6, 64)


def _stack(name, size):
    """Memory of the calling function."""

    def emit(E, _):
        with E.b.goto_entry_block():
            memory = E.b.alloca(ir.ArrayType(I8, size))
        return E.b.ptrtoint(memory, I64)

    return mk(name, types.intp, (ADDR,), emit)


def _builder(inverted):
    """The eight tables of 32 activations; `inverted`: with all signs turned. Negated in 8 bits: -128 stays."""

    def emit(E, to, y, d):
        lanes = V(I8, 4 * W)
        turned = [((p | (16 - W)) >> e & 1) == inverted for p in range(W) for e in range(4)]
        signs, ones = ir.Constant(lanes, [-1 if t else 0 for t in turned]), ir.Constant(lanes, [1] * 4 * W)
        scale = E.splat_ld(F32, d)
        for lane in range(8):
            quants = E.b.bitcast(E.splat_ld(I32, y, 4 * lane), lanes)
            dots = E.dot_u8s8(E.const(I32, 0, W), ones, E.b.sub(E.b.xor(quants, signs), signs))
            E.st(E.mul(E.i2f(dots), scale), to, 4 * W * lane)

    return emit


def _pick(E, index, table, negative):
    """Table entries; on AVX2 with the sign of the index's fourth bit, or from the table of negatives."""
    if W == 16:
        return E.call("llvm.x86.avx512.permvar.sf.512", FW, [table, index])
    found = E.b.bitcast(E.call("llvm.x86.avx2.permps", FW, [table, index]), IW)
    sign = E.b.and_(E.b.shl(index, E.const(I32, 28, W)), E.const(I32, -(1 << 31), W))
    if negative is None:
        return E.b.bitcast(E.b.xor(found, sign), FW)
    other = E.call("llvm.x86.avx2.permps", FW, [negative, index])
    return E.b.select(E.b.icmp_signed("<", sign, E.const(I32, 0, W)), other, E.b.bitcast(found, FW))


def _last_product(E, total, product):
    """total + product as fma(dy, dot, total) keeps NaN: that of dy, whose sign is clear, before that of the total.

    A product of infinity and 0 has the sign set; there the total's NaN stays.
    """
    of_scale = E.b.icmp_signed(">=", E.b.bitcast(product, IW), E.const(I32, 0, W))
    return E.first(E.b.select(of_scale, product, total), E.add(total, product))


def _step(columns, span, careful=False):
    """`careful`: NaN as the reference keeps it, and on AVX2 the tables of the negated patterns follow the others."""
    count = 8 * columns
    name = "q1_0_careful" if careful else "q1_0"
    turned = careful and W == 8

    def emit(E, values, w, tables, ahead):
        flat = E.untup(values, count)
        for line in range(0, PACKED, 64):
            E.prefetch(E.b.add(w, ahead), line)
        d = E.ld_f16(w)
        words = [E.ld(IW, w, _Q + 4 * W * s) for s in range(4)]
        for lane in range(8):
            sums = [None] * columns
            for s, word in enumerate(words):
                index = E.b.lshr(word, E.const(I32, 4 * lane, W)) if lane else word
                for c in range(columns):
                    at = _TABLES * (4 * span * c + s) + 4 * W * lane
                    negative = E.ld(FW, tables, 4 * span * _TABLES + at) if turned else None
                    found = _pick(E, index, E.ld(FW, tables, at), negative)
                    add = _last_product if careful else Emit.add
                    sums[c] = found if sums[c] is None else add(E, sums[c], found)
            for c in range(columns):
                total = E.fma(d, sums[c], flat[8 * c + lane])
                flat[8 * c + lane] = E.first(d, total) if careful else total
        return E.tup(flat)

    state = tup(f32xw, count)

    def load(E, at):
        return E.tup([E.ld(FW, at, 4 * W * i) for i in range(count)])

    def store(E, at, values):
        for i, v in enumerate(E.untup(values, count)):
            E.st(v, at, 4 * W * i)

    def end(E, values):
        flat = E.untup(values, count)
        return E.tup([first_nans(E, flat[8 * c : 8 * c + 8]) for c in range(columns)])

    return (
        mk(f"{name}_step{columns}", state, (state, ADDR, ADDR, ADDR), emit),
        mk(f"{name}_zeros{columns}", state, (ADDR,), lambda E, _: E.tup([E.const(F32, 0.0, W)] * count)),
        mk(f"{name}_load{columns}", state, (ADDR,), load),
        mk(f"{name}_store{columns}", types.void, (ADDR, state), store),
        mk(f"{name}_result{columns}", tup(f32xw, columns), (state,), end),
    )


_build8 = mk("q1_0_build", types.void, (ADDR,) * 3, _builder(0))
_build8_turned = mk("q1_0_build_turned", types.void, (ADDR,) * 3, _builder(1))
_step1, _zeros1, _load1, _store1, _result1 = _step(1, _SPAN1)
_careful = _step(1, _SPAN1, careful=True)[0]
_stepn, _zerosn, _loadn, _storen, _resultn = _step(_COLUMNS, _SPAN)
_stack1 = _stack("q1_0_stack1", 2 * 4 * _SPAN1 * _TABLES + _GROUPS1 * 32 * W + 64)
_stackn = _stack("q1_0_stackn", _COLUMNS * (4 * _SPAN * _TABLES + _GROUPS * 32 * W) + 64)


@compiled("void(intp, intp, intp, intp, intp, intp)")
def _fill(tables, turned, y, blocks, first, last):
    """The tables of weight blocks first..last for the formed row at y, and those with turned signs where wanted."""
    d = y + 128 * blocks
    for a in range(4 * first, 4 * last):
        _build8(tables + _TABLES * (a - 4 * first), y + 32 * a, d + 4 * a)
        if turned != 0:
            _build8_turned(turned + _TABLES * (a - 4 * first), y + 32 * a, d + 4 * a)


@compiled
def _tile(step, zeros, load, store, result, columns, span, turned, memory, args, y, stride, j, first, last):
    """Columns j.. of row groups first..last. The tables lie at `memory`, `turned` (0 or 1) sets more, the sums after them."""
    blocks = ld_i64(args, BLOCKS)
    memory = (memory + 63) // 64 * 64
    size = span * (4 * _TABLES)
    sums = memory + (columns + turned) * size
    for start in range(0, blocks, span):
        stop = min(blocks, start + span)
        for c in range(columns):
            _fill(memory + c * size, turned * (memory + size), y + c * stride, blocks, start, stop)
        for g in range(first, last):
            at = sums + (g - first) * columns * (32 * W)
            acc = zeros(0) if start == 0 else load(at)
            w = ld_i64(args, WEIGHTS) + g * blocks * PACKED
            for b in range(start, stop):
                acc = step(acc, w + b * PACKED, memory + (b - start) * (4 * _TABLES), blocks * PACKED)
            if stop < blocks:
                store(at, acc)
            else:
                out = result(acc)
                for c in range(columns):
                    finish(args, j + c, g, out[c])


@compiled
def _one(memory, args, y, j, first, last):
    """Column j alone of row groups first..last."""
    if is_wild(y, 4 * ld_i64(args, BLOCKS)):
        _tile(_careful, _zeros1, _load1, _store1, _result1, 1, _SPAN1, _TURNED, memory, args, y, 0, j, first, last)
    else:
        _tile(_step1, _zeros1, _load1, _store1, _result1, 1, _SPAN1, 0, memory, args, y, 0, j, first, last)


@kernel
def gemv(args, chunk, thread):
    """One activation row, packed in the thread's scratch."""
    groups, parts = ld_i64(args, GROUPS), ld_i64(args, ROW_PARTS)
    y = ld_i64(args, Y) + thread * ld_i64(args, Y_STRIDE)
    memory = _stack1(0)
    end = part_start(groups, parts, chunk + 1)
    for g in range(part_start(groups, parts, chunk), end, _GROUPS1):
        _one(memory, args, y, 0, g, min(end, g + _GROUPS1))


@kernel
def gemm(args, chunk, thread):
    """Many activation rows; a chunk is a part of the weight rows times a part of the columns."""
    groups, parts = ld_i64(args, GROUPS), ld_i64(args, ROW_PARTS)
    y, stride = ld_i64(args, Y), ld_i64(args, Y_STRIDE)
    columns, column_part = ld_i64(args, COLUMNS), ld_i64(args, COLUMN_PART)
    first = chunk // parts * column_part
    last = min(columns, first + column_part)
    chunk = chunk % parts
    memory, memory1 = _stackn(0), _stack1(0)
    end = part_start(groups, parts, chunk + 1)
    for g in range(part_start(groups, parts, chunk), end, _GROUPS):
        j = first
        stop = min(end, g + _GROUPS)
        while j < last:
            at = y + j * stride
            if j + _COLUMNS <= last and tame(0, at, stride, _COLUMNS, 4 * ld_i64(args, BLOCKS)):
                _tile(_stepn, _zerosn, _loadn, _storen, _resultn, _COLUMNS, _SPAN, 0, memory, args, at, stride, j, g, stop)
                j += _COLUMNS
            else:
                _one(memory1, args, at, j, g, stop)
                j += 1


@entry("void(intp, intp, intp, intp, intp, intp)")
def pack(source, packed, rows, blocks, first, last):
    """Pack groups first..last of a matrix of `rows` file rows; `packed` holds zeros before."""
    for r in range(first * W, min(rows, last * W)):
        i = r % W
        for b in range(blocks):
            src = source + (r * blocks + b) * 18
            dst = packed + (r // W * blocks + b) * PACKED
            copy2(dst + 2 * i, src)
            for n in range(16):
                byte = ld_u8(src + 2, n)
                if W == 8:
                    low, high = byte & 15, byte >> 4
                    byte = (low - 8 if low >= 8 else 15 - low) | (high - 8 if high >= 8 else 15 - high) << 4
                st_i8(dst + _Q + (n // 4 * W + i) * 4, n % 4, byte)


@compiled("void(intp, intp, intp, intp)")
def unpack_row(packed, row, blocks, out):
    """Dequantize one row of packed weights: d or -d."""
    i = row % W
    for b in range(blocks):
        src = packed + (row // W * blocks + b) * PACKED
        d = ld_f16(src, i)
        for e in range(128):
            four = ld_u8(src + _Q + (e // 32 * W + i) * 4, e % 32 // 8) >> (e % 8 // 4 * 4) & 15
            if W == 8:
                four = four + 8 if four < 8 else 15 - four
            st_f32(out, 128 * b + e, d if four >> (e % 4) & 1 else -d)


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    packed, blocks, part = ld_i64(args, WEIGHTS), ld_i64(args, BLOCKS), ld_i64(args, COLUMN_PART)
    for j in range(chunk * part, min(ld_i64(args, COLUMNS), chunk * part + part)):
        unpack_row(packed, ld_i64(ld_i64(args, Y), j), blocks, ld_i64(args, OUT) + 4 * j * ld_i64(args, OUT_STRIDE))
