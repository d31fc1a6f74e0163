# SPDX-License-Identifier: MIT OR Apache-2.0
"""The candidates of one draw, in buffers that live as long as their chain."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bankml.kernels.sampling import samplers as kernels

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Generator = npt.NDArray[np.uint32]


class Candidates:
    """Token ids, logits and probabilities; how many, whether sorted, which one is selected.

    ``key`` and ``index`` are room for sorting.
    """

    __slots__ = ("ids", "index", "key", "logit", "p", "state")

    def __init__(self, n_vocab: int) -> None:
        self.ids: Ints = np.empty(n_vocab, np.int32)
        self.logit: Floats = np.empty(n_vocab, np.float32)
        self.p: Floats = np.zeros(n_vocab, np.float32)
        self.key: Floats = np.empty(n_vocab, np.float32)
        self.index: Ints = np.empty(n_vocab, np.int32)
        self.state: npt.NDArray[np.int64] = np.zeros(3, np.int64)

    @property
    def size(self) -> int:
        """How many candidates are left."""
        return int(self.state[kernels.SIZE])

    @property
    def selected(self) -> int:
        """The place of the selected candidate, -1 before one is."""
        return int(self.state[kernels.SELECTED])


def generator(seed: int) -> Generator:
    """A mt19937 generator started from a seed."""
    words: Generator = np.empty(kernels.MT_WORDS, np.uint32)
    kernels.mt_seed(words, np.uint32(seed))
    return words
