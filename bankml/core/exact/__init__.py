# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether exactness may be claimed on this machine: what was compiled here, held to records of the reference.

bankml computes the C library's functions that decide bits itself (``bankml.kernels.libm``), so that the library of the machine
decides nothing. They are held to the reference machine's values once; the kernels that a model uses are asked a small question
each at every start.
"""

from bankml.core.exact.check import require

__all__ = ["require"]
