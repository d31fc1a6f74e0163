# SPDX-License-Identifier: MIT OR Apache-2.0
"""Weight types of super-blocks: 256 weights with scales of scales."""
