# SPDX-License-Identifier: MIT OR Apache-2.0
"""F32, F16 and BF16 weights."""
