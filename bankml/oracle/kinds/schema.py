# SPDX-License-Identifier: MIT OR Apache-2.0
"""The schema oracle: grammars that the reference makes of JSON schemas, and its refusals."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final

from bankml.oracle.cases.schema import schemas
from bankml.oracle.kind import Tally
from bankml.oracle.options import NUMBER, TEXT, Option, Options, declared, files_in
from bankml.reference.build import Reference
from bankml.reference.probe import Probe, open_probe
from bankml.refusal import Refusal

DRAWN: Final = 600
CRASHED: Final = "the reference ended"
PROBE: Final = "schema/probe.cpp"


def _asked(probe: Probe, schema: str) -> list[str]:
    """["grammar", digest] or ["error", message]."""
    answer = probe.ask(schema.encode())
    if answer is None:
        return ["error", CRASHED]
    head, text = answer
    return described(text) if head[0] == b"grammar" else ["error", text.decode("utf-8", "replace")]


def described(grammar: bytes) -> list[str]:
    """A grammar as 16 hexadecimal digits of its sha256 and its length."""
    return ["grammar", f"{hashlib.sha256(grammar).hexdigest()[:16]}:{len(grammar)}"]


def ours(schema: str) -> list[str]:
    """What bankml makes of a schema, in the same form."""
    from bankml.core.constrain.schema import grammar_of_text

    try:
        return described(grammar_of_text(schema.encode()).text)
    except Refusal as refusal:
        return ["error", refusal.message]


class Schema:
    """Kind ``schema``.

    Options: ``probe``, testing/schema/probe.cpp where it is compiled already; ``drawn``, how many schemas are drawn;
    ``schemas``, a folder of further ``*.json`` files.
    """

    name = "schema"
    checks = "GBNF made of JSON schemas, byte for byte, and the messages of those that are refused"
    against = "libllama-common's json_schema_to_grammar, through a probe compiled against its headers"
    small = True
    options: Options = declared(probe=Option(TEXT), drawn=Option(NUMBER, DRAWN), schemas=Option(TEXT))

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Ask the probe for every schema."""
        cases = schemas(options["drawn"])
        if options["schemas"] is not None:
            cases += [path.read_text(encoding="utf-8") for path in files_in(options["schemas"], "*.json")]
        with open_probe(PROBE, reference, options["probe"]) as probe:
            return {"cases": [[schema, *_asked(probe, schema)] for schema in cases]}

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """Each schema counts once."""
        tally = Tally()
        for schema, *recorded in body["cases"]:
            found = ours(schema)
            same = found == recorded
            if recorded == ["error", CRASHED] or recorded[1].startswith("[json.exception"):
                # What ends the reference, and what is no JSON, must be refused, in bankml's own words.
                same = found[0] == "error"
            tally.count(same, f"{schema}: {found}, recorded {recorded}")
        return tally


KIND = Schema()
