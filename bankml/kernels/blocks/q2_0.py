# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q2_0 weights times q8_0 activations, in the order of the reference's scalar code.

File block, 64 weights: ``half d, byte q[16]``, four 2-bit codes a byte, low bits first; weight = (code - 1)*d.
Packed group of W rows, per block: ``half d[W], byte q[4][W][4]``: bits 2i of byte e of word p belong to element 16p + 4i + e, so
that one mask gives the weights of four neighbours. The activation row carries minus its sums, times 64 with VNNI.

Per output and block: u = fma(dy0, dot of 32, 0), u = fma(dy1, dot of 32, u), acc = fma(d, u, acc).
Source: ggml_vec_dot_q2_0_q8_0_generic, ggml-cpu/quants.c; the sums are contracted by the compiler.
"""

from __future__ import annotations

from llvmlite import ir

from bankml.kernels.blocks.nibbles import only, splat_bytes
from bankml.kernels.blocks.walk import TOTALS, many_rows, one_row, tile
from bankml.kernels.compiler.isa import VNNI, W
from bankml.kernels.compiler.native import compiled, entry, kernel
from bankml.kernels.compiler.simd import F32, I8, I16, I32, IW, V, copy2, ld_f16, ld_i64, ld_u8, st_f32, st_i8
from bankml.kernels.products.matmul import BLOCKS, COLUMN_PART, COLUMNS, OUT, OUT_STRIDE, WEIGHTS, Y

BLOCK, BYTES = 64, 18
MINUS_OFFSET = -64 if VNNI else -1
PACKED = W * BYTES
_Q = 2 * W
_RATIO = 2


def _dots(E, w, ys, xs, half):
    """Dot products with 32 of the activations: codes in place, highest bits first, with VNNI."""
    q = [E.ld(IW, w, _Q + 4 * W * p) for p in (2 * half, 2 * half + 1)]
    sums = [E.splat_ld(I32, x, 4 * half) for x in xs]
    if VNNI:
        for i in (3, 2, 1, 0):
            if i < 3:
                sums = [E.b.ashr(s, E.const(I32, 2, W)) for s in sums]
            for p in range(2):
                u = E.b.and_(q[p], splat_bytes(3 << 2 * i))
                sums = [E.dot_u8s8(s, u, E.splat_ld(I32, y, 32 * half + 16 * p + 4 * i)) for s, y in zip(sums, ys, strict=True)]
        return sums
    halves = [ir.Constant(V(I16, 16), [0] * 16)] * len(ys)
    for p in range(2):
        for i in range(4):
            u = E.b.bitcast(E.b.and_(E.b.lshr(q[p], E.const(I32, 2 * i, W)), splat_bytes(3)), V(I8, 32))
            for c, y in enumerate(ys):
                s = E.b.bitcast(E.splat_ld(I32, y, 32 * half + 16 * p + 4 * i), V(I8, 32))
                halves[c] = E.b.add(halves[c], E.call("llvm.x86.avx2.pmadd.ub.sw", V(I16, 16), [u, s]))
    ones = ir.Constant(V(I16, 16), [1] * 16)
    wide = [E.call("llvm.x86.avx2.pmadd.wd", V(I32, 8), [h, ones]) for h in halves]
    return [E.b.add(s, h) for s, h in zip(sums, wide, strict=True)]


def _us(E, w, ys, ds, xs):
    us = [E.const(F32, 0.0, W)] * len(ys)
    for half in range(2):
        dots = _dots(E, w, ys, xs, half)
        us = [E.fma(E.splat_ld(F32, at, 4 * half), E.i2f(s), u) for at, s, u in zip(ds, dots, us, strict=True)]
    return us


def _block(E, accs, w, ys, ds, xs):
    d = E.ld_f16(w)
    return [[E.fma(d, u, acc[0])] for u, acc in zip(_us(E, w, ys, ds, xs), accs, strict=True)]


def _careful_block(E, accs, w, ys, ds, xs):
    """The same; where d and u are NaN, it is u."""
    d = E.ld_f16(w)
    return [[E.first(u, E.fma(d, u, acc[0]))] for u, acc in zip(_us(E, w, ys, ds, xs), accs, strict=True)]


_COLUMNS = 4
_step1, _zeros1, _result1 = tile("q2_0", 1, 1, _block, only, PACKED)
_careful, _, _ = tile("q2_0_careful", 1, 1, _careful_block, only, PACKED)
_stepn, _zerosn, _resultn = tile("q2_0", _COLUMNS, 1, _block, only, PACKED)


@kernel
def gemv(args, chunk, thread):
    """One activation row, packed in the thread's scratch."""
    one_row(_step1, _careful, _zeros1, _result1, PACKED, _RATIO, TOTALS, args, chunk, thread)


@kernel
def gemm(args, chunk, thread):
    """Many activation rows; a chunk is a part of the weight rows times a part of the columns."""
    many_rows(_stepn, _zerosn, _resultn, _COLUMNS, _step1, _careful, _zeros1, _result1, PACKED, _RATIO, TOTALS, None, args, chunk)


@entry("void(intp, intp, intp, intp, intp, intp)")
def pack(source, packed, rows, blocks, first, last):
    """Pack groups first..last of a matrix of `rows` file rows; `packed` holds zeros before."""
    for r in range(first * W, min(rows, last * W)):
        i = r % W
        for b in range(blocks):
            src = source + (r * blocks + b) * 18
            dst = packed + (r // W * blocks + b) * PACKED
            copy2(dst + 2 * i, src)
            for p in range(4):
                # Four bytes are a 4 x 4 table of codes: it is turned over.
                for e in range(4):
                    byte = 0
                    for n in range(4):
                        byte |= ((ld_u8(src + 2 + 4 * p, n) >> (2 * e)) & 3) << (2 * n)
                    st_i8(dst + _Q + (p * W + i) * 4, e, byte)


@compiled("void(intp, intp, intp, intp)")
def unpack_row(packed, row, blocks, out):
    """Dequantize one row of packed weights: (code - 1)*d, rounded."""
    i = row % W
    for b in range(blocks):
        src = packed + (row // W * blocks + b) * PACKED
        d = ld_f16(src, i)
        for e in range(64):
            byte = ld_u8(src + _Q + (e // 16 * W + i) * 4, e % 4)
            st_f32(out, 64 * b + e, (((byte >> (e % 16 // 4 * 2)) & 3) - 1) * d)


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    packed, blocks, part = ld_i64(args, WEIGHTS), ld_i64(args, BLOCKS), ld_i64(args, COLUMN_PART)
    for j in range(chunk * part, min(ld_i64(args, COLUMNS), chunk * part + part)):
        unpack_row(packed, ld_i64(ld_i64(args, Y), j), blocks, ld_i64(args, OUT) + 4 * j * ld_i64(args, OUT_STRIDE))
