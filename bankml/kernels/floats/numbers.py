# SPDX-License-Identifier: MIT OR Apache-2.0
"""F32, F16 and BF16 numbers as they lie in a file, read as float32."""

from __future__ import annotations

from bankml.kernels.compiler.native import compiled
from bankml.kernels.compiler.simd import F32, I16, I32, V, ld_bf16, ld_f16, ld_f32

F32_ID, F16_ID, BF16_ID = 0, 1, 30


def widen(E, type_id, address, offset):
    """Eight numbers as float32; offset in numbers."""
    if type_id == F32_ID:
        return E.ld(V(F32, 8), address, 4 * offset)
    bits = E.ld(V(I16, 8), address, 2 * offset)
    if type_id == F16_ID:
        return E.f16_to_f32(bits)
    return E.b.bitcast(E.b.shl(E.b.zext(bits, V(I32, 8)), E.const(I32, 16, 8)), V(F32, 8))


@compiled
def number(type_id, address, i):
    """Number i as float32."""
    if type_id == 1:
        return ld_f16(address, i)
    if type_id == 0:
        return ld_f32(address, i)
    return ld_bf16(address, i)
