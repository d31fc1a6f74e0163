# SPDX-License-Identifier: MIT OR Apache-2.0
"""The instruction set that the kernels are compiled for, decided once from the host and ``BANKML_ISA``.

A missing feature would abort the process inside LLVM, so it is asked for before anything is compiled.
"""

from __future__ import annotations

import os

import llvmlite.binding as llvm

AVX2 = ("avx2", "fma", "f16c", "bmi2")
AVX512 = (*AVX2, "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512vnni")
# AVX2 with the dot products of bytes, which came to its width with either extension.
AVXVNNI = (*AVX2, "avxvnni")
TIERS = {"avx512": AVX512, "avxvnni": AVXVNNI, "avx2": AVX2}


class UnsupportedCpuError(RuntimeError):
    """The host lacks a feature, or ``BANKML_ISA`` names a tier that does not exist or does not run here."""


def _choose() -> str:
    features = llvm.get_host_cpu_features()
    # AVX-512's form of those instructions serves as well.
    features["avxvnni"] = features.get("avxvnni") or (features.get("avx512vl") and features.get("avx512vnni"))
    wanted = os.environ.get("BANKML_ISA") or None
    if wanted is not None and wanted not in TIERS:
        raise UnsupportedCpuError(f"BANKML_ISA={wanted}: allowed are {', '.join(TIERS)}")
    for tier, needed in TIERS.items():
        if wanted in (None, tier):
            missing = [name for name in needed if not features.get(name)]
            if not missing:
                return tier
            if tier in {wanted, "avx2"}:
                raise UnsupportedCpuError(f"this CPU lacks {', '.join(missing)}, which the {tier} kernels need")
    raise UnsupportedCpuError("no kernel tier runs on this CPU")


TIER = _choose()
# Lanes of a float vector: 16 (zmm) or 8 (ymm).
W = 16 if TIER == "avx512" else 8
VNNI = TIER != "avx2"
