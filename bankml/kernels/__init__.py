# SPDX-License-Identifier: MIT OR Apache-2.0
"""Numba kernels: they know shapes and addresses, nothing of models.

``prepare`` must run before any other module here is imported: it fixes the instruction set and the place of compiled code.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache as once
from pathlib import Path

from bankml.kernels.folders import hold, sweep


@once
def _source_hash() -> str:
    """sha256 prefix over all kernel sources: numba's own cache does not see a changed intrinsic."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def prepare(cache: Path) -> Path:
    """Point numba's cache at a folder of its own for these sources and this instruction set; returns that folder.

    Folders of other versions that nothing has used for long are removed.
    """
    wanted = os.environ.get("BANKML_ISA", "host")
    folder = cache / "kernels" / f"{_source_hash()}-{wanted}"
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    if hold(folder):
        sweep(folder)
    # Where Intel's library is installed, numba would put its expf in place of the C library's: other bits.
    os.environ["NUMBA_DISABLE_INTEL_SVML"] = "1"
    return folder
