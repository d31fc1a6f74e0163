# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every metadata key that the reference reads, set to values that decide something: does it load, stop, which bits follow."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bankml.oracle.ask.keys_questions import STEPS, digest_of_logits, digest_of_text
from bankml.oracle.cases import keys_models
from bankml.oracle.kind import Tally
from bankml.oracle.options import Options, declared
from bankml.reference.stops import ANSWERS, ask_or_stop
from bankml.refusal import EXIT_OTHER, Refusal

if TYPE_CHECKING:
    from bankml.core.gguf.reader import GgufFile
    from bankml.oracle.cases.keys import Case
    from bankml.reference.build import Reference
    from bankml.reference.server import ReferenceServer

_CTX = 64
_MESSAGES = [{"role": "system", "content": "a"}, {"role": "user", "content": "b\n"}, {"role": "assistant", "content": ""}]
_PROMPT = {"prompt": "ab a b", "n_predict": 4, "seed": 7, "return_tokens": True}
ASKED: tuple[tuple[str, Any], ...] = (
    ("/props", None),
    ("/apply-template", {"messages": _MESSAGES[:2]}),
    ("/apply-template", {"messages": _MESSAGES, "add_generation_prompt": False}),
    ("/completion", _PROMPT),
)
"""What a llama-server with the file is asked."""
_SHOWN = ("default_generation_settings", "model_ftype", "chat_template", "chat_template_caps", "bos_token", "eos_token")
_ANSWERED = ("content", "tokens", "stop_type", "tokens_predicted", "tokens_evaluated", "truncated")


class _Keys:
    name = "keys"
    checks = "each metadata key: its fallback, its types, values at the edges; the bits of logits, tokens and settings"
    against = "llama_model_load_from_file, llama_decode, llama_tokenize and llama-server"
    small = True
    options: Options = declared()

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Ask about every case: the library in processes of their own, and a llama-server for each that needs one."""
        from bankml.oracle.cases.keys import cases, library_names, probes

        names = library_names(reference.bin / "libllama.so")
        everything = [*probes(names), *cases()]
        with tempfile.TemporaryDirectory() as folder:
            answers = iter(_library_answers([case for case in everything if not case.serve], reference, Path(folder)))
            found = [_server_answer(case, reference, Path(folder)) if case.serve else next(answers) for case in everything]
        return {
            "names": names,
            "cases": [
                {
                    "arch": case.arch,
                    "changes": case.changes,
                    **({"refuses": case.refuses} if case.refuses else {}),
                    **({"serve": True} if case.serve else {}),
                    **({"rows": case.rows} if case.rows != len(keys_models.TOKENS) else {}),
                    **({"layers": case.layers} if case.layers != keys_models.LAYERS else {}),
                    **({"extra": list(case.extra)} if case.extra else {}),
                    **answer,
                }
                for case, answer in zip(everything, found, strict=True)
            ],
        }

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """Open every file again. What the reference does not answer must be refused, and what it answers answered the same.

        A case that names a code is one that the reference answers and bankml refuses on purpose, with that code.
        """
        tally = Tally()
        known: dict[str, str] = {}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.gguf"
            for case in body["cases"]:
                shape = {name: case[name] for name in ("rows", "layers", "extra") if name in case}
                keys_models.write(case["arch"], case["changes"], path, **shape)
                _hold(case, path, known, tally)
        return tally


def _library_answers(cases: Sequence[Case], reference: Reference, folder: Path) -> list[dict[str, Any]]:
    lines = []
    for number, case in enumerate(cases):
        path = folder / f"{number}.gguf"
        keys_models.write(case.arch, case.changes, path, case.rows, case.layers, case.extra)
        lines.append(json.dumps(str(path)))
    asked = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-m", "bankml.oracle.ask.keys_reference", str(reference.bin)],
        input="\n".join(lines) + "\n",
        stdout=subprocess.PIPE,
        text=True,
        env=reference.environment(),
        check=False,
    )
    answers = [json.loads(line) for line in asked.stdout.splitlines()]
    if len(answers) != len(cases):
        found = f"{len(answers)} answers"
        message = "the reference stopped before the last file"
        raise Refusal("oracle.reference", message, found=found, allowed=str(len(cases)), exit_code=EXIT_OTHER)
    return answers


def _server_answer(case: Case, reference: Reference, folder: Path) -> dict[str, Any]:
    """What a llama-server with the file says, or that it stops."""
    path = folder / "served.gguf"
    keys_models.write(case.arch, case.changes, path, case.rows, case.layers, case.extra)
    verdict, says, answers = ask_or_stop(reference, path, _CTX, _served)
    return {"verdict": verdict, "says": says, **({"answers": answers} if verdict == ANSWERS else {})}


def _served(server: ReferenceServer) -> list[list[Any]]:
    return [_kept(name, *(server.get(name) if body is None else server.post(name, body))) for name, body in ASKED]


def _kept(path: str, status: int, answer: Any) -> list[Any]:
    """The members that the header decides."""
    if status == 200 and path in ("/props", "/completion"):
        answer = {name: answer.get(name) for name in (_SHOWN if path == "/props" else _ANSWERED)}
    return [status, _finite(answer)]


def _finite(value: Any) -> Any:
    """The value with null for each number that is not finite, as JSON has it."""
    if isinstance(value, dict):
        return {name: _finite(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_finite(member) for member in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _hold(case: dict[str, Any], path: Path, known: dict[str, str], tally: Tally) -> None:
    where = f"{case['arch']} {json.dumps(case['changes'])[:200]}"
    theirs = f"the reference {case['verdict']} {case['says']}".rstrip()
    answers = case["verdict"] == ANSWERS
    try:
        found = asyncio.run(_app_answers(path)) if case.get("serve") else _model_answers(path, known)
    except Refusal as refusal:
        same = refusal.code == case["refuses"] if "refuses" in case else not answers
        tally.count(same, f"{where}: {theirs}, bankml refuses: {refusal.code} {refusal.line()}")
        return
    wanted = {name: case.get(name) for name in found}
    same = answers and "refuses" not in case and found == wanted
    differ = ", ".join(name for name in found if found[name] != wanted[name])
    tally.count(same, f"{where}: {theirs}; bankml answers, with other {differ or 'refusals'}")


def _model_answers(path: Path, known: dict[str, str]) -> dict[str, Any]:
    """The digests of one file. A header whose plan is that of one before gives its logits: the weights are the same."""
    from bankml.core.gguf.reader import GgufFile
    from bankml.core.model.plan import plan
    from bankml.core.tokenizer.tokenizer import Tokenizer

    with GgufFile.open(path) as gguf:
        built = plan(gguf)
        tokenizer = Tokenizer.from_gguf(gguf)
        tokenizer.require_ends()
        text = digest_of_text(
            {name: -1 if token is None else token for name, token in (("bos", tokenizer.bos), ("eos", tokenizer.eos))},
            sorted(tokenizer.eog),
            tokenizer.encode,
            lambda ids: tokenizer.decode(ids, remove=True),
            [tokenizer.piece(token, special) for token in range(tokenizer.n_vocab) for special in (False, True)],
        )
        if repr(built) not in known:
            known[repr(built)] = _evaluated(gguf)
        return {"logits": known[repr(built)], "text": text}


def _evaluated(gguf: GgufFile) -> str:
    from bankml.core.model.model import Model

    player = Model.load(gguf, n_ctx=_CTX, threads=1, llama_threads=1)
    try:
        rows = []
        for pos, tokens in STEPS:
            logits = player.eval(tokens, pos)
            assert logits is not None
            rows.append(logits.copy())
        return digest_of_logits(rows)
    finally:
        player.close()


async def _app_answers(path: Path) -> dict[str, Any]:
    from bankml.core.engine import Engine, EngineOptions
    from bankml.core.http.settings import Settings
    from bankml.core.serve.app import create_app
    from bankml.oracle.kinds.serve import ask

    engine = Engine.open(path, EngineOptions(n_ctx=_CTX, threads=1, llama_threads=1))
    app = create_app(engine, Settings(quiet=True, llama_threads=1))
    try:
        return {"answers": [_kept(name, *await ask(app, name, body, body is not None, False)) for name, body in ASKED]}
    finally:
        app.state.resident.close()


KIND = _Keys()
