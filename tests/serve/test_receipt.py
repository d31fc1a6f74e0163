# SPDX-License-Identifier: MIT OR Apache-2.0
"""Receipts say what was so, where it could have been otherwise: an unpinned file, no verification, another cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bankml.core.engine import Engine, EngineOptions
from bankml.core.pins import Verified, measure, verify
from bankml.core.receipts.receipt import receipt
from bankml.core.serve.resident import Resident

COUNTS: dict[str, Any] = {"prompt_tokens": 1, "completion_tokens": 1, "cache_n": 0, "ttft_ms": 1.0, "wall_ms": 1.0}


def made(path: Path, verified: Verified | None, **options: Any) -> dict[str, Any]:
    with Engine.open(path, EngineOptions(n_ctx=256, **options), verified=verified) as engine:
        origin = Resident(engine, 3).origin(engine)
    return receipt(origin, request_sha256="0" * 64, text="", sampling={}, **COUNTS)


def test_a_file_is_pinned_only_where_a_pin_vouches_for_it(smollm2: Path) -> None:
    pinned, measured, unknown = made(smollm2, verify(smollm2)), made(smollm2, measure(smollm2)), made(smollm2, None)
    assert [each["pinned"] for each in (pinned, measured, unknown)] == [True, False, False]
    assert [each["guard"] for each in (pinned, measured, unknown)] == ["play", "play", None]
    assert pinned["model_sha256"] == measured["model_sha256"]
    assert unknown["model_sha256"] is None


def test_the_limit_of_the_hosts_prompt_cache_is_named(smollm2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANKML_CACHE_RAM", "5")
    assert made(smollm2, None)["cache_ram"] == 5
    assert made(smollm2, None, cache_ram=-1)["cache_ram"] == -1
    monkeypatch.delenv("BANKML_CACHE_RAM")
    assert made(smollm2, None)["cache_ram"] == 8192
