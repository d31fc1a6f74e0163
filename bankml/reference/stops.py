# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files on which llama-server may stop: it does not start with them, or ends while it is asked."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests

from bankml.refusal import Refusal

if TYPE_CHECKING:
    from bankml.reference.build import Reference
    from bankml.reference.server import ReferenceServer

ANSWERS, REFUSES, ABORTS = "answers", "refuses", "aborts"
_CLOCK = re.compile(r"^[0-9.]+ [A-Z] ")
_PLACES = re.compile(r"/\S*/")
"""What differs from run to run, or from machine to machine, in a line of the server's log."""


def ask_or_stop(reference: Reference, path: Path, ctx: int, ask: Callable[[ReferenceServer], Any]) -> tuple[str, str, Any]:
    """The verdict, what the server said last where it stopped, and else what ``ask`` brings back."""
    try:
        with reference.server(path, ctx=ctx, threads=1) as server:
            return ANSWERS, "", ask(server)
    except Refusal as refusal:
        last = (refusal.found or "").rpartition(" / ")[2]
        return REFUSES, _PLACES.sub("", _CLOCK.sub("", last))[:160], None
    except requests.RequestException:
        return ABORTS, "at the first prompt", None
