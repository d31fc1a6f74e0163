# SPDX-License-Identifier: MIT OR Apache-2.0
"""Models: plan, weights, KV cache, the graph of each architecture."""
