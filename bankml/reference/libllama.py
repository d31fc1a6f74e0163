# SPDX-License-Identifier: MIT OR Apache-2.0
"""The reference's library asked in-process: tokens in chosen cells and micro-batches, logits and inner tensors out.

Source: include/llama.h, ggml/include/ggml-backend.h (structures and signatures).
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from bankml.reference.build import Reference
from bankml.refusal import EXIT_OTHER, Refusal

Floats = npt.NDArray[np.float32]
_TYPE_IDS = {"f16": 1, "q8_0": 8}
_Callback = c.CFUNCTYPE(c.c_bool, c.c_void_p, c.c_bool, c.c_void_p)


class _ModelParams(c.Structure):
    _fields_ = (
        ("devices", c.c_void_p),
        ("tensor_buft_overrides", c.c_void_p),
        ("n_gpu_layers", c.c_int32),
        ("split_mode", c.c_int32),
        ("load_mode", c.c_int32),
        ("lazy_mode", c.c_int32),
        ("main_gpu", c.c_int32),
        ("tensor_split", c.c_void_p),
        ("progress_callback", c.c_void_p),
        ("progress_callback_user_data", c.c_void_p),
        ("kv_overrides", c.c_void_p),
        *((name, c.c_bool) for name in ("vocab_only", "check_tensors", "use_extra_bufts", "no_host", "no_alloc", "load_mtp")),
    )


class _ContextParams(c.Structure):
    _fields_ = (
        *(
            (name, c.c_uint32)
            for name in ("n_ctx", "n_batch", "n_ubatch", "n_seq_max", "n_rs_seq", "n_outputs_max", "n_outputs_seq")
        ),
        ("n_threads", c.c_int32),
        ("n_threads_batch", c.c_int32),
        *((name, c.c_int32) for name in ("ctx_type", "rope_scaling_type", "pooling_type", "attention_type", "flash_attn_type")),
        *((name, c.c_float) for name in ("rope_base", "rope_scale", "yarn_ext", "yarn_attn", "yarn_fast", "yarn_slow")),
        ("yarn_orig_ctx", c.c_uint32),
        ("defrag_thold", c.c_float),
        ("cb_eval", _Callback),
        ("cb_eval_user_data", c.c_void_p),
        ("type_k", c.c_int32),
        ("type_v", c.c_int32),
        ("abort_callback", c.c_void_p),
        ("abort_callback_data", c.c_void_p),
        *((name, c.c_bool) for name in ("embeddings", "offload_kqv", "no_perf", "op_offload", "swa_full", "kv_unified")),
        ("samplers", c.c_void_p),
        ("n_samplers", c.c_size_t),
        ("ctx_other", c.c_void_p),
    )


class _Batch(c.Structure):
    _fields_ = (
        ("n_tokens", c.c_int32),
        ("token", c.POINTER(c.c_int32)),
        ("embd", c.c_void_p),
        ("pos", c.POINTER(c.c_int32)),
        ("n_seq_id", c.POINTER(c.c_int32)),
        ("seq_id", c.POINTER(c.POINTER(c.c_int32))),
        ("logits", c.POINTER(c.c_int8)),
    )


class LlamaModel:
    """A model in the reference's library, with one context over one sequence.

    Raises:
        Refusal: the reference refuses the file.
    """

    def __init__(self, reference: Reference, path: Path, *, n_ctx: int = 4096, threads: int = 3, cache_type: str = "f16") -> None:
        self._lib = lib = reference.library("llama")
        self._ggml = reference.library("ggml-base")
        for name, result in (
            ("llama_model_default_params", _ModelParams),
            ("llama_context_default_params", _ContextParams),
            ("llama_model_load_from_file", c.c_void_p),
            ("llama_init_from_model", c.c_void_p),
            ("llama_get_logits_ith", c.POINTER(c.c_float)),
            ("llama_get_memory", c.c_void_p),
            ("llama_model_get_vocab", c.c_void_p),
            ("llama_vocab_n_tokens", c.c_int32),
            ("llama_decode", c.c_int32),
            ("llama_memory_seq_rm", c.c_bool),
        ):
            getattr(lib, name).restype = result
        for name, kind in (("ggml_get_name", c.c_char_p), ("ggml_get_data", c.c_void_p), ("ggml_nbytes", c.c_size_t)):
            getattr(self._ggml, name).restype = kind
            getattr(self._ggml, name).argtypes = [c.c_void_p]
        self._quiet = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)(lambda *_: None)
        lib.llama_log_set(self._quiet, None)
        lib.llama_backend_init()
        model_params = lib.llama_model_default_params()
        self._model = lib.llama_model_load_from_file(str(path).encode(), model_params)
        if not self._model:
            raise Refusal("reference.model", "the reference refuses to load the model", where=str(path), exit_code=EXIT_OTHER)
        self._wanted: set[str] | None = None
        self._caught: dict[str, Floats] = {}
        self._callback = _Callback(self._see)
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_threads, params.n_threads_batch = n_ctx, threads, threads
        params.type_k = params.type_v = _TYPE_IDS[cache_type]
        params.cb_eval = self._callback
        self._context = lib.llama_init_from_model(c.c_void_p(self._model), params)
        if not self._context:
            raise Refusal("reference.context", "the reference refuses to make a context", where=str(path), exit_code=EXIT_OTHER)
        self._memory = lib.llama_get_memory(c.c_void_p(self._context))
        vocab = lib.llama_model_get_vocab(c.c_void_p(self._model))
        self.n_vocab = int(lib.llama_vocab_n_tokens(c.c_void_p(vocab)))

    def eval(
        self, tokens: Sequence[int], pos: int, *, rows: str = "last", catch: Sequence[str] = ()
    ) -> tuple[Floats, dict[str, Floats]]:
        """Decode tokens as one batch in cells pos and on, forgetting those cells first.

        Args:
            rows: "last" or "all": whose logits are computed.
            catch: names of inner tensors to copy, such as ``l_out-3``.

        Returns: logits float32[rows, n_vocab], and the caught tensors, flat.
        """
        n = len(tokens)
        self._lib.llama_memory_seq_rm(c.c_void_p(self._memory), c.c_int32(0), c.c_int32(pos), c.c_int32(-1))
        sequence = (c.c_int32 * 1)(0)
        outputs = [1 if rows == "all" or i == n - 1 else 0 for i in range(n)]
        batch = _Batch(
            n,
            (c.c_int32 * n)(*tokens),
            None,
            (c.c_int32 * n)(*range(pos, pos + n)),
            (c.c_int32 * n)(*[1] * n),
            (c.POINTER(c.c_int32) * n)(*[c.cast(sequence, c.POINTER(c.c_int32))] * n),
            (c.c_int8 * n)(*outputs),
        )
        self._wanted, self._caught = set(catch), {}
        status = self._lib.llama_decode(c.c_void_p(self._context), batch)
        self._wanted = None
        if status != 0:
            raise Refusal("reference.decode", "the reference could not decode", found=f"status {status}", exit_code=EXIT_OTHER)
        picked = range(n) if rows == "all" else [n - 1]
        logits = [
            np.ctypeslib.as_array(self._lib.llama_get_logits_ith(c.c_void_p(self._context), i), (self.n_vocab,)).copy()
            for i in picked
        ]
        return np.stack(logits), self._caught

    def _see(self, tensor: int, ask: bool, _: object) -> bool:
        name = self._ggml.ggml_get_name(tensor).decode()
        if not self._wanted or name not in self._wanted:
            return not ask
        if ask:
            return True
        size = self._ggml.ggml_nbytes(tensor)
        self._caught[name] = np.frombuffer(c.string_at(self._ggml.ggml_get_data(tensor), size), np.float32).copy()
        return True

    def close(self) -> None:
        """Free the context and the model."""
        self._lib.llama_free(c.c_void_p(self._context))
        self._lib.llama_model_free(c.c_void_p(self._model))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
