# SPDX-License-Identifier: MIT OR Apache-2.0
"""The reference's tensor library asked in-process: one small graph at a time, on its CPU backend.

Source: ggml/include/ggml.h, ggml-alloc.h, ggml-backend.h, ggml-cpu.h (signatures and the structures of the type traits).
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bankml.reference.build import Reference
from bankml.refusal import EXIT_OTHER, Refusal

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

F32, F16, I32 = 0, 1, 26
_REPACK = "_Z35ggml_backend_cpu_repack_buffer_typev"
_ROW = c.CFUNCTYPE(None, c.c_void_p, c.c_void_p, c.c_int64)


class _InitParams(c.Structure):
    _fields_ = (("mem_size", c.c_size_t), ("mem_buffer", c.c_void_p), ("no_alloc", c.c_bool))


class _Traits(c.Structure):
    _fields_ = (
        ("name", c.c_char_p),
        ("block", c.c_int64),
        ("interleave", c.c_int64),
        ("bytes", c.c_size_t),
        ("quantized", c.c_bool),
        ("to_float", c.c_void_p),
        ("from_float", c.c_void_p),
    )


class _CpuTraits(c.Structure):
    _fields_ = (("from_float", c.c_void_p), ("vec_dot", c.c_void_p), ("vec_dot_type", c.c_int), ("nrows", c.c_int64))


_P = c.c_void_p
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "ggml_init": (_P, (_InitParams,)),
    "ggml_free": (None, (_P,)),
    "ggml_new_tensor_4d": (_P, (_P, c.c_int, *(c.c_int64,) * 4)),
    "ggml_new_graph": (_P, (_P,)),
    "ggml_build_forward_expand": (None, (_P, _P)),
    "ggml_nbytes": (c.c_size_t, (_P,)),
    "ggml_get_type_traits": (c.POINTER(_Traits), (c.c_int,)),
    "ggml_quantize_chunk": (c.c_size_t, (c.c_int, _P, _P, *(c.c_int64,) * 3, _P)),
    "ggml_mul_mat": (_P, (_P,) * 3),
    "ggml_mul_mat_set_hint": (None, (_P, c.c_int)),
    "ggml_mul": (_P, (_P,) * 3),
    "ggml_add": (_P, (_P,) * 3),
    "ggml_rms_norm": (_P, (_P, _P, c.c_float)),
    "ggml_get_rows": (_P, (_P,) * 3),
    "ggml_swiglu_split": (_P, (_P,) * 3),
    "ggml_rope_ext": (_P, (*(_P,) * 4, *(c.c_int,) * 3, *(c.c_float,) * 6)),
    "ggml_flash_attn_ext": (_P, (*(_P,) * 5, *(c.c_float,) * 3)),
    "ggml_backend_alloc_ctx_tensors_from_buft": (_P, (_P, _P)),
    "ggml_backend_buffer_free": (None, (_P,)),
    "ggml_backend_get_default_buffer_type": (_P, (_P,)),
    "ggml_backend_get_device": (_P, (_P,)),
    "ggml_backend_dev_supports_op": (c.c_bool, (_P, _P)),
    "ggml_backend_tensor_set": (None, (_P, _P, c.c_size_t, c.c_size_t)),
    "ggml_backend_tensor_get": (None, (_P, _P, c.c_size_t, c.c_size_t)),
    "ggml_backend_graph_compute": (c.c_int, (_P, _P)),
    "ggml_log_set": (None, (_P, _P)),
}
_CPU_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "ggml_cpu_init": (None, ()),
    "ggml_backend_cpu_init": (_P, ()),
    "ggml_backend_cpu_set_n_threads": (None, (_P, c.c_int)),
    "ggml_get_type_traits_cpu": (c.POINTER(_CpuTraits), (c.c_int,)),
    _REPACK: (_P, ()),
}


class Ggml:
    """ggml's CPU backend: row functions of each type, and graphs of one or two operations."""

    def __init__(self, reference: Reference) -> None:
        self.base = reference.library("ggml-base")
        self.cpu = reference.library("ggml-cpu")
        for library, signatures in ((self.base, _SIGNATURES), (self.cpu, _CPU_SIGNATURES)):
            for name, (result, arguments) in signatures.items():
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments
        self._quiet = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)(lambda *_: None)
        self.base.ggml_log_set(c.cast(self._quiet, c.c_void_p), None)
        self.cpu.ggml_cpu_init()
        self._backend = self.cpu.ggml_backend_cpu_init()
        self._device = self.base.ggml_backend_get_device(self._backend)
        self._plain = self.base.ggml_backend_get_default_buffer_type(self._backend)
        self._repack = getattr(self.cpu, _REPACK)()

    def call(self, name: str, *arguments: Any) -> Any:
        """A function of ggml's by its name, for use while a graph is being built."""
        return getattr(self.base, name)(*arguments)

    # --- rows of one type
    def dequantized(self, type_id: int, data: Bytes, count: int) -> Floats:
        """`count` elements of a type as float32."""
        if type_id == F32:
            return data.view(np.float32).copy()
        out = np.empty(count, np.float32)
        _ROW(self.base.ggml_get_type_traits(type_id).contents.to_float)(data.ctypes.data, out.ctypes.data, count)
        return out

    def quantized(self, type_id: int, x: Floats) -> Bytes:
        """A row in a type, by the CPU library's own quantizer."""
        if type_id == F32:
            return x.view(np.uint8)
        traits = self.base.ggml_get_type_traits(type_id).contents
        out = np.zeros(len(x) // traits.block * traits.bytes, np.uint8)
        _ROW(self.cpu.ggml_get_type_traits_cpu(type_id).contents.from_float)(x.ctypes.data, out.ctypes.data, len(x))
        return out

    def quantized_rows(self, type_id: int, x: Floats) -> Bytes:
        """Weight rows x[rows, k] in a type, as llama-quantize makes them; squares stand in for an importance matrix."""
        x = np.ascontiguousarray(x)
        importance = np.square(x).mean(axis=0, dtype=np.float64).astype(np.float32)
        traits = self.base.ggml_get_type_traits(type_id).contents
        out = np.zeros(x.size // traits.block * traits.bytes, np.uint8)
        self.base.ggml_quantize_chunk(type_id, x.ctypes.data, out.ctypes.data, 0, *x.shape, importance.ctypes.data)
        return out

    # --- graphs
    def product(self, type_id: int, weights: Bytes, rows: int, k: int, x: Floats, threads: int = 2) -> Floats:
        """x[n, k] times weights[rows, k], in the buffer that llama.cpp's loader would choose; float32[n, rows]."""
        with self.products(type_id, weights, (rows, k), x, 1, threads) as one:
            one.run()
            return one.result()

    def products(self, type_id: int, weights: Bytes, shape: tuple[int, int], x: Floats, copies: int, threads: int) -> Product:
        """The same product of several copies of a matrix, kept for many runs."""
        return Product(self, type_id, weights, shape, x, copies, threads)

    def buffer_type(self, type_id: int, shape: tuple[int, int], columns: int) -> int:
        """The buffer that llama.cpp's loader would choose for a matrix: the repacking one where its product is supported."""
        with _Context(self) as held, _Context(self) as working:
            w = held.tensor(type_id, (shape[1], shape[0]))
            held.allocate(self._repack)
            out = self.base.ggml_mul_mat(working.context, w, working.tensor(F32, (shape[1], columns)))
            return int(self._repack if self.base.ggml_backend_dev_supports_op(self._device, out) else self._plain)

    def run(self, graph: int, threads: int) -> None:
        """Compute a graph."""
        self.cpu.ggml_backend_cpu_set_n_threads(self._backend, threads)
        status = self.base.ggml_backend_graph_compute(self._backend, graph)
        if status != 0:
            raise Refusal("reference.graph", "the reference could not compute", found=f"status {status}", exit_code=EXIT_OTHER)

    def compute(
        self,
        build: Callable[[Any, list[int]], int],
        inputs: Sequence[tuple[int, npt.NDArray[Any]]],
        threads: int = 2,
        weights: Sequence[tuple[int, tuple[int, ...], Bytes]] = (),
    ) -> Floats:
        """The result of a graph.

        Args:
            build: from ggml's context and the tensors, weights last, to the graph's result.
            inputs: (type, array) each; an array's shape is ggml's, last dimension first.
            weights: (type, shape in ggml's order, file bytes) each.
        """
        with _Context(self) as working:
            tensors = [working.tensor(type_id, tuple(reversed(array.shape))) for type_id, array in inputs]
            arrays = {t: array for t, (_, array) in zip(tensors, inputs, strict=True)}
            for type_id, shape, data in weights:
                tensors.append(working.tensor(type_id, shape))
                arrays[tensors[-1]] = data
            return working.compute(build(working.context, tensors), arrays, threads)


class _Context:
    """A ggml context without data of its own, and the buffer that its tensors get."""

    def __init__(self, ggml: Ggml) -> None:
        self._ggml, self._base = ggml, ggml.base
        self._buffer: int | None = None

    def __enter__(self) -> _Context:
        self.context = self._base.ggml_init(_InitParams(8 << 20, None, True))
        return self

    def __exit__(self, *_: object) -> None:
        if self._buffer is not None:
            self._base.ggml_backend_buffer_free(self._buffer)
        self._base.ggml_free(self.context)

    def tensor(self, type_id: int, shape: tuple[int, ...]) -> int:
        """A tensor; shape in ggml's order."""
        return int(self._base.ggml_new_tensor_4d(self.context, type_id, *shape, *(1,) * (4 - len(shape))))

    def allocate(self, buffer_type: int) -> None:
        """Give every tensor of the context its place."""
        self._buffer = self._base.ggml_backend_alloc_ctx_tensors_from_buft(self.context, buffer_type)
        if not self._buffer:
            raise Refusal("reference.memory", "the reference has no memory for a tensor", exit_code=EXIT_OTHER)

    def put(self, tensor: int, data: npt.NDArray[Any]) -> None:
        """Fill a tensor."""
        data = np.ascontiguousarray(data)
        assert data.nbytes == self._base.ggml_nbytes(tensor)
        self._base.ggml_backend_tensor_set(tensor, data.ctypes.data, 0, data.nbytes)

    def compute(self, out: int, inputs: dict[int, npt.NDArray[Any]], threads: int) -> Floats:
        """Allocate, fill the inputs, run; the float32 result, flat."""
        graph = self.graph([out], inputs)
        self._ggml.run(graph, threads)
        return self.result(out)

    def graph(self, outputs: Sequence[int], inputs: dict[int, npt.NDArray[Any]]) -> int:
        """A graph that computes the outputs, with everything in its place."""
        graph = int(self._base.ggml_new_graph(self.context))
        for out in outputs:
            self._base.ggml_build_forward_expand(graph, out)
        self.allocate(self._ggml._plain)
        for tensor, data in inputs.items():
            self.put(tensor, data)
        return graph

    def result(self, out: int) -> Floats:
        """A computed float32 tensor, flat."""
        result = np.empty(self._base.ggml_nbytes(out) // 4, np.float32)
        self._base.ggml_backend_tensor_get(out, result.ctypes.data, 0, result.nbytes)
        return result


class Product:
    """ggml_mul_mat of each copy of a matrix with the same activations, in one graph that may run many times.

    The copies lie in the buffer that llama.cpp's loader would choose.
    """

    def __init__(
        self, ggml: Ggml, type_id: int, weights: Bytes, shape: tuple[int, int], x: Floats, copies: int, threads: int
    ) -> None:
        self._ggml, self._threads, self._shape = ggml, threads, (len(x), shape[0])
        self._held, self._working = _Context(ggml), _Context(ggml)
        self._held.__enter__()
        self._working.__enter__()
        matrices = [self._held.tensor(type_id, (shape[1], shape[0])) for _ in range(copies)]
        y = self._working.tensor(F32, (shape[1], len(x)))
        products = [ggml.base.ggml_mul_mat(self._working.context, w, y) for w in matrices]
        self._held.allocate(ggml.buffer_type(type_id, shape, len(x)))
        for w in matrices:
            self._held.put(w, weights)
        self._out = products[-1]
        self._graph = self._working.graph(products, {y: x})

    def __enter__(self) -> Product:
        return self

    def __exit__(self, *_: object) -> None:
        self._working.__exit__()
        self._held.__exit__()

    def run(self) -> None:
        """Compute all of them."""
        self._ggml.run(self._graph, self._threads)

    def result(self) -> Floats:
        """The last product, float32[columns, rows]."""
        return self._working.result(self._out).reshape(self._shape)
