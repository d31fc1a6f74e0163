# SPDX-License-Identifier: MIT OR Apache-2.0
"""A loaded model: weights, cache and programs, and the evaluation of one micro-batch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bankml.core.gguf.reader import GgufFile
from bankml.core.model.compile import Progress
from bankml.core.model.graph import (
    MICRO_BATCH,
    SPLIT_FROM,
    Buffers,
    CacheType,
    Graph,
    Mode,
    Outputs,
    head_bytes,
    make_cache,
    rows_mode,
)
from bankml.core.model.matrices import Weights
from bankml.core.model.memory import Block
from bankml.core.model.plan import Plan, plan
from bankml.core.model.program import Program
from bankml.core.refusal import Refusal
from bankml.kernels import cache_q8, rope
from bankml.kernels.cpus import available_cpus
from bankml.kernels.team import Team

CELL_PAD = 256
_STATE_HEAD, _STATE_LAYER, _STATE_CELL = 24, 24, 12
_ROPE_STEP = 256


class Model:
    """Evaluates tokens over one cache. Not thread-safe: one evaluation at a time.

    Bits do not depend on `threads`; they depend on `llama_threads` as the reference's do on its own (split-KV attention).
    """

    def __init__(
        self,
        gguf: GgufFile,
        weights: Weights,
        built: Plan,
        n_ctx: int,
        threads: int,
        llama_threads: int,
        cache_type: CacheType = "f16",
    ) -> None:
        self.plan = built
        self.n_ctx = n_ctx
        self.n_vocab = built.n_vocab
        self.threads, self.llama_threads = threads, llama_threads
        self._gguf, self._weights = gguf, weights
        cells = -(-n_ctx // CELL_PAD) * CELL_PAD
        self._rope = Block(cells * built.rope.dims * 4)
        self._rope_ready = 0
        factors = built.rope_factors
        self._factors = weights.address(factors) if factors else 0
        buffers = Buffers(built, cells, MICRO_BATCH, threads, llama_threads, 1)
        cache = make_cache(built, cells, cache_type)
        self.cache = cache
        self._graph = Graph(built, weights, cache, buffers, self._rope.address, threads, llama_threads)
        self._tokens = buffers.tokens_block.bytes[: 8 * MICRO_BATCH].view(np.int64)
        self._logits = buffers.logits_block.floats((built.n_vocab,))
        self._programs: dict[tuple[Mode, Outputs], Program] = {}
        self._team = Team(threads)

    @classmethod
    def load(
        cls,
        gguf: GgufFile,
        *,
        n_ctx: int,
        threads: int | None = None,
        llama_threads: int = 3,
        cache_type: CacheType = "f16",
        progress: Progress | None = None,
    ) -> Model:
        """Plan the model, pack its weights, allocate its cache.

        Args:
            n_ctx: tokens of context; 0 means the model's own.
            threads: worker threads; by default as many as processors that this process may use.
            llama_threads: the reference's ``-t``: the spans of split-KV attention.
            cache_type: ``f16``, or ``q8_0``: the reference's ``--cache-type-k q8_0 --cache-type-v q8_0``.
            progress: called with (what, done, total) while weights are packed.

        Raises:
            Refusal: ``model.*``.
        """
        built = plan(gguf)
        n_ctx = n_ctx or built.n_ctx_train
        if n_ctx < 1:
            raise Refusal("model.context", "the context is not positive", found=str(n_ctx), allowed="1 or more")
        if not 1 <= llama_threads <= 512:
            raise Refusal("model.llama-threads", "--llama-threads is out of range", found=str(llama_threads), allowed="1 to 512")
        threads = threads if threads is not None else available_cpus()
        if not 1 <= threads <= 512:
            raise Refusal("model.threads", "--threads is out of range", found=str(threads), allowed="1 to 512")
        if cache_type not in ("f16", "q8_0"):
            raise Refusal("model.cache-type", "bankml has no such cache", found=cache_type, allowed="f16, q8_0")
        if cache_type == "q8_0" and built.head_dim % cache_q8.BLOCK:
            raise Refusal(
                "model.cache-type",
                f"a q8_0 cache needs heads whose width divides by {cache_q8.BLOCK}, as in b11192",
                where=f"key {built.architecture.name}.attention.key_length",
                found=str(built.head_dim),
                allowed="--cache-type f16",
            )
        weights = Weights(gguf, built, min(threads, available_cpus()), progress)
        return cls(gguf, weights, built, n_ctx, threads, llama_threads, cache_type)

    def eval(self, tokens: Sequence[int], pos: int, logits: bool = True) -> npt.NDArray[np.float32] | None:
        """Evaluate up to 512 tokens as one micro-batch in cells pos and on; cells from pos on are forgotten first.

        Returns the last row's logits, float32[n_vocab], valid until the next call; None when not asked for.

        Raises:
            Refusal: the tokens do not fit the context, or are none or too many.
        """
        count = len(tokens)
        if not 0 < count <= MICRO_BATCH or pos < 0 or pos + count > self.n_ctx:
            raise Refusal(
                "model.batch",
                "the micro-batch does not fit",
                found=f"{count} tokens at {pos}",
                allowed=f"1 to 512 within {self.n_ctx}",
            )
        self._tokens[:count] = tokens
        if int(self._tokens[:count].min()) < 0 or int(self._tokens[:count].max()) >= self.n_vocab:
            raise Refusal("model.token", "a token is outside the vocabulary", allowed=f"0 to {self.n_vocab - 1}")
        self._run(count, pos, "last" if logits else "none")
        return self._logits if logits else None

    def _run(self, count: int, pos: int, outputs: Outputs) -> None:
        self._grow_rope(pos + count)
        padded = max(CELL_PAD, -(-(pos + count) // CELL_PAD) * CELL_PAD)
        mode: Mode
        if count == 1:
            split = padded >= SPLIT_FROM and self.llama_threads > 1 and self.cache.type == "f16"
            mode = "split" if split else "one"
        else:
            mode = rows_mode(count, self.plan.head_dim)
        program = self._programs.get((mode, outputs))
        if program is None:
            program = self._programs[mode, outputs] = self._graph.program(mode, outputs)
        program.set(count, pos, -(-padded // self.llama_threads))
        self._team.execute(program.table)

    def _grow_rope(self, end: int) -> None:
        if end <= self._rope_ready:
            return
        r = self.plan.rope
        last = min(-(-end // _ROPE_STEP) * _ROPE_STEP, len(self._rope.bytes) // (4 * r.dims))
        f32 = np.float32
        low, high, attn_factor = 0.0, 0.0, f32(r.attn_factor)
        if r.ext_factor:
            low, high = corr_dims(r.dims, r.n_ctx_orig, r.freq_base, r.beta_fast, r.beta_slow)
            attn_factor *= yarn_magnitude(r.freq_scale)
        rope.fill_table(
            rope.theta_scale(f32(r.freq_base), r.dims), f32(r.freq_scale), self._factors, f32(r.ext_factor), attn_factor,
            f32(low), f32(high), r.dims, self._rope_ready, last, self._rope.address,
        )  # fmt: skip
        self._rope_ready = last

    def trace(self, tokens: Sequence[int], pos: int = 0) -> dict[str, npt.NDArray[np.float32]]:
        """Every layer's output rows (``l_out-N``) and the logits of all rows, for oracles.

        Returns float32 arrays of shape (len(tokens), width). Costs a buffer a layer.
        """
        count, p = len(tokens), self.plan
        cells = self.cache.cells
        buffers = Buffers(p, cells, MICRO_BATCH, self.threads, self.llama_threads, count)
        width = buffers.embd
        taps = {layer: Block(4 * MICRO_BATCH * width) for layer in range(p.n_layer)}
        traced = Graph(p, self._weights, self.cache, buffers, self._rope.address, self.threads, self.llama_threads)
        mode: Mode = "one" if count == 1 else rows_mode(count, p.head_dim)
        program = traced.program(mode, "all", {layer: block.address for layer, block in taps.items()})
        self._grow_rope(pos + count)
        buffers.tokens_block.bytes[: 8 * count].view(np.int64)[:] = tokens
        program.set(count, pos, 0)
        self._team.execute(program.table)
        self._team.release()
        out = {f"l_out-{layer}": block.floats((count, width))[:, : p.n_embd].copy() for layer, block in taps.items()}
        out["result_output"] = buffers.logits_block.floats((count, buffers.vocab))[:, : p.n_vocab].copy()
        return out

    def state_bytes(self, count: int) -> int:
        """Bytes of llama.cpp's state of a sequence of `count` cells: it counts an entry of the host's prompt cache by them.

        Source: state_seq_get_size, llama-context.cpp; llama_kv_cache::state_write, llama-kv-cache.cpp.
        """
        per_head = sum(head_bytes(self.plan, rope.CELL_BLOCK, self.cache.type, keys) for keys in (True, False))
        cell = self.plan.n_layer * self.plan.n_head_kv * per_head // int(rope.CELL_BLOCK)
        # Six words in front; type and row size of each layer's keys and values; position and sequence of each cell.
        return _STATE_HEAD + self.plan.n_layer * _STATE_LAYER + count * (_STATE_CELL + cell)

    def copy_cells(self, count: int) -> list[npt.NDArray[np.uint8]]:
        """Keys and values of the first `count` cells, for `put_cells`."""
        return [view[:, : self._cell_bytes(count, index % 2 == 0)].copy() for index, view in enumerate(self._views())]

    def put_cells(self, saved: list[npt.NDArray[np.uint8]]) -> None:
        """Put cells from `copy_cells` back at the cache's start."""
        for view, old in zip(self._views(), saved, strict=True):
            view[:, : old.shape[1]] = old

    def _cell_bytes(self, count: int, keys: bool) -> int:
        """Bytes from the start of a head's part that hold its first `count` cells; keys lie in whole blocks."""
        whole = -(-count // rope.CELL_BLOCK) * rope.CELL_BLOCK if keys else count
        return head_bytes(self.plan, whole, self.cache.type, keys)

    def _views(self) -> list[npt.NDArray[np.uint8]]:
        """Each layer's keys, then its values, as one row of bytes a head."""
        heads, cells = self.plan.n_head_kv, self.cache.cells
        views = []
        for index, block in enumerate(self.cache.blocks):
            size = head_bytes(self.plan, cells, self.cache.type, index % 2 == 0)
            views.append(block.bytes[: heads * size].reshape(heads, size))
        return views

    def close(self) -> None:
        """Dismiss the workers; the memory goes with the object."""
        self._team.close()


def corr_dims(dims: int, n_ctx_orig: int, base: float, beta_fast: float, beta_slow: float) -> tuple[float, float]:
    """First and last pair of YaRN's ramp. Source: ggml_rope_yarn_corr_dims, ggml.c."""
    f32 = np.float32

    def dim(rotations: float) -> np.float32:
        turns = f32(n_ctx_orig) / (f32(rotations) * f32(2) * f32(math.pi))
        return f32(f32(f32(dims) * rope.logf_of(turns)) / (f32(2) * rope.logf_of(f32(base))))

    # The logarithm of a base of 1 is 0, and the bounds are infinite, as in C.
    with np.errstate(all="ignore"):
        start, end = np.floor(dim(beta_fast)), np.ceil(dim(beta_slow))
    return float(0.0 if start < 0 else start), float(dims - 1 if dims - 1 < end else end)


def yarn_magnitude(freq_scale: float) -> np.float32:
    """YaRN's factor of the rotated values, with what the rotation applies again divided out.

    Source: the constructor of llama_context, llama-context.cpp.
    """
    one, tenth = np.float32(1), np.float32(0.1)
    factor = one / np.float32(freq_scale)
    log = np.float32(rope.logf_of(factor))
    return (one if factor <= one else tenth * log + one) * (one / (one + tenth * log))
