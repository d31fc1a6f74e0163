# SPDX-License-Identifier: MIT OR Apache-2.0
"""Chats under schemas: the grammar that each template and schema make, and what is read in every beginning of answers."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bankml.oracle.cases.chat import Case, answers, beginnings, cases
from bankml.oracle.cases.template_samples import SAMPLES
from bankml.oracle.kind import Tally
from bankml.oracle.options import TEXT, Option, Options, declared, files_in
from bankml.reference.probe import Probe, open_probe
from bankml.refusal import Refusal

if TYPE_CHECKING:
    from bankml.core.answers.chat_grammar import ChatGrammar
    from bankml.core.chat.template import ChatTemplate
    from bankml.reference.build import Reference

PROBE: Final = "chat/probe.cpp"
_MISMATCH: Final = "The model produced output that does not match"


class Chat:
    """Kind ``chat``.

    Options: ``probe``, testing/chat/probe.cpp where it is compiled already; ``templates``, a folder of ``*.jinja`` files to ask
    in place of bankml's own samples.
    """

    name = "chat"
    checks = "grammars of schemas on chat templates, byte for byte, and content and reasoning of every beginning of answers"
    against = "libllama-common's common_chat_templates_apply and common_chat_parse, through a probe compiled against its headers"
    small = True
    options: Options = declared(templates=Option(TEXT), probe=Option(TEXT))

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Ask the probe for every template and every case."""
        said = answers()
        with open_probe(PROBE, reference, options["probe"]) as probe:
            asked = [
                {"name": name, "source": source, "found": [_asked(probe, case, source, said) for case in cases()]}
                for name, source in _sources(options["templates"]).items()
            ]
        return {"templates": asked}

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """A grammar with what goes with it counts once, and so does each answer with its beginnings."""
        from bankml.core.chat.template import ChatTemplate

        tally = Tally()
        said = answers()
        for entry in body["templates"]:
            name = entry["name"]
            try:
                template = ChatTemplate(entry["source"], "<s>", "</s>")
            except Refusal:
                tally.count(all("error" in found for found in entry["found"]), f"{name}: bankml refuses the template")
                continue
            for case, recorded in zip(cases(), entry["found"], strict=True):
                _hold(template, case, recorded, said, f"{name}, {_answers(case)}", tally)
        return tally


def _sources(folder: str | None) -> dict[str, str]:
    if folder is None:
        return SAMPLES
    return {path.stem: path.read_bytes().decode() for path in files_in(folder, "*.jinja")}


def _asked(probe: Probe, case: Case, source: str, said: list[bytes]) -> dict[str, Any]:
    """What the reference makes of a case, in short."""
    cut = [each for answer in said for each in beginnings(answer)]
    given = probe.ask(case.question(source, cut))
    if given is None:
        return {"error": "the reference ended"}
    found = json.loads(given[1])
    if "error" in found:
        return {"error": [found["error"], found["status"]]}
    chat = [found["format"], found["grammar"], found["generation_prompt"], found["stops"], sorted(set(found["preserved"]))]
    triggers = [[each["type"], each["value"]] for each in found["triggers"]]
    read = iter(found["answers"])
    return {
        "chat": _digest([*chat, triggers]),
        "grammar": len(found["grammar"]),
        **({"read": [_digest([_read(next(read)) for _ in beginnings(answer)]) for answer in said]} if case.reads else {}),
    }


def _read(answer: dict[str, Any]) -> list[Any]:
    """What was read in an answer, whole and as the beginning of one."""
    return [_short(answer[kind]) for kind in ("whole", "partial")]


def _short(read: Any) -> Any:
    return _MISMATCH if isinstance(read, str) and read.startswith(_MISMATCH) else read


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:10]


def _answers(case: Case) -> str:
    return f"{case.schema[:40] or 'no schema'}, {case.reasoning_format}, thinking {case.thinking}, continues {case.how}"


def _hold(template: ChatTemplate, case: Case, recorded: dict[str, Any], said: list[bytes], where: str, tally: Tally) -> None:
    from bankml.core.answers.chat_grammar import grammar_on
    from bankml.core.chat.template_request import read_request

    try:
        request = read_request(case.body())
        prompt = template.prompt(request)
        chat = grammar_on(prompt, request, template)
    except Refusal as refusal:
        tally.count(recorded.get("error") == [refusal.message, refusal.status], f"{where}: {refusal.message}, not {recorded}")
        return
    triggers = [list(each) for each in chat.triggers]
    preserved = sorted(each.decode("utf-8", "replace") for each in chat.preserved)
    digest = _digest([chat.format, chat.text or "", prompt.generation_prompt.hex(), list(prompt.stops), preserved, triggers])
    length = len(chat.text or "")
    same = (digest, length) == (recorded.get("chat"), recorded.get("grammar"))
    tally.count(same, f"{where}: a grammar of {length}, not {recorded.get('grammar')}")
    for answer, wanted in zip(said, recorded.get("read", []), strict=bool(case.reads)):
        found = _digest([_ours(chat, each) for each in beginnings(answer)])
        tally.count(found == wanted, f"{where}: what is read in {answer!r}")


def _ours(chat: ChatGrammar, answer: bytes) -> list[Any]:
    """What bankml reads in an answer, whole and as the beginning of one."""
    from bankml.core.answers.chat_formats import NATIVE
    from bankml.core.answers.peg_read import MismatchError, Reader

    reader = Reader(chat.parser, keeps_blank=chat.format != NATIVE)
    both: list[Any] = []
    for partial in (False, True):
        try:
            said = reader.read(chat.prefill + answer, partial)
            both.append([said.reasoning.hex(), said.content.hex()])
        except MismatchError:
            both.append(_MISMATCH)
    return both


KIND = Chat()
