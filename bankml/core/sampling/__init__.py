# SPDX-License-Identifier: MIT OR Apache-2.0
"""The sampler chain, its generator and the libstdc++ orders it depends on."""
