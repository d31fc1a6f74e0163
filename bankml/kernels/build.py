# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiles the functions that ``native`` marks, with numba, into object files.

Every function that another calls is linked into its caller as LLVM's code and never becomes machine code of its own; only the
module of the entries is optimized as a whole and emitted. There is no reference counting and no exception: a function that
would allocate, raise or need Python is refused here, when it is compiled.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

# Where Intel's library is installed, numba would put its expf in place of the C library's: other bits.
os.environ["NUMBA_DISABLE_INTEL_SVML"] = "1"

from llvmlite import ir
from numba import njit
from numba import types as numba_types
from numba.core import codegen, compiler, registry
from numba.core.compiler_lock import global_compiler_lock
from numba.core.datamodel import models
from numba.core.extending import _Intrinsic, register_model
from numba.core.runtime import rtsys
from numba.core.typing.templates import make_intrinsic_template
from numba.np import arrayobj

from .elf import LIBC
from .native import Compiled, Intrinsic
from .simd import ELEMENTS, Emit
from .types import Array, Scalar, Signature, Tuple, Type, Vector

_I64 = ir.IntType(64)
# What an array object holds after Python's own head: its data, the number of dimensions, the sizes.
# Source: PyArrayObject_fields, numpy/ndarraytypes.h.
_HEAD = object.__basicsize__
_DATA, _SIZES = _HEAD, _HEAD + 16


class VectorType(numba_types.Type):  # type: ignore[misc]
    """A vector register to numba."""

    def __init__(self, element: str, lanes: int):
        self.element, self.lanes = element, lanes
        super().__init__(name=f"{element}x{lanes}")


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: VectorType):
        super().__init__(manager, kind, ir.VectorType(ELEMENTS[kind.element], kind.lanes))


@functools.cache
def numba_type(kind: Type) -> Any:
    """numba's type for one of ours."""
    if isinstance(kind, Scalar):
        return getattr(numba_types, kind.name)
    if isinstance(kind, Array):
        return numba_types.Array(numba_type(kind.element), kind.dimensions, "C")
    if isinstance(kind, Tuple):
        return numba_types.Tuple([numba_type(each) for each in kind.members])
    assert isinstance(kind, Vector)
    return VectorType(kind.element, kind.lanes)


def numba_signature(signature: Signature) -> Any:
    """numba's signature for one of ours."""
    return numba_type(signature.result)(*map(numba_type, signature.arguments))


class _QuietCodegen:
    """The code generator as the parts see it: their environments are never set, since nothing of Python runs in them."""

    def __init__(self, real: Any):
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def set_env(self, name: str, env: Any) -> None:
        """Nothing."""


class _Part(codegen.CPUCodeLibrary):  # type: ignore[misc]
    """A function's LLVM code, to be linked into those that call it."""

    @property
    def codegen(self) -> Any:
        """Stands for the code generator."""
        return _QuietCodegen(self._codegen)

    def add_linking_library(self, library: Any) -> None:
        """Link another part; the runtime of reference counts is none."""
        if library is not rtsys.library:
            super().add_linking_library(library)

    def get_pointer_to_function(self, name: str) -> int:
        """None: there is no machine code."""
        return 0

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _Whole(_Part):
    """The code of a module's entries and of all that they call, which becomes one object file."""

    exported: frozenset[str] = frozenset()

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and function.name not in self.exported:
                function.linkage = "internal"
        codegen.CPUCodeLibrary._optimize_final_module(self)

    def emit(self) -> bytes:
        """The object file."""
        self.finalize()
        module = self._final_module
        for function in module.functions:
            if function.is_declaration and function.name not in LIBC and not function.name.startswith("llvm."):
                raise RuntimeError(f"compiled code of {self.name} calls {function.name}")
        if self.has_dynamic_globals:
            left = [each.name for each in module.global_variables if each.name.startswith("numba.dynamic.globals")]
            if left:
                raise RuntimeError(f"compiled code of {self.name} refers to an object of this process: {left}")
        return bytes(self._codegen._tm.emit_object(module))


class _Pipeline(compiler.Compiler):  # type: ignore[misc]
    def __init__(self, typing_context: Any, target_context: Any, library: Any, *rest: Any):
        super().__init__(typing_context, target_context, _Part(target_context.codegen(), "part"), *rest)


_OPTIONS: dict[str, Any] = {
    "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False,
}  # fmt: skip
_dispatchers: dict[Compiled, Any] = {}
_intrinsics: dict[Intrinsic, Any] = {}


def _dispatcher(function: Compiled) -> Any:
    found = _dispatchers.get(function)
    if found is None:
        decorate = njit(**_OPTIONS, pipeline_class=_Pipeline)
        found = decorate(function.function)
        if function.signature is not None:
            found.compile(numba_signature(function.signature))
            found.disable_compile()
        _dispatchers[function] = found
    return found


def dispatcher_type(function: Compiled) -> Any:
    """numba's type of a function that is called."""
    return numba_types.Dispatcher(_dispatcher(function))


def intrinsic_type(step: Intrinsic) -> Any:
    """numba's type of an intrinsic."""
    if step not in _intrinsics:
        signature = numba_signature(step.signature)

        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            out = step.emit(Emit(context, builder, sig), *values)
            return context.get_dummy_value() if out is None else out

        names = ", ".join(f"a{i}" for i in range(len(signature.args)))
        scope = {"signature": signature, "generate": generate}
        name = step.__name__
        # numba reads an intrinsic's arity from its source, so the function is written out.
        exec(f"def {name}(typingctx, {names}):\n    return signature, generate\n", scope)  # noqa: S102
        template = make_intrinsic_template(_Intrinsic(name, scope[name]), scope[name], name)
        _intrinsics[step] = numba_types.Function(template)
    return _intrinsics[step]


def build(functions: Sequence[Compiled]) -> bytes:
    """Compile functions of one module, which have signatures, into one object file that exports their symbols.

    Raises:
        RuntimeError: the code would need more than the C library.
    """
    with global_compiler_lock:
        target = registry.cpu_target.target_context
        whole = _Whole(target.codegen(), functions[0].module)
        whole.exported = frozenset(each.symbol for each in functions)
        for each in functions:
            whole.add_linking_library(_result(each).library)
            whole.add_ir_module(_wrapper(target, each))
        return whole.emit()


def _result(function: Compiled) -> Any:
    dispatcher = _dispatcher(function)
    (result,) = dispatcher.overloads.values()
    return result


def _wrapper(target: Any, function: Compiled) -> Any:
    """The function as C sees it: arrays come as Python's objects, a tuple goes to the address that comes first."""
    assert function.signature is not None
    result = _result(function)
    description = result.fndesc
    module = target.create_module(f"wrapper of {function.symbol}")
    native = ir.Function(
        module, target.call_conv.get_function_type(description.restype, description.argtypes), description.llvm_func_name
    )
    gives_tuple = isinstance(function.signature.result, Tuple)
    gives = ir.VoidType()
    if not gives_tuple and function.signature.result != Scalar("void"):
        gives = target.get_value_type(description.restype)
    takes = [_I64 if isinstance(each, numba_types.Array) else target.get_value_type(each) for each in description.argtypes]
    wrapped = ir.Function(module, ir.FunctionType(gives, [_I64] * gives_tuple + takes), function.symbol)
    builder = ir.IRBuilder(wrapped.append_basic_block("entry"))
    arguments = [
        _of_numpy(target, builder, kind, value) if isinstance(kind, numba_types.Array) else value
        for kind, value in zip(description.argtypes, wrapped.args[gives_tuple:], strict=True)
    ]
    _, out = target.call_conv.call_function(builder, native, description.restype, description.argtypes, arguments)
    if gives_tuple:
        builder.store(out, builder.inttoptr(wrapped.args[0], out.type.as_pointer()))
        builder.ret_void()
    elif isinstance(gives, ir.VoidType):
        builder.ret_void()
    else:
        builder.ret(out)
    return module


def array(target: Any, builder: Any, kind: Any, data: Any, sizes: Sequence[Any]) -> Any:
    """numba's array, of a type of numba's, over numbers in C's order that belong to somebody else."""
    item = ir.Constant(_I64, target.get_abi_sizeof(target.get_data_type(kind.dtype)))
    strides = [item]
    for size in reversed(sizes[1:]):
        strides.insert(0, builder.mul(strides[0], size))
    made = arrayobj.make_array(kind)(target, builder)
    arrayobj.populate_array(made, data=data, shape=sizes, strides=strides, itemsize=item, meminfo=None)
    return made._getvalue()


def _of_numpy(target: Any, builder: Any, kind: Any, address: Any) -> Any:
    """numba's array of numpy's array object."""

    def word(at: Any, offset: int) -> Any:
        place = builder.inttoptr(builder.add(at, ir.Constant(_I64, offset)), _I64.as_pointer())
        return builder.load(place, typ=_I64)

    sizes_at = word(address, _SIZES)
    sizes = [word(sizes_at, 8 * i) for i in range(kind.ndim)]
    data = builder.inttoptr(word(address, _DATA), target.get_data_type(kind.dtype).as_pointer())
    return array(target, builder, kind, data, sizes)
