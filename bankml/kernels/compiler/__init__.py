# SPDX-License-Identifier: MIT OR Apache-2.0
"""How Python becomes an object file: marked functions, numba behind them, the store of what was compiled, the linker."""
