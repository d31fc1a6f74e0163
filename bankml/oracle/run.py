# SPDX-License-Identifier: MIT OR Apache-2.0
"""Make a record by asking the reference; hold bankml to a record."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bankml.core.pins import sha256_file
from bankml.home import models_dir
from bankml.oracle.kind import Tally
from bankml.oracle.options import resolved
from bankml.oracle.record import Record
from bankml.oracle.registry import load_kind
from bankml.reference.build import Reference
from bankml.refusal import Refusal


def make_record(
    kind: str, model: Path | None, reference: Reference, options: dict[str, Any], date: datetime | None = None
) -> Record:
    """Ask the reference everything that this kind asks; ``date`` is now unless given.

    Raises:
        Refusal: an option that the kind does not have or cannot read, or what the kind or the reference refuses.
    """
    asked = load_kind(kind)
    values = resolved(kind, asked.options, options)
    facts = reference.facts()
    body = asked.record(model, reference, values)
    return Record(
        kind=kind,
        made_with=facts,
        model_sha256=sha256_file(model) if model is not None else None,
        date=(date or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        options=options,
        body=body,
    )


def compare_record(record: Record, model: Path | None = None) -> Tally:
    """Derive again what the record holds.

    Without ``model`` the file with the recorded sha256 is looked for among the models of this machine.

    Raises:
        Refusal: ``model`` is another file than the recorded one, or the kind needs a model and there is none.
    """
    return load_kind(record.kind).compare(record.body, _model_of(record, model))


def _model_of(record: Record, given: Path | None) -> Path | None:
    if record.model_sha256 is None:
        return given
    if given is None:
        return find_model(record.model_sha256)
    digest = sha256_file(given)
    if digest != record.model_sha256:
        raise Refusal(
            "oracle.model",
            "the record was made from another model",
            where=str(given),
            found=f"sha256 {digest}",
            allowed=f"sha256 {record.model_sha256}",
        )
    return given


def find_model(sha256: str) -> Path | None:
    """The file among this machine's models that has this sha256 (hashed, not believed), or None."""
    folder = models_dir()
    files = sorted(folder.rglob("*.gguf")) if folder.is_dir() else []
    return next((path for path in files if path.is_file() and sha256_file(path) == sha256), None)
