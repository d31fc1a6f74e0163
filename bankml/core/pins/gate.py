# SPDX-License-Identifier: MIT OR Apache-2.0
"""The gate before every model: the guard on the header, the sha256 against its pin, the identity before and after."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bankml import __version__
from bankml.core.pins.digest import Progress, changed, sha256_file
from bankml.core.pins.files import open_regular, unreadable
from bankml.core.pins.identity import Identity
from bankml.core.pins.record import find_fork, mismatch, pinned_sha256, unpinned
from bankml.refusal import EXIT_REFUSED, Refusal

if TYPE_CHECKING:
    from bankml.core.gguf.guard import Verdict


@dataclass(frozen=True)
class Verified:
    """A file whose every byte was hashed, and what was found.

    Args:
        path: the file itself, links resolved.
        sha256: of the whole file.
        guard: the verdict on its header, always ``play``.
        pinned: whether a record vouches for the sha256; ``measure`` gives a record with False here.
        fork: the FORK.json that does.
        identity: of the file as it was hashed; ``identity.changed()`` before each use tells whether it still is.
    """

    path: Path
    sha256: str
    guard: Verdict
    pinned: bool
    fork: Path | None
    identity: Identity

    def as_dict(self) -> dict[str, Any]:
        """The verified record: ``arch`` and ``name`` may be None, ``types`` empty."""
        report = self.guard.as_dict()
        return {
            "verdict": "verified" if self.pinned else "unpinned",
            "guard": self.guard.verdict,
            "engine": report.get("engine"),
            "model_sha256": self.sha256,
            "bankml": __version__,
            "arch": report.get("arch"),
            "name": report.get("name"),
            "types": report.get("types", {}),
        }


def verify(
    path: Path | str, fork: Path | str | None = None, engine: str = "mainline", progress: Progress | None = None
) -> Verified:
    """Let a file through only if the guard plays it and every byte of it is the pinned one.

    The cheap header check comes before the record, the record before the hash. Without ``fork`` the record is looked for
    in bankml's directory of pins, then beside the file.

    Raises:
        Refusal: it cannot be read (exit code 1), the guard refuses it (2), it is truncated (3), no record pins it (2), the
            sha256 is another (2), or it changed meanwhile (2; HTTP 503).
    """
    named = Path(path)
    real, before = _start(named)
    verdict = guarded(real, engine)
    record = Path(fork) if fork is not None else find_fork(named)
    if record is None:
        raise unpinned(named.name, None)
    want = pinned_sha256(record, named.name)
    got = _hash(real, before, named.name, progress)
    if got != want:
        raise mismatch(named.name, got, want)
    return Verified(real, got, verdict, True, record, before)


def measure(path: Path | str, engine: str = "mainline", progress: Progress | None = None) -> Verified:
    """Guard and hash a file that no record vouches for; the result says that it is unpinned.

    Raises:
        Refusal: as for ``verify``, but for the pin.
    """
    named = Path(path)
    real, before = _start(named)
    verdict = guarded(real, engine)
    return Verified(real, _hash(real, before, named.name, progress), verdict, False, None, before)


def guarded(path: Path, engine: str = "mainline") -> Verdict:
    """The guard's verdict on a file that plays.

    Raises:
        Refusal: it does not (exit code 2; the reasons joined, the code and place of the first), it is truncated (3), or it cannot
            be read (1).
    """
    from bankml.core.gguf.guard import judge

    verdict = judge(path, engine)
    if verdict.verdict == "play":
        return verdict
    refusal = verdict.refusal()
    if refusal.exit_code != EXIT_REFUSED:
        raise refusal
    raise Refusal(
        refusal.code,
        f"guard refused: {refusal.message}",
        where=refusal.where,
        found=refusal.found,
        allowed=refusal.allowed,
        hint=refusal.hint,
        extra=refusal.extra,
    )


def _start(named: Path) -> tuple[Path, Identity]:
    try:
        real = named.resolve(strict=True)
        with open_regular(real) as file:
            return real, Identity.of_open(real, file.fileno())
    except (OSError, RuntimeError) as error:
        problem = error if isinstance(error, OSError) else OSError(0, "too many links")
        raise unreadable(named, problem) from error


def _hash(real: Path, before: Identity, name: str, progress: Progress | None) -> str:
    got = sha256_file(real, progress)
    if before.changed():
        raise changed(name)
    return got
