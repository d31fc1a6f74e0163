# SPDX-License-Identifier: MIT OR Apache-2.0
"""Vector types, LLVM intrinsics and raw memory for numba kernels.

Kernels take plain addresses (``intp``). A kernel's hot step is an *emitter*: a Python function that writes straight-line LLVM
IR for one block; numba compiles the loops around it. Every load and store is unaligned. Nothing here contracts or reorders:
a product and a sum stay two roundings unless ``fma`` is written.
"""

from __future__ import annotations

from llvmlite import ir

from bankml.kernels.compiler import types
from bankml.kernels.compiler.functions import Intrinsic
from bankml.kernels.compiler.isa import VNNI, W

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
ADDR = types.intp


def V(element, lanes):  # noqa: N802 - reads as a type
    """LLVM's vector of `lanes` elements."""
    return ir.VectorType(element, lanes)


# What a vector may hold, by the name that its type gives.
ELEMENTS = {"f32": F32, "f64": F64, "i32": I32, "i8": I8}

f32x8 = types.Vector("f32", 8)
f32xw = types.Vector("f32", W)
FW, IW = V(F32, W), V(I32, W)


def tup(element, count):
    """`count` values that stay in registers."""
    return types.Tuple((element,) * count)


class Emit:
    """Writes IR at the builder's position. Offsets are in bytes; integers may be Python ints or IR values."""

    def __init__(self, context, builder, signature):
        self.context, self.b, self.sig = context, builder, signature

    # --- memory
    def ptr(self, address, offset, pointee):
        """Pointer to `pointee` at address + offset bytes."""
        # Code generation may take an index for the pointer and the address for its offset, and numba optimizes that form again
        # when it inlines the function; an index of 0 would then pass for a null pointer, and the code be dropped as impossible.
        set.add(self.b.function.attributes, "null_pointer_is_valid")
        if not (isinstance(offset, int) and offset == 0):
            address = self.b.add(address, self.i64(offset))
        return self.b.inttoptr(address, pointee.as_pointer())

    def i64(self, value):
        """An i64 constant, or the IR value as it is."""
        return ir.Constant(I64, value) if isinstance(value, int) else value

    def ld(self, ty, address, offset=0):
        """Unaligned load."""
        load = self.b.load(self.ptr(address, offset, ty), typ=ty)
        load.align = 1
        return load

    def st(self, value, address, offset=0):
        """Unaligned store."""
        self.b.store(value, self.ptr(address, offset, value.type)).align = 1

    def prefetch(self, address, offset):
        """Ask for the cache line at address + offset, for reading, into all levels."""
        fn = self.fn("llvm.prefetch.p0", ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
        one = ir.Constant(I32, 1)
        self.b.call(fn, [self.ptr(address, offset, I8), ir.Constant(I32, 0), ir.Constant(I32, 3), one])

    # --- constants and lanes
    def const(self, element, value, lanes=None):
        """A constant, splat over `lanes` where given."""
        return ir.Constant(element, value) if lanes is None else ir.Constant(V(element, lanes), [value] * lanes)

    def splat(self, value, lanes=W):
        """The scalar in every lane."""
        ty = V(value.type, lanes)
        one = self.b.insert_element(ir.Constant(ty, ir.Undefined), value, ir.Constant(I32, 0))
        return self.b.shuffle_vector(one, ir.Constant(ty, ir.Undefined), ir.Constant(V(I32, lanes), [0] * lanes))

    def splat_ld(self, element, address, offset=0, lanes=W):
        """One element from memory in every lane (a broadcast operand)."""
        return self.splat(self.ld(element, address, offset), lanes)

    def shuffle(self, a, b, mask):
        """Lanes of a then b, picked by mask."""
        return self.b.shuffle_vector(a, b, ir.Constant(V(I32, len(mask)), list(mask)))

    def half(self, a, which):
        """Lower (0) or upper (1) half of a vector."""
        n = a.type.count // 2
        return self.shuffle(a, a, range(which * n, which * n + n))

    def join(self, a, b):
        """a's lanes, then b's."""
        return self.shuffle(a, b, range(2 * a.type.count))

    def lane(self, a, i):
        """Lane i as a scalar."""
        return self.b.extract_element(a, ir.Constant(I32, i))

    # --- calls
    def fn(self, name, ret, args):
        """The declaration of an external function or LLVM intrinsic, made once per module."""
        found = self.b.module.globals.get(name)
        return found if found is not None else ir.Function(self.b.module, ir.FunctionType(ret, args), name)

    def call(self, name, ret, args):
        """Call by name."""
        return self.b.call(self.fn(name, ret, [a.type for a in args]), args)

    def _overloaded(self, name, ty, args):
        suffix = {F32: "f32", F64: "f64"}[ty.element] if isinstance(ty, ir.VectorType) else {F32: "f32", F64: "f64"}[ty]
        width = f"v{ty.count}" if isinstance(ty, ir.VectorType) else ""
        return self.call(f"llvm.{name}.{width}{suffix}", ty, args)

    # --- arithmetic
    def fma(self, a, b, c):
        """a*b+c with one rounding."""
        return self._overloaded("fma", a.type, [a, b, c])

    def sqrt(self, a):
        """The square root, correctly rounded."""
        return self._overloaded("sqrt", a.type, [a])

    def fabs(self, a):
        """|a|."""
        return self._overloaded("fabs", a.type, [a])

    def add(self, a, b):
        """Float sum."""
        return self.b.fadd(a, b)

    def sub(self, a, b):
        """Float difference."""
        return self.b.fsub(a, b)

    def mul(self, a, b):
        """Float product."""
        return self.b.fmul(a, b)

    def first(self, a, value):
        """a, made quiet, where it is NaN, else value: x86's result of an operation whose first operand a is."""
        lanes = a.type.count
        quiet = self.b.or_(self.b.bitcast(a, V(I32, lanes)), self.const(I32, 0x400000, lanes))
        return self.b.select(self.b.fcmp_unordered("uno", a, a), self.b.bitcast(quiet, a.type), value)

    def i2f(self, a):
        """int32 to float32, round to nearest even."""
        return self.b.sitofp(a, V(F32, a.type.count))

    def f16_to_f32(self, a):
        """Exact widening of a vector of half bits (i16) or halves."""
        if a.type.element == I16:
            a = self.b.bitcast(a, V(F16, a.type.count))
        return self.b.fpext(a, V(F32, a.type.count))

    def f32_to_f16(self, a):
        """Round to nearest even half, as half."""
        return self.b.fptrunc(a, V(F16, a.type.count))

    def ld_f16(self, address, offset=0, lanes=W):
        """Load `lanes` halves, widened."""
        return self.f16_to_f32(self.ld(V(I16, lanes), address, offset))

    def dot_u8s8(self, acc, u, s):
        """acc + sums of four u8*s8 products per 32-bit lane; u's bytes must stay below 128 unless VNNI is there.

        Without VNNI two u8*s8 products are summed in 16 bits, which saturates at 32767.
        """
        n = acc.type.count
        if VNNI:
            bytes_ = V(I8, 4 * n)
            return self.call(
                f"llvm.x86.avx512.vpdpbusd.{32 * n}", acc.type, [acc, self.b.bitcast(u, bytes_), self.b.bitcast(s, bytes_)]
            )
        return self.b.add(acc, self.pairs(u, s))

    def pairs(self, u, s):
        """AVX2: sums of four u8*s8 products per 32-bit lane, through 16 bits."""
        bytes_, words, dwords = V(I8, 32), V(I16, 16), V(I32, 8)
        two = self.call("llvm.x86.avx2.pmadd.ub.sw", words, [self.b.bitcast(u, bytes_), self.b.bitcast(s, bytes_)])
        return self.call("llvm.x86.avx2.pmadd.wd", dwords, [two, ir.Constant(words, [1] * 16)])

    def dot_s8s8(self, w, s):
        """AVX2: sums of four s8*s8 products per 32-bit lane: |w| times s with w's sign. w may be -128, s may not."""
        bytes_ = V(I8, 32)
        w, s = self.b.bitcast(w, bytes_), self.b.bitcast(s, bytes_)
        magnitude = self.call("llvm.x86.avx2.psign.b", bytes_, [w, w])
        return self.pairs(magnitude, self.call("llvm.x86.avx2.psign.b", bytes_, [s, w]))

    # --- trees
    def hsum_a(self, v):
        """HS-A over eight values: ((v0+v4)+(v2+v6))+((v1+v5)+(v3+v7)). Source: hsum_float_8, arch/x86/quants.c."""
        t = [self.add(v[i], v[i + 4]) for i in range(4)]
        return self.add(self.add(t[0], t[2]), self.add(t[1], t[3]))

    def hsum_b(self, v):
        """HS-B over eight values: ((v0+v4)+(v1+v5))+((v2+v6)+(v3+v7)). Source: GGML_F32x8_REDUCE, simd-mappings.h."""
        t = [self.add(v[i], v[i + 4]) for i in range(4)]
        return self.add(self.add(t[0], t[1]), self.add(t[2], t[3]))

    def hsum_lanes(self, v, order):
        """HS-A or HS-B within each run of eight lanes of a register; every lane of the run holds the sum."""
        n = v.type.count

        def rotate(a, step):
            return self.shuffle(a, a, [(i & ~7) | ((i + step) & 7) for i in range(n)])

        v = self.add(v, rotate(v, 4))
        # After the first step lanes 0..3 hold t0..t3 and repeat in 4..7; sums commute, so either neighbour order is exact.
        for step in (2, 1) if order == "A" else (1, 2):
            v = self.add(v, self.shuffle(v, v, [i ^ step for i in range(n)]))
        return v

    # --- tuples
    def untup(self, value, count):
        """The members of a homogeneous tuple."""
        return [self.b.extract_value(value, i) for i in range(count)]

    def tup(self, values):
        """A homogeneous tuple of the signature's return type."""
        return self.context.make_tuple(self.b, self.sig.return_type, values)

    def stack_array(self, count):
        """The compiler's array of `count` zeros of int64 in the function's frame."""
        from bankml.kernels.compiler.arrays import array

        ty = ir.ArrayType(I64, count)
        with self.b.goto_entry_block():
            data = self.b.alloca(ty)
        self.b.store(ir.Constant(ty, None), data)
        return array(self.context, self.b, self.sig.return_type, self.b.bitcast(data, I64.as_pointer()), [self.i64(count)])


def mk(name, ret, args, emit):
    """An intrinsic of fixed types from an emitter ``emit(E, *ir_values)``."""
    return Intrinsic(name, ret(*args), emit)


def stack_array(count):
    """An intrinsic ``f(0)``: an array of `count` zeros in the frame of the function that calls it."""
    return mk(f"stack_array_{count}", types.int64[::1], (ADDR,), lambda E, _: E.stack_array(count))


def _scalar_load(ty, wide=None):
    def emit(E, address, index):
        size = {I8: 1, I16: 2, I32: 4, I64: 8, F32: 4, F64: 8}[ty]
        value = E.ld(ty, E.b.add(address, E.b.mul(index, E.i64(size))))
        return wide(E, value) if wide else value

    return emit


def _scalar_store(ty, narrow=None):
    def emit(E, address, index, value):
        size = {I8: 1, I16: 2, I32: 4, I64: 8, F32: 4, F64: 8}[ty]
        E.st(narrow(E, value) if narrow else value, E.b.add(address, E.b.mul(index, E.i64(size))))

    return emit


# Element `index` of an array at `address`.
ld_i64 = mk("ld_i64", types.int64, (ADDR, ADDR), _scalar_load(I64))
ld_i32 = mk("ld_i32", types.int64, (ADDR, ADDR), _scalar_load(I32, lambda E, v: E.b.sext(v, I64)))
ld_u16 = mk("ld_u16", types.int64, (ADDR, ADDR), _scalar_load(I16, lambda E, v: E.b.zext(v, I64)))
ld_u8 = mk("ld_u8", types.int64, (ADDR, ADDR), _scalar_load(I8, lambda E, v: E.b.zext(v, I64)))
ld_i8 = mk("ld_i8", types.int64, (ADDR, ADDR), _scalar_load(I8, lambda E, v: E.b.sext(v, I64)))
ld_f32 = mk("ld_f32", types.float32, (ADDR, ADDR), _scalar_load(F32))
ld_f16 = mk("ld_f16", types.float32, (ADDR, ADDR), _scalar_load(I16, lambda E, v: E.b.fpext(E.b.bitcast(v, F16), F32)))
ld_bf16 = mk(
    "ld_bf16",
    types.float32,
    (ADDR, ADDR),
    _scalar_load(I16, lambda E, v: E.b.bitcast(E.b.shl(E.b.zext(v, I32), E.const(I32, 16)), F32)),
)
st_i64 = mk("st_i64", types.void, (ADDR, ADDR, types.int64), _scalar_store(I64))
st_i32 = mk("st_i32", types.void, (ADDR, ADDR, types.int64), _scalar_store(I32, lambda E, v: E.b.trunc(v, I32)))
st_i8 = mk("st_i8", types.void, (ADDR, ADDR, types.int64), _scalar_store(I8, lambda E, v: E.b.trunc(v, I8)))
st_f32 = mk("st_f32", types.void, (ADDR, ADDR, types.float32), _scalar_store(F32))
st_f16 = mk(
    "st_f16", types.void, (ADDR, ADDR, types.float32), _scalar_store(I16, lambda E, v: E.b.bitcast(E.b.fptrunc(v, F16), I16))
)
copy4 = mk("copy4", types.void, (ADDR, ADDR), lambda E, dst, src: E.st(E.ld(I32, src), dst))
copy2 = mk("copy2", types.void, (ADDR, ADDR), lambda E, dst, src: E.st(E.ld(I16, src), dst))

fma32 = mk("fma32", types.float32, (types.float32,) * 3, lambda E, a, b, c: E.fma(a, b, c))
fma64 = mk("fma64", types.float64, (types.float64,) * 3, lambda E, a, b, c: E.fma(a, b, c))
sqrt32 = mk("sqrt32", types.float32, (types.float32,), lambda E, a: E.sqrt(a))
# The bits of a float as a number, and back from the low bits of one.
bits32 = mk("bits32", types.int64, (types.float32,), lambda E, a: E.b.zext(E.b.bitcast(a, I32), I64))
float32 = mk("float32", types.float32, (types.int64,), lambda E, a: E.b.bitcast(E.b.trunc(a, I32), F32))
bits64 = mk("bits64", types.int64, (types.float64,), lambda E, a: E.b.bitcast(a, I64))
float64 = mk("float64", types.float64, (types.int64,), lambda E, a: E.b.bitcast(a, F64))
round_f16 = mk("round_f16", types.float32, (types.float32,), lambda E, a: E.b.fpext(E.b.fptrunc(a, F16), F32))


def _bf16(E, a):
    """Nearest bfloat16, ties to even, NaN quieted. Source: ggml_compute_fp32_to_bf16, ggml-impl.h."""
    bits = E.b.bitcast(a, I32)
    odd = E.b.and_(E.b.lshr(bits, E.const(I32, 16)), E.const(I32, 1))
    rounded = E.b.add(bits, E.b.add(odd, E.const(I32, 0x7FFF)))
    quiet = E.b.or_(bits, E.const(I32, 0x400000))
    picked = E.b.select(E.b.fcmp_unordered("uno", a, a), quiet, rounded)
    return E.b.bitcast(E.b.and_(picked, E.const(I32, -65536)), F32)


round_bf16 = mk("round_bf16", types.float32, (types.float32,), _bf16)

# Vectors of W floats.
vld = mk("vld", f32xw, (ADDR,), lambda E, p: E.ld(FW, p))
vst = mk("vst", types.void, (ADDR, f32xw), lambda E, p, v: E.st(v, p))
vadd = mk("vadd", f32xw, (f32xw, f32xw), lambda E, a, b: E.add(a, b))
vmul = mk("vmul", f32xw, (f32xw, f32xw), lambda E, a, b: E.mul(a, b))
vsplat = mk("vsplat", f32xw, (types.float32,), lambda E, a: E.splat(a))


# Threads.
def _cas(E, address, old, new):
    pair = E.b.cmpxchg(E.ptr(address, 0, I64), old, new, "acq_rel", "acquire")
    return E.b.zext(E.b.extract_value(pair, 1), I64)


atomic_load = mk("atomic_load", types.int64, (ADDR,), lambda E, p: E.b.load_atomic(E.ptr(p, 0, I64), "acquire", 8, typ=I64))
atomic_store = mk(
    "atomic_store", types.void, (ADDR, types.int64), lambda E, p, v: E.b.store_atomic(v, E.ptr(p, 0, I64), "release", 8) and None
)
atomic_add = mk(
    "atomic_add", types.int64, (ADDR, types.int64), lambda E, p, v: E.b.atomic_rmw("add", E.ptr(p, 0, I64), v, "acq_rel")
)
atomic_cas = mk("atomic_cas", types.int64, (ADDR, types.int64, types.int64), _cas)
pause = mk("pause", types.void, (types.int64,), lambda E, _: E.call("llvm.x86.sse2.pause", ir.VoidType(), []) and None)
syscall6 = mk(
    "syscall6",
    types.int64,
    (types.int64,) * 6,
    lambda E, n, a, b, c, d, e: E.call("syscall", I64, [n, a, b, c, d, e]),
)


def _call_kernel(E, function, args, chunk, thread):
    kind = ir.FunctionType(ir.VoidType(), [I64, I64, I64])
    E.b.call(E.b.inttoptr(function, kind.as_pointer()), [args, chunk, thread])


call_kernel = mk("call_kernel", types.void, (ADDR, ADDR, ADDR, ADDR), _call_kernel)
