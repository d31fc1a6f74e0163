# SPDX-License-Identifier: MIT OR Apache-2.0
"""Walks that the block types share: over row groups, blocks and activation rows, with a type's own step for one block.

A type hands over three intrinsics made by ``tile``: a step ``(state, w, y, d, x, stride) -> state`` for one block of W weight
rows and `columns` activation rows, the state at the start, and the results at the end. y, d, x are the addresses of the first
column's quants, scale and extra words in this block; the next column's lie `stride` bytes further.

A row with NaN, infinities or an infinite scale takes the step `careful` where a type has one: its usual step multiplies quants
of -128 otherwise than the reference, and of two NaN it may keep another (nibbles.py).

The walks take intrinsics as arguments and have no signature, so each type compiles its own and its cached kernel holds it.
"""

from __future__ import annotations

from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled
from bankml.kernels.compiler.simd import ADDR, F32, f32xw, ld_i32, ld_i64, mk, tup
from bankml.kernels.products.matmul import (
    BLOCKS,
    COLUMN_PART,
    COLUMNS,
    GROUPS,
    ROW_PARTS,
    WEIGHTS,
    Y_STRIDE,
    Y,
    finish,
    part_start,
)

# Where the extra words of a formed row begin, in words of 4 bytes a block after the scales, and the bytes of one block's.
# Layout: quantize.py.
SUMS, FOURS, TOTALS = (4, 4), (8, 32), (40, 4)
# Bytes between a block and the one asked for: a page, by measurement.
_AHEAD = 4096
# Bytes of weights that meet all activation rows of a chunk before the next ones: an eighth of a usual second cache.
_HELD = 131072


def tile(name, columns, vectors, block, result, packed):
    """(step, zeros, result) for `columns` columns of `vectors` vectors each.

    Args:
        block: ``block(E, accs, w, ys, ds, xs)`` gives the columns' new vectors, a list of lists like `accs`.
        result: ``result(E, vectors)`` gives a column's W outputs.
        packed: bytes of a block of W rows; this number is asked for ahead of its use.
    """
    count = columns * vectors
    state = tup(f32xw, count)

    def step(E, values, w, y, d, x, stride):
        flat = E.untup(values, count)
        for line in range(0, packed, 64):
            E.prefetch(w, _AHEAD + line)
        accs = [flat[c * vectors : (c + 1) * vectors] for c in range(columns)]
        ys, ds, xs = ([_column(E, at, stride, c) for c in range(columns)] for at in (y, d, x))
        return E.tup([v for acc in block(E, accs, w, ys, ds, xs) for v in acc])

    def end(E, values):
        flat = E.untup(values, count)
        return E.tup([result(E, flat[c * vectors : (c + 1) * vectors]) for c in range(columns)])

    return (
        mk(f"{name}_step{columns}", state, (state,) + (ADDR,) * 5, step),
        mk(f"{name}_zeros{columns}", state, (ADDR,), lambda E, _: E.tup([E.const(F32, 0.0, W)] * count)),
        mk(f"{name}_result{columns}", tup(f32xw, columns), (state,), end),
    )


def _column(E, address, stride, column):
    if column == 0:
        return address
    return E.b.add(address, stride if column == 1 else E.b.mul(stride, E.i64(column)))


@compiled
def _group(step, zeros, packed, ratio, at, size, w, y, stride, blocks):
    """The state after all blocks of one row group; `ratio` activation blocks to one of the weights."""
    acc = zeros(0)
    d = y + 32 * ratio * blocks
    x = d + at * ratio * blocks
    for b in range(blocks):
        acc = step(acc, w + packed * b, y + 32 * ratio * b, d + 4 * ratio * b, x + size * ratio * b, stride)
    return acc


@compiled("intp(intp, intp)")
def is_wild(y, blocks):
    """Whether a formed row of activation blocks has a quant of -128, or a scale that is infinite or NaN."""
    return ld_i32(y, 19 * blocks) != 0


@compiled
def one_group(step, careful, zeros, packed, ratio, extra, w, y, blocks):
    """The state of one activation row with one group; formed row: quantize.py."""
    # Nested: numba drops the branch where there is no careful step, by this form only.
    if careful is not None:  # noqa: SIM102
        if is_wild(y, ratio * blocks):
            return _group(careful, zeros, packed, ratio, extra[0], extra[1], w, y, 0, blocks)
    return _group(step, zeros, packed, ratio, extra[0], extra[1], w, y, 0, blocks)


@compiled
def _by_fours(step, careful, exact, sure, zeros, packed, ratio, extra, w, y, blocks):
    """One activation row with one group; `sure`: one of those that the reference takes by fours."""
    if exact is not None:  # noqa: SIM102
        if sure:
            return one_group(step, exact, zeros, packed, ratio, extra, w, y, blocks)
    return one_group(step, careful, zeros, packed, ratio, extra, w, y, blocks)


@compiled
def tame(careful, y, stride, columns, blocks):
    """No row needs the NaN-exact step."""
    if careful is not None:
        for c in range(columns):
            if is_wild(y + c * stride, blocks):
                return False
    return True


@compiled
def one_row(step, careful, zeros, result, packed, ratio, extra, args, chunk, thread):
    """Matrix times the activation row in the thread's scratch: a part of the row groups."""
    groups, blocks, parts = ld_i64(args, GROUPS), ld_i64(args, BLOCKS), ld_i64(args, ROW_PARTS)
    y = ld_i64(args, Y) + thread * ld_i64(args, Y_STRIDE)
    for g in range(part_start(groups, parts, chunk), part_start(groups, parts, chunk + 1)):
        w = ld_i64(args, WEIGHTS) + g * blocks * packed
        finish(args, 0, g, result(one_group(step, careful, zeros, packed, ratio, extra, w, y, blocks))[0])


@compiled
def many_rows(step, zeros, result, columns, step1, careful, zeros1, result1, packed, ratio, extra, exact, args, chunk):
    """Matrix times many activation rows: a part of the row groups times a part of the rows, `columns` at a time.

    Where the reference takes activation rows by fours first, `exact` is the step for those of them that are wild.
    """
    groups, blocks, parts = ld_i64(args, GROUPS), ld_i64(args, BLOCKS), ld_i64(args, ROW_PARTS)
    y, stride = ld_i64(args, Y), ld_i64(args, Y_STRIDE)
    total, column_part = ld_i64(args, COLUMNS), ld_i64(args, COLUMN_PART)
    first = chunk // parts * column_part
    last = min(total, first + column_part)
    sure = total // 4 * 4
    chunk = chunk % parts
    end = part_start(groups, parts, chunk + 1)
    some = max(1, _HELD // (blocks * packed))
    for start in range(part_start(groups, parts, chunk), end, some):
        # These groups stay in the second cache, and a tile of activation rows in the first while it meets them.
        stop = min(end, start + some)
        j = first
        while j < last:
            at = y + j * stride
            if j + columns <= last and tame(careful, at, stride, columns, ratio * blocks):
                for g in range(start, stop):
                    w = ld_i64(args, WEIGHTS) + g * blocks * packed
                    acc = _group(step, zeros, packed, ratio, extra[0], extra[1], w, at, stride, blocks)
                    out = result(acc)
                    for c in range(columns):
                        finish(args, j + c, g, out[c])
                j += columns
            else:
                for g in range(start, stop):
                    w = ld_i64(args, WEIGHTS) + g * blocks * packed
                    one = _by_fours(step1, careful, exact, j < sure, zeros1, packed, ratio, extra, w, at, blocks)
                    finish(args, j, g, result1(one)[0])
                j += 1
