# SPDX-License-Identifier: MIT OR Apache-2.0
"""Requests for answers put to llama-server and to bankml's app, compared with every probability's 32 bits."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bankml.oracle.kind import Tally
from bankml.oracle.kinds.serve import ask, normal

if TYPE_CHECKING:
    from bankml.core.model.graph import CacheType
    from bankml.reference.server import ReferenceServer

_NUMBERS = ("logprob", "prob")
_LISTS = ("logprobs", "completion_probabilities")

Exchange = dict[str, Any]


def ask_reference(server: ReferenceServer, path: str, body: Any) -> Exchange:
    """What llama-server answers to one request."""
    status, answer = server.events(path, body) if _streams(body) else server.post(path, body)
    if isinstance(answer, list):
        # Between the answers to several prompts b11192 sends an event that is null.
        answer = [each for each in answer if each is not None]
    return {"request": body, "status": status, "answer": bare(normal(answer))}


def compare_exchanges(
    exchanges: list[Exchange], model: Path, ctx: int, llama_threads: int, cache_type: CacheType = "f16"
) -> Tally:
    """Ask bankml's app the same, in the same order."""
    tally = Tally()
    asyncio.run(_ask_app(exchanges, model, ctx, llama_threads, cache_type, tally))
    return tally


async def _ask_app(
    exchanges: list[Exchange], model: Path, ctx: int, llama_threads: int, cache_type: CacheType, tally: Tally
) -> None:
    from bankml.core.engine import Engine, EngineOptions
    from bankml.core.http.settings import Settings
    from bankml.core.serve.app import create_app

    engine = Engine.open(model, EngineOptions(n_ctx=ctx, llama_threads=llama_threads, cache_type=cache_type))
    app = create_app(engine, Settings(quiet=True, llama_threads=llama_threads))
    try:
        for number, each in enumerate(exchanges):
            request = each["request"]
            status, answer = await ask(app, each["path"], request, True, _streams(request))
            _hold(number, each, status, bare(normal(answer)), tally)
    finally:
        app.state.resident.close()


def _streams(body: Any) -> bool:
    return isinstance(body, dict) and body.get("stream") is True


def bare(value: Any) -> Any:
    """The value with each number of its probabilities as the eight digits of its 32 bits, in hexadecimal."""
    if isinstance(value, list):
        return [bare(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: struct.pack(">f", member).hex() if name in _NUMBERS and isinstance(member, float) else bare(member)
        for name, member in value.items()
    }


def _entries(answer: Any) -> Iterator[Any]:
    """Every entry of every list of probabilities in an answer."""
    if isinstance(answer, list):
        for each in answer:
            yield from _entries(each)
    elif isinstance(answer, dict):
        for name, member in answer.items():
            if name in _LISTS and member:
                yield from member["content"] if isinstance(member, dict) else member
            else:
                yield from _entries(member)


def _hold(number: int, recorded: dict[str, Any], status: int, answer: Any, tally: Tally) -> None:
    """Count the whole answer, and each entry of its probabilities."""
    asked = recorded["request"]
    if isinstance(asked, dict):
        asked = {name: value for name, value in asked.items() if name != "messages"}
    wanted = json.dumps([recorded["status"], recorded["answer"]], ensure_ascii=False)
    got = json.dumps([status, answer], ensure_ascii=False)
    where = f"{recorded['path']} {number} {json.dumps(asked, ensure_ascii=False)[:160]}"
    place = next((i for i, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), min(len(got), len(wanted)))
    start = max(place - 60, 0)
    tally.count(got == wanted, f"{where}: …{got[start : place + 90]} not …{wanted[start : place + 90]}")
    found = list(_entries(answer))
    for at, entry in enumerate(_entries(recorded["answer"])):
        same = at < len(found) and found[at] == entry
        tally.count(same, f"{where}: entry {at} differs")
