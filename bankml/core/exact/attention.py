# SPDX-License-Identifier: MIT OR Apache-2.0
"""bankml's attention kernels called over arrays, chosen as the graph chooses them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bankml.core.exact.operations import join
from bankml.core.exact.products import run
from bankml.core.model.graph import SPLIT_FROM, float_word, rows_mode
from bankml.core.model.memory import Block
from bankml.kernels import attention, attention_rows
from bankml.kernels.rope import CELL_BLOCK
from bankml.kernels.rows import FORM_F32

Floats = npt.NDArray[np.float32]


def attend(
    q: Floats,
    k: npt.NDArray[np.float16],
    v: npt.NDArray[np.float16],
    position: int,
    llama_threads: int,
    scale: float,
    together: int = attention_rows.MOST_HEADS,
) -> Floats:
    """Attention of rows whose first sits in cell `position`, each over the cells up to its own.

    Args:
        q: float32[rows, heads, dim].
        k, v: half[kv heads, cells, dim]; cells are the reference's padded number.
        together: the most heads that are taken at once.

    Returns: float32[rows, heads * dim].
    """
    rows, heads, dim = q.shape
    kv_heads, cells, _ = k.shape
    width = heads * dim
    q = np.ascontiguousarray(q)
    blocked = k.reshape(kv_heads, cells // CELL_BLOCK, CELL_BLOCK, dim).transpose(0, 1, 3, 2)
    keys, values = _cache(blocked), _cache(v)
    scratch = Block(max(attention.scratch_bytes(dim), attention_rows.scratch_bytes(dim, cells), 4 * width + 256))
    out = Block(4 * rows * width + 256)
    tiles = kv_heads * -(-(heads // kv_heads) // together)
    words = {
        attention.Q: int(q.ctypes.data), attention.Q_STRIDE: width, attention.K_CACHE: keys.address,
        attention.V_CACHE: values.address, attention.HEADS: heads, attention.GROUP: heads // kv_heads, attention.DIM: dim,
        attention.CELLS: cells, attention.POSITION: position, attention.ROWS: rows, attention.SPAN: cells, attention.SPANS: 1,
        attention.OUT: out.address, attention.OUT_STRIDE: width, attention.SCRATCH: scratch.address,
        attention.SCALE: float_word(scale), attention.HEADS_TOGETHER: together,
    }  # fmt: skip
    if rows_mode(rows, dim) == "many":
        run(attention.rows_tiled, attention.FIELDS, words, -(-rows // attention.TILE_ROWS) * heads)
    elif rows > 1:
        run(attention_rows.attend, attention.FIELDS, words, rows * tiles)
    else:
        spans = llama_threads if cells >= SPLIT_FROM else 1
        partials = Block(4 * heads * spans * (2 + dim))
        words |= {attention.SPANS: spans, attention.SPAN: -(-cells // spans), attention.PARTIALS: partials.address}
        run(attention_rows.attend, attention.FIELDS, words, tiles * spans)
        join(partials.address, (heads, spans, dim), scratch, out, FORM_F32)
    return out.floats((rows, width)).copy()


def _cache(halves: npt.NDArray[Any]) -> Block:
    """A copy with room for what the tiled kernel reads past the end."""
    block = Block(2 * halves.size + 256)
    block.bytes[: 2 * halves.size] = np.ascontiguousarray(halves).view(np.uint8).reshape(-1)
    return block
