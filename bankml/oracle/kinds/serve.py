# SPDX-License-Identifier: MIT OR Apache-2.0
"""The HTTP answers of bankml's app against llama-server's: status and body, members in order, whole and streamed.

docs/oracles/serve.md lists what is left out of the comparison, and of what only the type counts.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bankml.oracle.cases.serve import exchanges, json_bodies, odd_fields
from bankml.oracle.kind import Tally
from bankml.oracle.options import Options, declared
from bankml.refusal import Refusal

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from bankml.reference.build import Reference
    from bankml.reference.server import ReferenceServer

CTX = 4096
LLAMA_THREADS = 3

VARY = {
    "created",
    "id",
    "model",
    "name",
    "aliases",
    "system_fingerprint",
    "model_path",
    "model_alias",
    "build_info",
}
CLOCKS = {
    *("prompt_ms", "prompt_per_token_ms", "prompt_per_second"),
    *("predicted_ms", "predicted_per_token_ms", "predicted_per_second"),
}
LEFT_OUT = {
    *("endpoint_slots", "endpoint_props", "endpoint_metrics", "ui", "ui_settings"),
    *("bankml_receipt", "media_marker"),
}


def normal(value: Any) -> Any:
    """The value without what two servers cannot share; the names of members stay, but for those left out."""
    if isinstance(value, list):
        return [normal(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    for name, member in value.items():
        if name in LEFT_OUT:
            continue
        if name in VARY or name in CLOCKS:
            kept[name] = type(member).__name__ if member != 0 else "float"
            if name == "id" and isinstance(member, int):
                kept[name] = member
        else:
            kept[name] = normal(member)
    return kept


class _Serve:
    name = "serve"
    checks = "HTTP status and body of chat answers whole and streamed, text routes, refusals, JSON errors"
    against = "llama-server"
    small = True
    options: Options = declared()

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Ask a llama-server all of it."""
        if model is None:
            raise Refusal("oracle.model", "the server's oracle needs a model")
        with reference.server(model, ctx=CTX, threads=LLAMA_THREADS) as server:
            bodies = []
            for body in json_bodies():
                status, answer = server.post("/detokenize", body)
                message = answer["error"]["message"] if status != 200 else None
                # Read, and refused for what it says: no fault of the JSON.
                bodies.append([body.hex(), None if message is None or "type_error" in message else message])
            answers = [asked_server(server, asked) for asked in exchanges()]
            for asked in odd_fields():
                status, answer = server.post(asked["path"], asked["body"])
                if status != 200:
                    answers.append({**asked, "status": status, "answer": normal(answer)})
        return {"bodies": bodies, "exchanges": answers}

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """Ask bankml's app the same, in the same order."""
        from bankml.core.json.reader import read_json

        tally = Tally()
        for text, message in body["bodies"]:
            try:
                read_json(bytes.fromhex(text))
                got = None
            except Refusal as refusal:
                got = refusal.message
            tally.count(got == message, f"JSON {bytes.fromhex(text)!r}: {got!r}, not {message!r}")
        if model is None:
            raise Refusal("oracle.model", "the server's oracle needs the recorded model", hint="`bankml pull` fetches it")
        asyncio.run(ask_app(body["exchanges"], model, tally))
        return tally


def asked_server(server: ReferenceServer, asked: dict[str, Any]) -> dict[str, Any]:
    """A request with what llama-server answers; one that is refused a stream answers with a status and a body."""
    if asked.get("stream"):
        events = list(server.stream(asked["path"], asked["body"]))
        status, answer = 200, [each if each == "[DONE]" else json.loads(each) for each in events]
    elif "body" in asked:
        status, answer = server.post(asked["path"], asked["body"])
    else:
        status, answer = server.get(asked["path"])
    return {**asked, "status": status, "answer": normal(answer)}


async def ask_app(asked: list[dict[str, Any]], model: Path, tally: Tally, ctx: int = CTX) -> None:
    """Put the same requests to bankml's app, and count the same answers."""
    from bankml.core.engine import Engine, EngineOptions
    from bankml.core.http.settings import Settings
    from bankml.core.serve.app import create_app

    engine = Engine.open(model, EngineOptions(n_ctx=ctx, llama_threads=LLAMA_THREADS))
    app = create_app(engine, Settings(quiet=True, llama_threads=LLAMA_THREADS))
    try:
        for each in asked:
            status, answer = await ask(app, each["path"], each.get("body"), "body" in each, bool(each.get("stream")))
            wanted = json.dumps([each["status"], each["answer"]], ensure_ascii=False)
            got = json.dumps([status, normal(answer)], ensure_ascii=False)
            sent = json.dumps(each.get("body"), ensure_ascii=False)[:160]
            tally.count(got == wanted, f"{each['path']} {sent}: {_differ(got, wanted)}")
    finally:
        app.state.resident.close()


def _differ(got: str, wanted: str) -> str:
    place = next((i for i, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), min(len(got), len(wanted)))
    start = max(place - 30, 0)
    return f"…{got[start : place + 90]} not …{wanted[start : place + 90]}"


async def ask(app: Starlette, path: str, body: Any, post: bool, stream: bool) -> tuple[int, Any]:
    """One request to an app in this process; a stream's answer is the list of its events, bankml's own left out."""
    data = json.dumps(body).encode() if post else b""
    sent: list[dict[str, Any]] = []
    incoming = [{"type": "http.request", "body": data, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if incoming:
            return incoming.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(dict(message))

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST" if post else "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)
    status = sent[0]["status"]
    text = b"".join(message.get("body", b"") for message in sent[1:]).decode("utf-8")
    if not stream or status != 200:
        return status, json.loads(text)
    events = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    values = [each if each == "[DONE]" else json.loads(each) for each in events]
    return status, [each for each in values if not (isinstance(each, dict) and "bankml_receipt" in each)]


KIND = _Serve()
