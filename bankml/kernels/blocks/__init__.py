# SPDX-License-Identifier: MIT OR Apache-2.0
"""Weight types of blocks: 16 to 128 weights with a scale of their own."""
