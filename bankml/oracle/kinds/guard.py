# SPDX-License-Identifier: MIT OR Apache-2.0
"""The guard against the reference's own loader: what it refuses or aborts on, the guard refuses."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bankml.oracle.kind import Tally
from bankml.oracle.options import Options, declared
from bankml.refusal import EXIT_OTHER, Refusal

if TYPE_CHECKING:
    from bankml.oracle.cases.guard import Case
    from bankml.reference.build import Reference


_PROMPT = {"prompt": "ab", "n_predict": 1}


def all_cases() -> list[Case]:
    """Every file of the table: forms, then whole small models."""
    from bankml.oracle.cases.guard import form_cases
    from bankml.oracle.cases.guard_models import extra_cases, server_cases, shape_cases, type_cases

    return [*form_cases(), *shape_cases(), *type_cases(), *extra_cases(), *server_cases()]


def _served(reference: Reference, path: Path) -> dict[str, str]:
    """Whether a llama-server starts with the file and answers a prompt, in the words of the other answers."""
    from bankml.reference.stops import ANSWERS, ask_or_stop

    verdict, says, _ = ask_or_stop(reference, path, 64, lambda server: server.post("/completion", _PROMPT))
    return {"verdict": "loads" if verdict == ANSWERS else verdict, "says": says}


class _Guard:
    name = "guard"
    checks = "play or refuse, for hostile and harmless GGUF files"
    against = "gguf_init_from_file, llama_model_load_from_file and llama-server"
    small = True
    options: Options = declared()

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """The reference's verdict on every file of the table, and the files."""
        cases = all_cases()
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{number}.gguf" for number in range(len(cases))]
            for path, case in zip(paths, cases, strict=True):
                path.write_bytes(case.data)
            pairs = list(zip(paths, cases, strict=True))
            lines = [json.dumps([case.reads, str(path)]) for path, case in pairs if case.reads != "server"]
            asked = subprocess.run(  # noqa: S603 - our own module
                [sys.executable, "-m", "bankml.reference.headers", str(reference.bin)],
                input="\n".join(lines) + "\n",
                stdout=subprocess.PIPE,
                text=True,
                env=reference.environment(),
                check=False,
            )
            opened = [json.loads(line) for line in asked.stdout.splitlines()]
            if len(opened) != len(lines):
                raise Refusal(
                    "oracle.reference",
                    "the reference stopped before the last file",
                    found=f"{len(opened)} answers",
                    allowed=str(len(lines)),
                    exit_code=EXIT_OTHER,
                )
            each = iter(opened)
            answers = [_served(reference, path) if case.reads == "server" else next(each) for path, case in pairs]
        return {
            "files": [
                {
                    "name": case.name,
                    "reads": case.reads,
                    "data": base64.b64encode(case.data).decode("ascii"),
                    "stricter": case.stricter,
                    **answer,
                }
                for case, answer in zip(cases, answers, strict=True)
            ]
        }

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """Count the files on which the guard and the reference agree; where the guard is stricter on purpose, both must be so."""
        from bankml.core.gguf.guard import PLAY, judge_bytes

        tally = Tally()
        for file in body["files"]:
            data = base64.b64decode(file["data"])
            verdict = judge_bytes(data, size=len(data))
            loads = file["verdict"] == "loads"
            plays = verdict.verdict == PLAY
            same = loads and not plays if file["stricter"] else loads == plays
            codes = ", ".join(reason.code for reason in verdict.reasons) or PLAY
            tally.count(same, f"{file['name']}: the reference {file['verdict']} ({file['says']}), the guard: {codes}")
        return tally


KIND = _Guard()
