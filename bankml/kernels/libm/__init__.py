# SPDX-License-Identifier: MIT OR Apache-2.0
"""The C library's functions that decide bits, on scalars and vectors."""
