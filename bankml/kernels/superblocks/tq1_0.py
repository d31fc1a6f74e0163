# SPDX-License-Identifier: MIT OR Apache-2.0
"""TQ1_0 weights times q8_K activations, in the order of the reference's vec_dot: TQ2_0's.

File block, 256 weights: ``byte q[48], byte last[4], half d``; weight = (digit - 1)*d. A byte holds five digits to base 3, each of
the last four bytes four: digit n is what (byte * 3^n mod 256) * 3 carries over 256. Digit n of bytes 0 to 31 is element 32n and
the next 31, that of bytes 32 to 47 element 160 + 16n and the next 15, that of the last four element 240 + 4n and the next 3.
Packed as TQ2_0, in 66 bytes for the file's 54: taking digits apart costs more than reading the bytes.

Source: ggml_vec_dot_tq1_0_q8_K, ggml-cpu/arch/x86/quants.c; dequantize_row_tq1_0, ggml-quants.c. They take a digit in two ways,
which agree on every byte.
"""

from __future__ import annotations

from llvmlite import ir

from bankml.kernels.compiler import types
from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import entry
from bankml.kernels.compiler.simd import ADDR, I8, I16, I32, V, copy2, mk
from bankml.kernels.superblocks.tq2_0 import BLOCK, MINUS_OFFSET, PACKED, QUANTS, gemm, gemv, get_rows

__all__ = ["BLOCK", "BYTES", "MINUS_OFFSET", "PACKED", "gemm", "gemv", "get_rows", "pack"]

BYTES = 54


def _digits(E, data, powers):
    """A digit of each byte; `powers` says which, as powers of 3."""
    n = len(powers)
    lanes = V(I16, n)
    low, three, eight = (ir.Constant(lanes, [v] * n) for v in (0xFF, 3, 8))
    moved = E.b.and_(E.b.mul(E.b.zext(data, lanes), ir.Constant(lanes, powers)), low)
    return E.b.trunc(E.b.lshr(E.b.mul(moved, three), eight), V(I8, n))


def _words(E, source, to):
    """Write a block's 16 words of codes, W words apart."""
    first, second, last = E.ld(V(I8, 32), source), E.ld(V(I8, 16), source, 32), E.ld(V(I8, 4), source, 48)
    twice = E.shuffle(second, second, [*range(16)] * 2)
    groups = [_digits(E, first, [3**n] * 32) for n in range(5)]
    groups += [_digits(E, twice, [3**n] * 16 + [3 ** (n + 1)] * 16) for n in (0, 2)]
    end = _digits(E, E.shuffle(last, last, [*range(4)] * 4), [3**n for n in range(4) for _ in range(4)])
    groups.append(E.join(_digits(E, second, [81] * 16), end))
    for half in range(2):
        codes = groups[4 * half]
        for n in range(1, 4):
            codes = E.b.or_(codes, E.b.shl(groups[4 * half + n], ir.Constant(V(I8, 32), [2 * n] * 32)))
        words = E.b.bitcast(codes, V(I32, 8))
        for lane in range(8):
            E.st(E.lane(words, lane), to, 4 * W * (2 * lane + half))


_pack_block = mk("tq1_0_words", types.void, (ADDR, ADDR), _words)


@entry("void(intp, intp, intp, intp, intp, intp)")
def pack(source, packed, rows, blocks, first, last):
    """Pack groups first..last of a matrix of `rows` file rows; `packed` holds zeros before."""
    for r in range(first * W, min(rows, last * W)):
        i = r % W
        for b in range(blocks):
            src = source + (r * blocks + b) * BYTES
            dst = packed + (r // W * blocks + b) * PACKED
            copy2(dst + 2 * i, src + 52)
            _pack_block(src, dst + QUANTS + 4 * i)
