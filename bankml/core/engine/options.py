# SPDX-License-Identifier: MIT OR Apache-2.0
"""How an engine is opened: the options that decide its size, its threads and its bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bankml.core.model.graph import CacheType

DEFAULT_CTX: Final = 4096
DEFAULT_LLAMA_THREADS: Final = 3


@dataclass(frozen=True)
class EngineOptions:
    """Options of :meth:`Engine.open`.

    Attributes:
        n_ctx: tokens of the context; 0 for what the model was trained with.
        threads: threads that compute; None for one on each processor that may be used.
        llama_threads: llama-server's ``-t``, on which the bits of long answers depend.
        cache_type: ``f16``, or ``q8_0`` for the answers of llama-server's ``--cache-type-k q8_0 --cache-type-v q8_0``.
        inexact: open it even where a kernel or a function that decides bits differs from the reference's.
        cache_ram: llama-server's ``--cache-ram`` in MiB; None for ``BANKML_CACHE_RAM``, else its default.
    """

    n_ctx: int = DEFAULT_CTX
    threads: int | None = None
    llama_threads: int = DEFAULT_LLAMA_THREADS
    cache_type: CacheType = "f16"
    inexact: bool = False
    cache_ram: int | None = None
