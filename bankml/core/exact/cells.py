# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cells of one layer's cache, filled and attended over arrays by the entries that the graph points at."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from bankml.core.exact.products import run
from bankml.core.model.graph import CacheType, float_word, turns
from bankml.core.model.memory import Block
from bankml.kernels import attention, cache_q8, rope
from bankml.kernels.isa import W
from bankml.kernels.q8_0 import FLIP, PACKED

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

EPSILON = 1e-5


class Cells:
    """Room for the cells 0, 1, … of one key-value head, in a cache of either type."""

    def __init__(self, cache_type: CacheType, dim: int, count: int) -> None:
        self.type, self.dim = cache_type, dim
        self.count = -(-count // 16) * 16
        self._small = cache_type == "q8_0"
        keys = cache_q8.key_bytes(dim, self.count) if self._small else 2 * self.count * dim
        values = self.count * cache_q8.value_bytes(dim) if self._small else 2 * self.count * dim
        self._keys, self._values = Block(keys + 256), Block(values + 256)

    def store(self, q: Floats, k: Floats, v: Floats, table: int, rotated: int, neox: bool, norms: Mapping[str, Floats]) -> Floats:
        """Norm, rotate and store rows q[n, heads, dim], k[n, 1, dim] and v[n, 1, dim] in the first cells; q as it is then.

        Args:
            table: address of the cosines and sines of cell 0.
            norms: weights of the norms ``q_norm`` and ``k_norm``, with EPSILON; empty for none.
        """
        n, heads, dim = q.shape
        q, k, v = (np.ascontiguousarray(each).copy() for each in (q, k, v))
        # The kernels read whole vectors.
        weights = {name: Block(4 * dim + 256) for name in norms}
        for name, block in weights.items():
            block.floats((dim,))[:] = norms[name]
        scratch = Block(cache_q8.scratch_bytes(dim, self.count))
        turn = turns(dim) if self._small else (0, 0)
        words = {
            rope.Q: q.ctypes.data, rope.Q_STRIDE: heads * dim, rope.KEYS: k.ctypes.data, rope.KV_STRIDE: dim,
            rope.VALUES: v.ctypes.data, rope.TABLE: table, rope.K_CACHE: self._keys.address, rope.V_CACHE: self._values.address,
            rope.HEADS: heads, rope.KV_HEADS: 1, rope.HEAD_DIM: dim, rope.ROT: rotated, rope.NEOX: int(neox), rope.ROWS: n,
            rope.ROW_PART: n, rope.CELLS: self.count, rope.EPSILON: float_word(EPSILON), cache_q8.K_TURN: turn[0],
            cache_q8.V_TURN: turn[1], cache_q8.SCRATCH: scratch.address,
        }  # fmt: skip
        words |= {{"q_norm": rope.Q_NORM, "k_norm": rope.K_NORM}[name]: block.address for name, block in weights.items()}
        run(cache_q8.rope_store if self._small else rope.rope_store, cache_q8.FIELDS, words, 1)
        return q

    def keys(self, n: int) -> Bytes:
        """The keys of the first n cells, each as a file has such a row."""
        if not self._small:
            blocks = self._keys.bytes[: 2 * self.count * self.dim].view("<u2").reshape(-1, self.dim, rope.CELL_BLOCK)
            return np.ascontiguousarray(blocks.transpose(0, 2, 1)).reshape(-1, self.dim)[:n].view(np.uint8)
        packed = self._keys.bytes[: cache_q8.key_bytes(self.dim, self.count)].reshape(-1, self.dim // 32, PACKED)
        groups = len(packed)
        d = packed[:, :, : 2 * W].reshape(groups, -1, W, 2).transpose(0, 2, 1, 3)
        q = packed[:, :, 2 * W : 34 * W].reshape(groups, -1, 8, W, 4).transpose(0, 3, 1, 2, 4).reshape(groups, W, -1, 32)
        return _blocks(d, q ^ np.uint8(FLIP & 0xFF))[:n]

    def values(self, n: int) -> Bytes:
        """The values of the first n cells, each as a file has such a row."""
        if not self._small:
            return self._values.bytes[: 2 * n * self.dim].reshape(n, 2 * self.dim)
        rows = self._values.bytes[: n * cache_q8.value_bytes(self.dim)].reshape(n, -1)
        scales = self.dim // 16
        return _blocks(rows[:, :scales].reshape(n, 1, -1, 2), rows[:, scales:].reshape(n, 1, -1, 32))

    def attend(self, q: Floats, position: int, scale: float) -> Floats:
        """Attention of rows q[n, heads, dim], the first in the cell ``position`` of a q8_0 cache; float32[n, heads * dim]."""
        n, heads, dim = q.shape
        q = np.ascontiguousarray(q)
        out, scratch = Block(4 * q.size + 256), Block(cache_q8.scratch_bytes(dim, self.count))
        words = {
            attention.Q: q.ctypes.data, attention.Q_STRIDE: heads * dim, attention.K_CACHE: self._keys.address,
            attention.V_CACHE: self._values.address, attention.HEADS: heads, attention.GROUP: heads, attention.DIM: dim,
            attention.CELLS: self.count, attention.POSITION: position, attention.ROWS: n, attention.OUT: out.address,
            attention.OUT_STRIDE: heads * dim, attention.SCRATCH: scratch.address, attention.SCALE: float_word(scale),
            cache_q8.Q_TURN: turns(dim)[0], cache_q8.OUT_TURN: turns(dim)[1],
        }  # fmt: skip
        run(cache_q8.attend_rows, cache_q8.ATTENTION_FIELDS, words, n * heads)
        return out.floats((n, heads * dim)).copy()


def _blocks(d: Bytes, q: Bytes) -> Bytes:
    """Scales d[..., cell, block, 2] and quants q[..., cell, block, 32] as rows of q8_0 blocks."""
    return np.concatenate([d, q], axis=-1).reshape(-1, d.shape[-2] * 34)
