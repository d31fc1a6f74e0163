# SPDX-License-Identifier: MIT OR Apache-2.0
"""The architectures that bankml plays: one row each says in what its graph differs from Llama's.

All of them are: embedding; per layer norm, Q/K/V, rotation, attention, output projection, residual, norm, SwiGLU feed forward,
residual; final norm, logits. Source: src/models/llama.cpp, qwen2.cpp, qwen3.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Architecture:
    """Switches of the common graph.

    `neox`: the rotation pairs i with i + dims/2 instead of 2i with 2i+1. `qk_norm`: each head of Q and K passes an RMS norm
    before the rotation. `square_attention`: all heads together must be as wide as the embedding. The biases are optional
    tensors that b11192 looks for. `feed_forward_scale`: it multiplies by the scales of these matrices; else it only loads them.
    """

    name: str
    neox: bool = False
    qk_norm: bool = False
    rope_factors: bool = False
    output_bias: bool = False
    output_projection_bias: bool = False
    feed_forward_bias: bool = False
    feed_forward_scale: bool = True
    square_attention: bool = False


ARCHITECTURES = {
    a.name: a
    for a in (
        Architecture("llama", rope_factors=True, output_projection_bias=True, feed_forward_bias=True),
        Architecture("qwen2", neox=True, output_bias=True, feed_forward_scale=False, square_attention=True),
        Architecture("qwen3", neox=True, qk_norm=True),
    )
}
