# SPDX-License-Identifier: MIT OR Apache-2.0
"""Chat templates: prompts, refusals and capabilities, over many conversations for each template."""

from __future__ import annotations

import hashlib
import re
import tempfile
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bankml.oracle.cases.template_conversations import requests
from bankml.oracle.cases.template_samples import SAMPLES
from bankml.oracle.kind import Tally
from bankml.oracle.options import SWITCH, TEXT, Option, Options, declared
from bankml.refusal import EXIT_OTHER, Refusal

if TYPE_CHECKING:
    from bankml.core.chat.template import ChatTemplate
    from bankml.reference.build import Reference

_CONTEXT = 512
_THREADS = 1
# The forms in which templates print the date. In a record each stands between two marks in place of the day it was made.
_DATES = ("%d %b %Y", "%b %d %Y", "%B %d, %Y", "%d %B %Y", "%Y-%m-%d")
_MARKED = re.compile("\x01([^\x01]*)\x01")
_COMPARED = datetime(2003, 4, 5, 6, 7, 8)


class _Template:
    """``/apply-template`` on each template and each request; ``/props`` for what the template can take.

    Options:
        templates: a directory whose ``*.jinja`` files are asked, or names of bankml's own samples between commas; without it
            all samples are.
        add_bos: whether the tokenizer adds the first token by itself, whatever the model says.
    """

    name = "template"
    checks = "every prompt byte by byte, every refusal with its status and words, every capability"
    against = "llama-server's /apply-template and /props, one server per template"
    small = True
    options: Options = declared(templates=Option(TEXT), add_bos=Option(SWITCH))

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Start a server for each template and ask it everything."""
        if model is None:
            raise Refusal("oracle.model", "the server needs a model to load", allowed="a path", exit_code=EXIT_OTHER)
        asked = requests()
        entries = []
        ends, extra = _ends(model), []
        if options["add_bos"] is not None:
            ends["add_bos"] = bool(options["add_bos"])
            extra = ["--override-kv", f"tokenizer.ggml.add_bos_token=bool:{str(ends['add_bos']).lower()}"]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "template.jinja"
            for name, source in _sources(options["templates"]).items():
                file.write_bytes(source.encode())
                entry: dict[str, Any] = {
                    "name": name,
                    "sha256": hashlib.sha256(source.encode()).hexdigest(),
                    "source": source,
                }
                today = date.today()
                found = _ask(model, reference, file, asked, extra)
                if date.today() != today:
                    today, found = date.today(), _ask(model, reference, file, asked, extra)
                entries.append(entry | _undated(found, today))
        return {**ends, "requests": asked, "templates": entries}

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """Render every request again. The model is not needed: its first and last token are in the record."""
        tally = Tally()
        for entry in body["templates"]:
            _compare(body, entry, tally)
        return tally


def _sources(wanted: str | None) -> dict[str, str]:
    if wanted is None:
        return SAMPLES
    if not Path(wanted).is_dir():
        names = wanted.split(",")
        if set(names) <= set(SAMPLES):
            return {name: SAMPLES[name] for name in names}
    files = sorted(Path(wanted).glob("*.jinja"))
    if not files:
        allowed = "a directory with *.jinja files, or names among " + ", ".join(SAMPLES)
        raise Refusal("oracle.templates", "no templates there", where=wanted, allowed=allowed, exit_code=EXIT_OTHER)
    return {path.stem: path.read_bytes().decode() for path in files}


def _undated(value: Any, today: date) -> Any:
    """The answers with the day they were given taken out."""
    if isinstance(value, str):
        for form in _DATES:
            value = value.replace(today.strftime(form), f"\x01{form}\x01")
        return value
    if isinstance(value, list):
        return [_undated(item, today) for item in value]
    return {key: _undated(item, today) for key, item in value.items()} if isinstance(value, dict) else value


def _dated(value: Any) -> Any:
    """The answers as they would have been given on the day of the comparison."""
    if isinstance(value, str):
        return _MARKED.sub(lambda match: _COMPARED.strftime(match[1]), value)
    if isinstance(value, list):
        return [_dated(item) for item in value]
    return {key: _dated(item) for key, item in value.items()} if isinstance(value, dict) else value


def _ends(model: Path) -> dict[str, Any]:
    from bankml.core.chat.sequence_ends import ends_of
    from bankml.core.gguf.reader import GgufFile

    with GgufFile.open(model) as gguf:
        ends = ends_of(gguf)
    return {"bos": ends.bos.decode(), "eos": ends.eos.decode(), "add_bos": ends.add_bos, "add_eos": ends.add_eos}


def _ask(model: Path, reference: Reference, file: Path, asked: dict[str, Any], extra: list[str]) -> dict[str, Any]:
    """What one template makes of every request, or that no server starts with it."""
    try:
        with reference.server(model, _CONTEXT, _THREADS, ["--chat-template-file", str(file), *extra]) as server:
            answers = {name: list(server.post("/apply-template", body)) for name, body in asked.items()}
            caps = server.get("/props")[1]["chat_template_caps"]
    except Refusal as refusal:
        if refusal.code != "reference.server":
            raise
        return {"starts": False}
    return {"starts": True, "caps": caps, "answers": answers}


def _compare(body: dict[str, Any], entry: dict[str, Any], tally: Tally) -> None:
    from bankml.core.chat.template import ChatTemplate

    name = entry["name"]
    try:
        template = ChatTemplate(
            entry["source"], body["bos"], body["eos"], add_bos=body["add_bos"], add_eos=body["add_eos"], now=_COMPARED
        )
    except Refusal as refusal:
        tally.count(not entry["starts"], f"{name}: {refusal.line()}")
        return
    tally.count(entry["starts"], f"{name}: the reference does not start with it")
    if not entry["starts"]:
        return
    tally.count(template.caps == entry["caps"], f"{name}: capabilities {template.caps}")
    for request, answer in entry["answers"].items():
        found, wanted = _answer(template, body["requests"][request]), _dated(answer)
        tally.count(found == wanted, f"{name}, {request}: {_excerpt(found)} for {_excerpt(wanted)}")


def _answer(template: ChatTemplate, request: dict[str, Any]) -> list[Any]:
    try:
        return [200, {"prompt": template.apply(request, _COMPARED).text}]
    except Refusal as refusal:
        return [refusal.status, refusal.http_body()]


def _excerpt(answer: list[Any]) -> str:
    return ascii(answer)[:300]


KIND = _Template()
