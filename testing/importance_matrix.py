# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes an importance matrix for a model, from a fixed stream: llama-quantize makes no IQ1 or IQ2 files without one.

Usage: python testing/importance_matrix.py MODEL OUTPUT

It has the form that llama-imatrix writes, with mean squares of activations spread as in real models: most columns small, a few
large. The same model gives the same bytes on every machine. Which columns matter is made up; that decides how good the quantized
model is, not whether two programs answer from it alike.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from make_model import stream

from bankml.core.gguf import types
from bankml.core.gguf.reader import GgufFile
from bankml.core.gguf.writer import Pair, Tensor, write_gguf

CHUNKS = 16
CHUNK_TOKENS = 512


def write_importance_matrix(model: Path, target: Path) -> None:
    """Write sums of squares and counts for every matrix of the layers; like llama-imatrix's, without embedding and output.

    Source: common_imatrix_load (common/imatrix-loader.cpp).
    """
    keys: list[Pair] = [
        ("general.type", types.STRING, "imatrix"),
        ("imatrix.datasets", (types.ARRAY, types.STRING), ["a fixed stream"]),
        ("imatrix.chunk_count", types.U32, CHUNKS),
        ("imatrix.chunk_size", types.U32, CHUNK_TOKENS),
    ]
    count = CHUNKS * CHUNK_TOKENS
    tensors = []
    with GgufFile.open(model) as gguf:
        for tensor in gguf.tensors.values():
            if len(tensor.dims) != 2 or not tensor.name.startswith("blk."):
                continue
            columns = tensor.dims[0]
            squares = (0.1 + stream(0, tensor.name, columns) ** 2) ** 2
            sums = (squares * count).astype(np.float32)
            tensors.append(Tensor(f"{tensor.name}.in_sum2", (columns, 1), types.TYPE_IDS["F32"], sums))
            tensors.append(Tensor(f"{tensor.name}.counts", (1, 1), types.TYPE_IDS["F32"], np.array([count], np.float32)))
    write_gguf(target, keys, tensors)


if __name__ == "__main__":
    write_importance_matrix(Path(sys.argv[1]), Path(sys.argv[2]))
