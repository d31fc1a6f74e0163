# SPDX-License-Identifier: MIT OR Apache-2.0
"""Models: plan, weights, KV cache, the graph of each architecture."""

from bankml.core.home import cache_dir
from bankml.kernels import prepare

prepare(cache_dir())
