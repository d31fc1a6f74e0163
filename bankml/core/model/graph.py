# SPDX-License-Identifier: MIT OR Apache-2.0
"""The graph of a Llama-shaped model, written as programs for the worker team.

Three modes take the three attention kernels and the matching row kernels of the reference: ``one`` row, ``few`` (2 to 63) and
``many``. In the last layer only rows whose logits are wanted pass the feed-forward block, as in the reference.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Literal

from bankml.core.model.matrices import COLUMN_PART, Matrix, Weights
from bankml.core.model.memory import Block
from bankml.core.model.plan import Plan
from bankml.core.model.program import Program, ProgramBuilder
from bankml.kernels.activations import quantize, rows
from bankml.kernels.attention import cache_q8, rope
from bankml.kernels.attention import rows as attention_rows
from bankml.kernels.attention import tiled as attention
from bankml.kernels.products import matmul

MICRO_BATCH = 512
SPLIT_FROM = 512

Mode = Literal["one", "split", "few", "many"]
Outputs = Literal["none", "last", "all"]


def rows_mode(rows: int, head_dim: int) -> Mode:
    """``many`` where the reference takes its tiled attention of several rows, else ``few``.

    Source: ggml_compute_forward_flash_attn_ext_f16, ggml-cpu/ops.cpp.
    """
    return "many" if rows >= 64 and head_dim % 8 == 0 else "few"


def float_word(value: float) -> int:
    """A float32 in the low half of an argument word."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


CacheType = Literal["f16", "q8_0"]


@dataclass
class Cache:
    """Keys and values of every layer. Layouts: kernels/attention/rope.py (f16), kernels/attention/cache_q8.py (q8_0)."""

    type: CacheType
    cells: int
    k: list[int]
    v: list[int]
    blocks: list[Block] = field(repr=False)


def make_cache(plan: Plan, cells: int, kind: CacheType) -> Cache:
    """An empty cache of `cells` cells (a multiple of 256)."""
    # The tiled kernel reads up to 64 values past a row's end.
    sizes = [plan.n_head_kv * head_bytes(plan, cells, kind, keys) + 256 for keys in (True, False)]
    blocks = [Block(size) for _ in range(plan.n_layer) for size in sizes]
    return Cache(kind, cells, [b.address for b in blocks[0::2]], [b.address for b in blocks[1::2]], blocks)


def head_bytes(plan: Plan, cells: int, kind: CacheType, keys: bool) -> int:
    """Bytes of one head's keys, or of its values, in a layer's cache."""
    if kind == "f16":
        return cells * plan.head_dim * 2
    return int(cache_q8.key_bytes(plan.head_dim, cells) if keys else cells * cache_q8.value_bytes(plan.head_dim))


def turns(head_dim: int) -> tuple[int, int]:
    """Widths of the rotation of keys and of values in a quantized cache; 0 is none.

    Source: llama_kv_cache::build_input_k_rot and _v_rot, llama-kv-cache.cpp.
    """
    if head_dim % 64:
        return 0, 0
    keys = 64
    while head_dim % (2 * keys) == 0:
        keys *= 2
    return keys, 64


class Buffers:
    """Rows between operations, for up to `max_rows` rows, and each thread's scratch."""

    def __init__(self, plan: Plan, cells: int, max_rows: int, threads: int, spans: int, output_rows: int) -> None:
        pad = matmul.padded
        self.embd, self.q_width = pad(plan.n_embd), pad(plan.n_head * plan.head_dim)
        self.kv_width, self.ff = pad(plan.n_head_kv * plan.head_dim), pad(plan.n_ff)
        self.vocab = pad(plan.n_vocab)
        self._blocks: list[Block] = []
        self.x, self.x1 = self._rows(max_rows, self.embd), self._rows(max_rows, self.embd)
        self.q, self.att = self._rows(max_rows, self.q_width), self._rows(max_rows, self.q_width)
        self.k, self.v = self._rows(max_rows, self.kv_width), self._rows(max_rows, self.kv_width)
        self.gate, self.up = self._rows(max_rows, self.ff), self._rows(max_rows, self.ff)
        self.tail = self._rows(1, self.embd)
        self.logits_block = self._block(4 * output_rows * self.vocab)
        self.logits = self.logits_block.address
        self.tokens_block = self._block(8 * max_rows)
        self.tokens = self.tokens_block.address
        self.partials = self._block(4 * plan.n_head * spans * (2 + plan.head_dim)).address
        widest = max(self.embd, self.q_width, self.ff)
        self.row_floats = 4 * widest
        self.row_formed = max(4 * widest, quantize.row_bytes(max(plan.n_embd, plan.n_head * plan.head_dim, plan.n_ff))) + 64
        self.scratch_stride = (
            (
                self.row_floats
                + self.row_formed
                + max(
                    attention.scratch_bytes(plan.head_dim),
                    attention_rows.scratch_bytes(plan.head_dim, cells),
                    cache_q8.scratch_bytes(plan.head_dim, cells),
                )
                + 127
            )
            // 128
            * 128
        )
        self.scratch = self._block(threads * self.scratch_stride).address
        self._formed: dict[tuple[int, int], int] = {}
        self._max_rows = max_rows

    def _block(self, size: int) -> Block:
        self._blocks.append(Block(size))
        return self._blocks[-1]

    def _rows(self, count: int, width: int) -> int:
        return self._block(4 * count * width).address

    def formed(self, form: int, minus_offset: int) -> int:
        """The buffer of all rows in one form."""
        key = (form, minus_offset)
        if key not in self._formed:
            self._formed[key] = self._block(self._max_rows * self.row_formed).address
        return self._formed[key]

    @property
    def attention_scratch(self) -> int:
        """Thread 0's attention scratch."""
        return int(self.scratch + self.row_floats + self.row_formed)


def formed_stride(matrix: Matrix) -> int:
    """Bytes from one formed row to the next."""
    return int(rows.formed_bytes(matrix.kind.form, matrix.k))


@dataclass
class Graph:
    """Writes programs for one model, cache and set of buffers."""

    plan: Plan
    weights: Weights
    cache: Cache
    buffers: Buffers
    rope_table: int
    threads: int
    llama_threads: int

    def program(self, mode: Mode, outputs: Outputs, taps: dict[int, int] | None = None) -> Program:
        """The program of a mode. `taps` = {layer: address}: that layer's output rows are written there instead."""
        writer = _Writer(self, mode, outputs, taps or {})
        return writer.write()


class _Writer:
    def __init__(self, graph: Graph, mode: Mode, outputs: Outputs, taps: dict[int, int]) -> None:
        self.g, self.p, self.b = graph, graph.plan, graph.buffers
        self.mode, self.outputs, self.taps = mode, outputs, taps
        self.single = mode in ("one", "split")
        self.spans = graph.llama_threads if mode == "split" else 1
        self.to = ProgramBuilder()

    def write(self) -> Program:
        p, b = self.p, self.b
        self._embed()
        x = b.x
        for layer in range(p.n_layer):
            last = layer == p.n_layer - 1
            if last and self.outputs == "none":
                self._keys_and_values(layer, x)
                return self.to.build()
            self._attention(layer, x)
            target = self.taps.get(layer, b.x)
            if last and self.outputs == "last" and not self.single:
                self._feed_forward(layer, b.x1, b.tail, tail=True)
                x = b.tail
            else:
                self._feed_forward(layer, b.x1, target, tail=False)
                x = target
        self._logits(x)
        return self.to.build()

    # --- pieces
    def _embed(self) -> None:
        matrix = self.g.weights.matrices["token_embd.weight"]
        part = 1 if self.single else 8
        values = self._matmul_words(matrix, self.b.x, self.b.embd) | {matmul.Y: self.b.tokens, matmul.COLUMN_PART: part}
        block = self.to.block(matmul.FIELDS, values)
        self.to.follow_rows(block + matmul.COLUMNS)
        self.to.op(matrix.kind.get_rows, block, per_rows=(part, 1))
        self.to.stage()

    def _attention(self, layer: int, x: int) -> None:
        name, b = f"blk.{layer}.", self.b
        inputs = [(f"{name}attn_q", b.q, b.q_width), (f"{name}attn_k", b.k, b.kv_width), (f"{name}attn_v", b.v, b.kv_width)]
        self._normed_products(x, f"{name}attn_norm.weight", inputs, ("attn_norm", layer))
        self._rope_store(layer)
        words = self._attention_words(layer)
        output = self.g.weights.matrices[f"{name}attn_output.weight"]
        product = (f"{name}attn_output", b.x1, b.embd)
        if self.g.cache.type == "q8_0":
            self.to.op(cache_q8.attend_rows, words, per_rows=(1, self.p.n_head))
            self.to.stage()
            if self.single:
                prologue = self._prologue(rows.form_rows, b.att, b.q_width, output, {}, ("attention", layer))
                self._product(*product, residual=x, prologue=prologue)
            else:
                self._form_rows(rows.form_rows, b.att, b.q_width, [output], {})
                self._product(*product, residual=x)
        elif self.single:
            self.to.op(attention_rows.attend, words, self._head_tiles() * self.spans)
            self.to.stage()
            join = self.to.block(
                attention_rows.JOIN_FIELDS,
                {
                    attention_rows.JOIN_PARTIALS: b.partials, attention_rows.JOIN_HEADS: self.p.n_head,
                    attention_rows.JOIN_SPANS: self.spans, attention_rows.JOIN_DIM: self.p.head_dim,
                    attention_rows.JOIN_SCRATCH: b.scratch, attention_rows.JOIN_SCRATCH_STRIDE: b.scratch_stride,
                    attention_rows.JOIN_TO: b.scratch + b.row_floats, attention_rows.JOIN_TO_STRIDE: b.scratch_stride,
                    attention_rows.JOIN_FORM: output.kind.form, attention_rows.JOIN_MINUS_OFFSET: output.kind.minus_offset,
                },
            )  # fmt: skip
            self._product(*product, residual=x, prologue=(attention_rows.join_form, join, (layer, 2)))
        else:
            if self.mode == "many":
                self.to.op(attention.rows_tiled, words, per_rows=(attention.TILE_ROWS, self.p.n_head))
            else:
                self.to.op(attention_rows.attend, words, per_rows=(1, self._head_tiles()))
            self.to.stage()
            self._form_rows(rows.form_rows, b.att, b.q_width, [output], {})
            self._product(*product, residual=x)
        self.to.stage()

    def _keys_and_values(self, layer: int, x: int) -> None:
        name, b = f"blk.{layer}.", self.b
        inputs = [(f"{name}attn_k", b.k, b.kv_width), (f"{name}attn_v", b.v, b.kv_width)]
        self._normed_products(x, f"{name}attn_norm.weight", inputs, ("attn_norm", layer))
        self._rope_store(layer)

    def _feed_forward(self, layer: int, x: int, out: int, *, tail: bool) -> None:
        """With `tail`, only the micro-batch's last row."""
        name, b, single = f"blk.{layer}.", self.b, self.single
        self.single = single or tail
        pair = [(f"{name}ffn_gate", b.gate, b.ff), (f"{name}ffn_up", b.up, b.ff)]
        self._normed_products(x, f"{name}ffn_norm.weight", pair, ("ffn_norm", layer), tail=tail)
        down = self.g.weights.matrices[f"{name}ffn_down.weight"]
        words = {rows.Y: b.up}
        product = (f"{name}ffn_down", out, b.embd)
        if self.single:
            prologue = self._prologue(rows.swiglu_rows, b.gate, b.ff, down, words, ("swiglu", layer))
            self._product(*product, residual=x, prologue=prologue, tail=tail)
        else:
            self._form_rows(rows.swiglu_rows, b.gate, b.ff, [down], words)
            self._product(*product, residual=x)
        self.to.stage()
        self.single = single

    def _logits(self, x: int) -> None:
        single, self.single = self.single, self.single or self.outputs == "last"
        self._normed_products(
            x, "output_norm.weight", [(self.p.output.removesuffix(".weight"), self.b.logits, self.b.vocab)], ("output_norm", -1)
        )
        self.single = single

    def _normed_products(
        self, x: int, norm: str, products: list[tuple[str, int, int]], key: tuple[Any, ...], *, tail: bool = False
    ) -> None:
        """Norm x's rows, then several products of the result."""
        words = {rows.WEIGHT: self.g.weights.address(norm), rows.EPSILON: float_word(self.p.eps)}
        matrices = [self.g.weights.matrices[f"{name}.weight"] for name, _, _ in products]
        if self.single:
            for (name, out, width), matrix in zip(products, matrices, strict=True):
                prologue = self._prologue(rows.norm_rows, x, self.b.embd, matrix, words, key, tail=tail)
                self._product(name, out, width, prologue=prologue)
        else:
            self._form_rows(rows.norm_rows, x, self.b.embd, matrices, words)
            for name, out, width in products:
                self._product(name, out, width)
        self.to.stage()

    # --- argument blocks
    def _row_words(self, x: int, stride: int, matrix: Matrix, words: dict[int, int]) -> dict[int, int]:
        b = self.b
        return {
            rows.X: x, rows.X_STRIDE: stride, rows.K: matrix.k, rows.FORM: matrix.kind.form,
            rows.MINUS_OFFSET: matrix.kind.minus_offset, rows.SCRATCH: b.scratch, rows.SCRATCH_STRIDE: b.scratch_stride, **words,
        }  # fmt: skip

    def _prologue(
        self, kernel: Any, x: int, stride: int, matrix: Matrix, words: dict[int, int], key: tuple[Any, ...], *, tail: bool = False
    ) -> tuple[Any, int, tuple[Any, ...]]:
        """Row 0 (or the last row) of x into the thread's scratch, in the form that `matrix` reads."""
        b = self.b
        values = self._row_words(x, stride, matrix, words) | {
            rows.TO: b.scratch + b.row_floats, rows.TO_THREAD_STRIDE: b.scratch_stride, rows.ROWS: 1, rows.ROW_PART: 1,
        }  # fmt: skip
        block = self.to.block(rows.FIELDS, values)
        if tail:
            self.to.follow_last_row(block + rows.X, x, 4 * stride)
        return kernel, block, (*key, matrix.kind.form, matrix.kind.minus_offset)

    def _form_rows(self, kernel: Any, x: int, stride: int, matrices: list[Matrix], words: dict[int, int]) -> None:
        """All rows of x into each form that the matrices read."""
        part = 4
        done = set()
        for matrix in matrices:
            key = (matrix.kind.form, matrix.kind.minus_offset)
            if key in done:
                continue
            done.add(key)
            values = self._row_words(x, stride, matrix, words) | {
                rows.TO: self.b.formed(*key), rows.TO_STRIDE: formed_stride(matrix), rows.ROW_PART: part,
            }  # fmt: skip
            block = self.to.block(rows.FIELDS, values)
            self.to.follow_rows(block + rows.ROWS)
            self.to.op(kernel, block, per_rows=(part, 1))
        self.to.stage()

    def _matmul_words(self, matrix: Matrix, out: int, width: int) -> dict[int, int]:
        return {
            matmul.WEIGHTS: matrix.address, matmul.GROUPS: matrix.groups, matmul.BLOCKS: matrix.blocks, matmul.OUT: out,
            matmul.OUT_STRIDE: width, matmul.ROWS: matrix.rows, matmul.K: matrix.k, matmul.TYPE: matrix.kind.id,
        }  # fmt: skip

    def _product(
        self,
        name: str,
        out: int,
        width: int,
        *,
        residual: int = 0,
        prologue: tuple[Any, int, tuple[Any, ...]] | None = None,
        tail: bool = False,
    ) -> None:
        """out = W x (* scale) (+ bias) (+ residual), for one row from scratch or all formed rows."""
        matrix, b, threads = self.g.weights.matrices[f"{name}.weight"], self.b, self.g.threads
        values = self._matmul_words(matrix, out, width)
        # A tied output has the embedding's matrix, but what is added to it has its own name.
        given = "output" if name == "token_embd" else name
        values[matmul.SCALE] = self.g.weights.address(f"{given}.scale")
        values[matmul.BIAS] = self.g.weights.address(f"{given}.bias")
        values[matmul.RESIDUAL] = residual
        if self.single:
            parts = matrix.row_parts(threads)
            values |= {matmul.Y: b.scratch + b.row_floats, matmul.Y_STRIDE: b.scratch_stride, matmul.ROW_PARTS: parts}
            block = self.to.block(matmul.FIELDS, values)
            if tail:
                self.to.follow_last_row(block + matmul.RESIDUAL, residual, 4 * width)
            self.to.op(matrix.kind.gemv, block, parts, prologue=prologue)
            return
        parts = matrix.prompt_parts(threads)
        formed = b.formed(matrix.kind.form, matrix.kind.minus_offset)
        values |= {
            matmul.Y: formed, matmul.Y_STRIDE: formed_stride(matrix), matmul.ROW_PARTS: parts, matmul.COLUMN_PART: COLUMN_PART,
        }  # fmt: skip
        block = self.to.block(matmul.FIELDS, values)
        self.to.follow_rows(block + matmul.COLUMNS)
        self.to.op(matrix.kind.gemm, block, per_rows=(COLUMN_PART, parts))

    def _rope_store(self, layer: int) -> None:
        p, b, name = self.p, self.b, f"blk.{layer}."
        part = 1 if self.single else 8
        turn = turns(p.head_dim)
        block = self.to.block(
            cache_q8.FIELDS,
            {
                rope.Q: b.q, rope.Q_STRIDE: b.q_width, rope.KEYS: b.k, rope.KV_STRIDE: b.kv_width, rope.VALUES: b.v,
                rope.TABLE: self.g.rope_table, rope.K_CACHE: self.g.cache.k[layer], rope.V_CACHE: self.g.cache.v[layer],
                rope.HEADS: p.n_head, rope.KV_HEADS: p.n_head_kv, rope.HEAD_DIM: p.head_dim, rope.ROT: p.rope.dims,
                rope.NEOX: int(p.architecture.neox), rope.ROW_PART: part, rope.CELLS: self.g.cache.cells,
                rope.Q_NORM: self.g.weights.address(f"{name}attn_q_norm.weight"),
                rope.K_NORM: self.g.weights.address(f"{name}attn_k_norm.weight"), rope.EPSILON: float_word(p.eps),
                cache_q8.K_TURN: turn[0], cache_q8.V_TURN: turn[1],
                cache_q8.SCRATCH: b.scratch + b.row_floats, cache_q8.SCRATCH_STRIDE: b.scratch_stride,
            },
        )  # fmt: skip
        self.to.follow_rows(block + rope.ROWS)
        self.to.follow_position(block + rope.POSITION)
        kernel = cache_q8.rope_store if self.g.cache.type == "q8_0" else rope.rope_store
        self.to.op(kernel, block, per_rows=(part, 1))
        self.to.stage()

    def _heads_together(self) -> int:
        """Heads of a tile: even parts of those that share a key head, as long as every thread still finds several to claim."""
        rows_or_spans = self.spans if self.single else 8
        group = self.p.n_head // self.p.n_head_kv
        for most in range(int(attention_rows.MOST_HEADS), 1, -1):
            if self._tiles(most) * rows_or_spans >= 4 * self.g.threads:
                return -(-group // -(-group // most))
        return 1

    def _head_tiles(self) -> int:
        return self._tiles(self._heads_together())

    def _tiles(self, most: int) -> int:
        return self.p.n_head_kv * -(-(self.p.n_head // self.p.n_head_kv) // most)

    def _attention_words(self, layer: int) -> int:
        p, b, cache = self.p, self.b, self.g.cache
        block = self.to.block(
            cache_q8.ATTENTION_FIELDS,
            {
                attention.Q: b.q, attention.Q_STRIDE: b.q_width, attention.K_CACHE: cache.k[layer],
                attention.V_CACHE: cache.v[layer], attention.HEADS: p.n_head, attention.GROUP: p.n_head // p.n_head_kv,
                attention.DIM: p.head_dim, attention.CELLS: cache.cells, attention.SPAN: cache.cells,
                attention.SPANS: self.spans, attention.PARTIALS: b.partials if self.single else 0, attention.OUT: b.att,
                attention.OUT_STRIDE: b.q_width, attention.SCRATCH: b.attention_scratch,
                attention.SCRATCH_STRIDE: b.scratch_stride, attention.SCALE: float_word(p.attention_scale),
                attention.HEADS_TOGETHER: self._heads_together(),
                cache_q8.Q_TURN: turns(p.head_dim)[0], cache_q8.OUT_TURN: turns(p.head_dim)[1],
            },
        )  # fmt: skip
        self.to.follow_rows(block + attention.ROWS)
        self.to.follow_position(block + attention.POSITION)
        if self.spans > 1:
            self.to.follow_span(block + attention.SPAN)
        return block
