# SPDX-License-Identifier: MIT OR Apache-2.0
"""Asks the reference's library about changed headers, each in a process of its own, since some abort it.

Run as a program by the oracle of keys: the directory of the reference as argument, the path of a model a line on stdin, one
JSON object a line on stdout: ``verdict``, ``says``, and of a model that answers the digests ``logits`` and ``text``.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bankml.oracle.ask.keys_questions import STEPS, digest_of_logits, digest_of_text
from bankml.reference.build import Reference
from bankml.reference.headers import _log, _open_model
from bankml.reference.libllama import LlamaModel
from bankml.reference.stops import ABORTS, ANSWERS, REFUSES
from bankml.reference.vocabulary import ReferenceVocab
from bankml.refusal import Refusal


def _answer(reference: Reference, path: Path) -> dict[str, Any]:
    with LlamaModel(reference, path, n_ctx=64, threads=1) as model:
        rows = [model.eval(tokens, pos)[0][0] for pos, tokens in STEPS]
    with ReferenceVocab(reference, path) as vocab:
        text = digest_of_text(
            {name: vocab.number(name) for name in ("bos", "eos")},
            vocab.which("is_eog"),
            vocab.encode,
            lambda ids: vocab.decode(ids, False, True),
            [vocab.piece(token, special) for token in range(vocab.size) for special in (False, True)],
        )
    finite = all(bool(np.isfinite(row).all()) for row in rows)
    return {"verdict": ANSWERS, "says": "" if finite else "no numbers", "logits": digest_of_logits(rows), "text": text}


def _ask(reference: Reference, path: Path) -> dict[str, Any]:
    """Let a forked child open the model and answer."""
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as answered:
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 2)
            code = 1
            try:
                os.write(answered.fileno(), json.dumps(_answer(reference, path)).encode())
                code = 0
            except Refusal as refusal:
                # Once more, for the reference's own words.
                reference.library("llama").llama_log_set(_log, None)
                _open_model(reference.library("llama"), str(path))
                os.write(2, refusal.message.encode())
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        if status == 0:
            answered.seek(0)
            found: dict[str, Any] = json.loads(answered.read())
            return found
        said.seek(0)
        lines = [line.strip() for line in said.read().decode("utf-8", "replace").splitlines() if line.strip()]
    text = re.sub(r"/\S*/", "", next(iter(lines), ""))[:160]
    return {"verdict": ABORTS if os.WIFSIGNALED(status) else REFUSES, "says": text}


def main(directory: str) -> None:
    """Answer the lines of stdin."""
    reference = Reference(Path(directory))
    reference.library("llama")
    for line in sys.stdin:
        print(json.dumps(_ask(reference, Path(json.loads(line)))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
