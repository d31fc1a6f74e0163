# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether exactness may be claimed on this machine: the C library's functions that decide bits, held to a record.

bankml computes these functions itself (``bankml.kernels.libm``), so that the C library of the machine decides nothing. What was
compiled for this CPU is held to the reference machine's values once, before its first answer.
"""

from bankml.core.exact.check import require

__all__ = ["require"]
