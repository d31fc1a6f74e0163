# SPDX-License-Identifier: MIT OR Apache-2.0
"""Texts continued over HTTP, in llama-server's own shape and in OpenAI's older one, whole and streamed, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bankml.oracle.ask.exchanges import ask_reference, compare_exchanges
from bankml.oracle.cases.completion import requests
from bankml.oracle.kind import Tally
from bankml.oracle.options import Options, declared
from bankml.refusal import Refusal

if TYPE_CHECKING:
    from bankml.reference.build import Reference

# Below 512 cells no bit depends on the reference's threads; one is the quickest on a busy machine.
_CTX = 256
_THREADS = 1


class _Completion:
    name = "completion"
    checks = "continued texts: every shape of a prompt, sampler chains, probabilities, grammars, schemas, endings, refusals"
    against = "llama-server's /completion and /v1/completions"
    small = True
    options: Options = declared()

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Ask a llama-server all of it."""
        if model is None:
            raise Refusal("oracle.model", "the oracle of continued texts needs a model")
        with reference.server(model, ctx=_CTX, threads=_THREADS) as server:
            return {"exchanges": [{"path": path, **ask_reference(server, path, body)} for path, body in requests(_CTX)]}

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """Ask bankml's app the same, in the same order."""
        if model is None:
            raise Refusal("oracle.model", "this oracle needs the recorded model", hint="`bankml pull` fetches it")
        return compare_exchanges(body["exchanges"], model, _CTX, _THREADS)


KIND = _Completion()
