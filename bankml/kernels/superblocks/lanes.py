# SPDX-License-Identifier: MIT OR Apache-2.0
"""Products of super-block types in vec_dot's order: eight lanes for each output, one after the other.

A tile is W weight rows times some columns. Its state lives in memory: a real loop over the lanes keeps LLVM from unpacking the
words of all lanes first and spilling them. Words of a lane lie together in the packed weights, W words for each group or for
what several groups were folded into.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from bankml.kernels.activations.quantize_k import RECORD, C, D
from bankml.kernels.compiler import types
from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled
from bankml.kernels.compiler.simd import ADDR, F32, FW, I8, I32, IW, f32xw, ld_i64, mk, tup
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
from bankml.kernels.superblocks.steps import add_scaled, columns_of, separate, zero, zeros

VECTOR = 4 * W


@dataclass(frozen=True)
class Layout:
    """How a type's super-block of W rows is read in lanes.

    `quants`, `lane_bytes`: where the words start and how far it is from lane to lane. `extra`: vectors of state for each column
    beside the eight lanes. `scales(E, w)`: sixteen vectors that lane_sums takes, for eight groups of lanes 0 to 3 and then of
    lanes 4 to 7; or none. `words(E, at)`: a lane's words. `begin(E, tile)`: what a super-block does once.
    `lane(E, tile, words, scales)`: the lane's integer sums, one for each column. `end(E, sum, extra)`: a column's result.
    """

    name: str
    quants: int
    lane_bytes: int
    scales: Callable[..., Any]
    words: Callable[..., Any]
    lane: Callable[..., Any]
    extra: int = 0
    begin: Callable[..., None] | None = None
    end: Callable[..., Any] = lambda E, total, extra: total


class Tile:
    """The state of a tile in memory: lanes, extra state, the block's scales and factors. A *place* is an address."""

    def __init__(self, E, layout, columns, scratch, w, y, stride, lane=None):
        self.E, self.scratch, self.w = E, scratch, w
        self.columns, self.extra = columns, layout.extra
        self.ys = columns_of(E, y, stride, columns)
        self.lane = lane

    def at(self, index, offset=None):
        """Address of vector `index`, plus `offset` vectors counted at run time."""
        address = self.E.b.add(self.scratch, self.E.i64(VECTOR * index))
        return address if offset is None else self.E.b.add(address, self.E.b.mul(offset, self.E.i64(VECTOR)))

    def accumulator(self, c):
        """Place of the present lane of column c."""
        return self.at(8 * c, self.lane)

    def extra_at(self, c, i):
        """Place of extra vector i of column c."""
        return self.at(8 * self.columns + self.extra * c + i)

    def scales_at(self):
        """Index of the first scale."""
        return (8 + self.extra) * self.columns

    def factor(self, c):
        """Place of column c's factor."""
        return self.at(self.scales_at() + 16 + c)

    def negative(self, c):
        """Place of column c's factor of the minima."""
        return self.at(self.scales_at() + 16 + self.columns + c)

    def load(self, place):
        """The vector at a place."""
        return self.E.ld(FW, place)

    def store(self, value, place):
        """Put a vector at a place."""
        self.E.st(value, place)

    def of_lane(self, address, size):
        """Address of the present lane's share of an array, `size` bytes a lane."""
        return self.E.b.add(address, self.E.b.mul(self.E.i64(self.lane), self.E.i64(size)))

    def sums(self, c, at):
        """Address of the present lane's word `at` bytes into a record, one word a lane."""
        return self.E.b.add(self.of_lane(self.ys[c], 4), self.E.i64(at))

    def fma(self, place, factor, value):
        """place += factor * value, with one rounding."""
        self.store(self.E.fma(self.load(factor), self.E.i2f(value), self.load(place)), place)

    def set_factors(self):
        """The factors of the products: d * dy."""
        d = self.E.ld_f16(self.w)
        for c, y in enumerate(self.ys):
            self.store(self.E.mul(d, self.E.splat_ld(F32, y, D)), self.factor(c))

    def set_negative(self, dmin):
        """The factors of the minima: -dy * dmin."""
        for c, y in enumerate(self.ys):
            self.store(self.E.mul(self.E.b.fneg(self.E.splat_ld(F32, y, D)), dmin), self.negative(c))


class Registers(Tile):
    """The same of one column, with the state in registers; a place is an index."""

    def __init__(self, E, layout, state, w, y):
        super().__init__(E, layout, 1, None, w, y, E.i64(0))
        self.vectors = [*state, *[None] * 18]

    def at(self, index, offset=None):
        """Index of vector `index`, plus `offset`."""
        return index + (offset or 0)

    def load(self, place):
        """The vector of an index."""
        return self.vectors[place]

    def store(self, value, place):
        """Set the vector of an index."""
        self.vectors[place] = value


def lane_sums(E, tile, words, scales, *, offset=False):
    """For each column the sum over the eight groups of scale times dot. `offset`: weights are stored with one."""
    totals = [zero(E)] * tile.columns
    for g, u in enumerate(words):
        for c in range(tile.columns):
            less = E.splat_ld(I32, tile.sums(c, C + 32 * g)) if offset else None
            totals[c] = add_scaled(E, totals[c], u, E.splat_ld(I32, tile.sums(c, 32 * g)), scales[g], less)
    return totals


def tiles(layout, columns):
    """The intrinsics of a tile in memory: (scratch, clear, begin, lane, result); see the kernels for their use."""
    state = (8 + layout.extra) * columns
    size = VECTOR * (state + 16 + 2 * columns)
    name = f"{layout.name}_{columns}"

    def scratch(E, _):
        with E.b.goto_entry_block():
            memory = E.b.alloca(ir.ArrayType(I8, size))
            memory.align = 64
        return E.b.ptrtoint(memory, ir.IntType(64))

    def clear(E, scratch):
        for i in range(state):
            E.st(E.const(F32, 0.0, W), scratch, VECTOR * i)

    def open_block(E, scratch, w, y, stride):
        tile = Tile(E, layout, columns, scratch, w, y, stride)
        tile.set_factors()
        scales = layout.scales(E, w)
        for i, scale in enumerate(2 * scales if len(scales) == 8 else scales):
            E.st(scale, tile.at(tile.scales_at() + i))
        if layout.begin is not None:
            layout.begin(E, tile)

    def lane(E, scratch, w, y, stride, index):
        tile = Tile(E, layout, columns, scratch, w, y, stride, index)
        words = layout.words(E, E.b.add(tile.of_lane(w, layout.lane_bytes), E.i64(layout.quants)))
        half = E.b.and_(index, E.i64(4))
        scales = [E.ld(IW, tile.at(tile.scales_at() + g, E.b.mul(half, E.i64(2)))) for g in range(8)]
        for c, total in enumerate(layout.lane(E, tile, words, scales)):
            tile.fma(tile.accumulator(c), tile.factor(c), total)

    def result(E, scratch):
        out = []
        for c in range(columns):
            total = E.hsum_a([E.ld(FW, scratch, VECTOR * (8 * c + i)) for i in range(8)])
            extra = [E.ld(FW, scratch, VECTOR * (8 * columns + layout.extra * c + i)) for i in range(layout.extra)]
            out.append(layout.end(E, total, extra))
        return E.tup(out)

    four = (ADDR,) * 4
    return (
        mk(f"{name}_scratch", types.intp, (ADDR,), scratch),
        mk(f"{name}_clear", types.void, (ADDR,), clear),
        mk(f"{name}_begin", types.void, four, open_block),
        mk(f"{name}_lane", types.void, (*four, ADDR), lane),
        mk(f"{name}_result", tup(f32xw, columns), (ADDR,), result),
    )


def column(layout):
    """The intrinsics of one column in registers, all lanes unrolled: (zeros, step, result).

    It asks for no line ahead: with large pages the hardware does, and asking cost a fifth of the speed on matrices in memory.
    """
    count = 8 + layout.extra

    def step(E, state, w, y):
        tile = Registers(E, layout, E.untup(state, count), w, y)
        tile.set_factors()
        scales = layout.scales(E, w)
        if layout.begin is not None:
            layout.begin(E, tile)
        for lane in range(8):
            separate(E)
            if lane == 4:
                # Eight that all lanes take are made twice: living through all of them, they spilled.
                scales = scales[8:] or layout.scales(E, w)
            tile.lane = lane
            words = layout.words(E, E.b.add(w, E.i64(layout.quants + lane * layout.lane_bytes)))
            (total,) = layout.lane(E, tile, words, scales[:8])
            tile.fma(tile.accumulator(0), tile.factor(0), total)
        return E.tup(tile.vectors[:count])

    def result(E, state):
        v = E.untup(state, count)
        return layout.end(E, E.hsum_a(v[:8]), v[8:])

    state = tup(f32xw, count)
    return (
        zeros(layout.name, count),
        mk(f"{layout.name}_column", state, (state, ADDR, ADDR), step),
        mk(f"{layout.name}_column_result", f32xw, (state,), result),
    )


def first_nan(E, total, more):
    """total + more; where both are NaN, `total`, as the reference's compiled sum has it."""
    return E.first(total, E.add(total, more))


def first_nans(E, v):
    """HS-A over eight values; of several NaN the one that hsum_float_8 keeps as it was compiled."""
    t = [first_nan(E, v[i + 4], v[i]) for i in range(4)]
    return first_nan(E, first_nan(E, t[0], t[2]), first_nan(E, t[1], t[3]))


@compiled
def lanes_sum(zeros, step, result, packed, w, y, blocks):
    """W outputs of one activation row."""
    acc = zeros(0)
    for b in range(blocks):
        acc = step(acc, w + b * packed, y + b * RECORD)
    return result(acc)


@compiled
def one_row(zeros, step, result, packed, args, chunk, thread):
    """Matrix times the activation row in the thread's scratch: a part of the row groups. The intrinsics are `column`'s."""
    w, groups, blocks, parts = ld_i64(args, WEIGHTS), ld_i64(args, GROUPS), ld_i64(args, BLOCKS), ld_i64(args, ROW_PARTS)
    y = ld_i64(args, Y) + thread * ld_i64(args, Y_STRIDE)
    for g in range(part_start(groups, parts, chunk), part_start(groups, parts, chunk + 1)):
        finish(args, 0, g, lanes_sum(zeros, step, result, packed, w + g * blocks * packed, y, blocks))


@compiled
def many_rows(scratch, clear, begin, lane, results, columns, zeros, step, result, packed, args, chunk):
    """Matrix times many activation rows: a part of the row groups times a part of the rows.

    The first five intrinsics are those of `tiles` for `columns` columns; what is left over takes those of `column`.
    """
    w, groups, blocks, parts = ld_i64(args, WEIGHTS), ld_i64(args, GROUPS), ld_i64(args, BLOCKS), ld_i64(args, ROW_PARTS)
    y, stride = ld_i64(args, Y), ld_i64(args, Y_STRIDE)
    total, column_part = ld_i64(args, COLUMNS), ld_i64(args, COLUMN_PART)
    first = chunk // parts * column_part
    last = min(total, first + column_part)
    chunk = chunk % parts
    tiled = first + (last - first) // columns * columns
    state = scratch(0)
    for g in range(part_start(groups, parts, chunk), part_start(groups, parts, chunk + 1)):
        at = w + g * blocks * packed
        for j in range(first, tiled, columns):
            clear(state)
            for b in range(blocks):
                block, records = at + b * packed, y + j * stride + b * RECORD
                begin(state, block, records, stride)
                for i in range(8):
                    lane(state, block, records, stride, i)
            out = results(state)
            for c in range(columns):
                finish(args, j + c, g, out[c])
        for j in range(tiled, last):
            finish(args, j, g, lanes_sum(zeros, step, result, packed, at, y + j * stride, blocks))
