# SPDX-License-Identifier: MIT OR Apache-2.0
"""A download that goes on after a cut: into a partial file, by byte ranges, with limits on everything."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from bankml.core.pins.digest import Progress
from bankml.core.pins.files import disk_refusal, require_space
from bankml.core.refusal import EXIT_OTHER, Refusal

STALLED_ATTEMPTS = 5
MOST_ATTEMPTS = 50
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 20.0
BLOCK = 1 << 14
_REPORT_EVERY = 1 << 18
_LOOK_EVERY = 1 << 20
"""Bytes after which the disk's space is looked at again."""
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
_OF_THE_PART = frozenset({"fetch.size", "disk.full"})
"""Refusals of the bytes that came; others are of the request, and what came before may be gone on with."""
_CONTENT_RANGE = re.compile(r"bytes (?:(\d{1,19})-(\d{1,19})|\*)/(\d{1,19}|\*)\Z")

Get = Callable[[str, dict[str, str]], Any]
"""Asks for a URL with these headers, redirects followed, the body not yet read; answers as ``requests.Response`` does."""


class _CutError(Exception):
    """This attempt ended early; another may go on from there."""

    def __init__(self, why: str, wait_s: float | None = None) -> None:
        super().__init__(why)
        self.wait_s = wait_s


@dataclass
class _State:
    """What is known about the partial file: kept beside it, so that a later run can go on."""

    url: str
    validator: str | None = None
    total: int | None = None
    joined: bool = False


@dataclass(frozen=True)
class Fetched:
    """A whole file in the partial file's place.

    Args:
        joined: whether it was put together from more than one answer.
    """

    bytes: int
    joined: bool


def public_url(url: str) -> str:
    """The URL without user, password, query and fragment: fit to be shown and kept."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "what is no URL"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def download(get: Get, url: str, partial: Path, *, expected: int | None = None, progress: Progress | None = None) -> Fetched:
    """Fetch ``url`` whole into ``partial``. What a former run left there is used, if it is still the same.

    The bytes are not to be believed before they are hashed: a server without a validator may have changed its file between
    two attempts.

    Args:
        expected: the size that it must have, where that is known; without it, and where the server names none, the space on the
            disk is the limit.

    Raises:
        Refusal: the server says no or lies about lengths, the disk is full, or the attempts are used up. What came stays for
            the next run, except where its size or the disk is the reason.
    """
    partial.parent.mkdir(parents=True, exist_ok=True)
    state = _load(partial, url)
    stalled = 0
    furthest = _size(partial)
    for attempt in range(1, MOST_ATTEMPTS + 1):
        try:
            size = _attempt(get, partial, state, expected, progress)
            return Fetched(size, state.joined)
        except _CutError as cut:
            stalled = 0 if _size(partial) > furthest else stalled + 1
            furthest = max(furthest, _size(partial))
            if stalled >= STALLED_ATTEMPTS or attempt == MOST_ATTEMPTS:
                if not _size(partial):
                    discard(partial)
                raise _given_up(partial, state, attempt, cut) from cut
            time.sleep(cut.wait_s if cut.wait_s is not None else min(FIRST_PAUSE_S * 2**stalled, LONGEST_PAUSE_S))
        except Refusal as refusal:
            if refusal.code in _OF_THE_PART or not _size(partial):
                discard(partial)
            raise
        except OSError as error:
            discard(partial)
            raise disk_refusal(partial, error) from error
    raise AssertionError("the loop returns or raises")


def _attempt(get: Get, partial: Path, state: _State, expected: int | None, progress: Progress | None) -> int:
    offset = _size(partial)
    if offset and offset == state.total == (expected or state.total):
        state.joined = True
        return offset
    with contextlib.closing(_request(get, state, offset)) as response:
        start, total = _judge(response, partial, state, offset)
        if total is not None and expected is not None and total != expected:
            raise wrong_size(partial.name, f"{total} bytes announced", f"{expected} bytes")
        size = total if total is not None else expected
        require_space(partial, (size or start) - start)
        state.total = total
        state.joined = start > 0
        state.validator = _validator(response) or (state.validator if start else None)
        _save(partial, state)
        if start == total:
            return start
        done = _write(response, partial, start, size, progress)
    if size is not None and done < size:
        raise _CutError(f"{done} of {size} bytes came")
    return done


def _request(get: Get, state: _State, offset: int) -> Any:
    headers = {"Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
        if state.validator is not None:
            headers["If-Range"] = state.validator
    try:
        return get(state.url, headers)
    except OSError as error:  # every error of requests, pip's copy of it included, is one
        raise _network_error(state.url, error) from error


def _judge(response: Any, partial: Path, state: _State, offset: int) -> tuple[int, int | None]:
    """Where the body starts in the file, and the size of the whole; the partial file is cut back where it does not fit."""
    status = response.status_code
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if status in (200, 206) and encoding not in ("", "identity"):
        raise Refusal("fetch.encoding", f"{public_url(state.url)} comes encoded", found=encoding[:40], allowed="identity")
    if status == 200:
        _truncate(partial)
        return 0, _length(response)
    if status == 206 and offset:
        match = _CONTENT_RANGE.match(response.headers.get("Content-Range", "").strip())
        if match is not None and match[1] is not None and int(match[1]) == offset:
            total = None if match[3] == "*" else int(match[3])
            if total is None or total == (state.total or total):
                return offset, total
        _truncate(partial)
        raise _CutError("the server answered another range")
    if status == 416 and offset:
        match = _CONTENT_RANGE.match(response.headers.get("Content-Range", "").strip())
        if match is not None and match[3] == str(offset):
            return offset, offset
        _truncate(partial)
        raise _CutError("the file on the server is another now")
    if status in _TRANSIENT:
        raise _CutError(f"HTTP {status}", _retry_after(response))
    raise Refusal(
        "fetch.status",
        f"{public_url(state.url)} answers HTTP {status}",
        found=str(getattr(response, "reason", "") or status)[:80],
        status=502,
        exit_code=EXIT_OTHER,
    )


def _write(response: Any, partial: Path, start: int, size: int | None, progress: Progress | None) -> int:
    """Write the body behind the first ``start`` bytes, up to ``size`` bytes in all, or while the disk has space."""
    done = reported = looked = start
    what = f"fetch {partial.name}"
    with partial.open("r+b" if partial.exists() else "wb") as file:
        file.seek(start)
        file.truncate()
        for block in _blocks(response):
            if size is not None and done + len(block) > size:
                raise wrong_size(partial.name, f"more than {size} bytes", f"{size} bytes")
            if done >= looked:
                require_space(partial, _LOOK_EVERY if size is None else min(size - done, _LOOK_EVERY))
                looked = done + _LOOK_EVERY
            file.write(block)
            done += len(block)
            if progress is not None and done - reported >= _REPORT_EVERY:
                progress(what, done, size)
                reported = done
    if progress is not None:
        progress(what, done, size)
    return done


def _blocks(response: Any) -> Iterator[bytes]:
    stream = iter(response.iter_content(BLOCK))
    while True:
        try:
            block = next(stream, b"")
        except OSError as error:
            raise _network_error(str(response.url), error) from error
        if not block:
            return
        yield block


def _network_error(url: str, error: OSError) -> Refusal | _CutError:
    """A certificate that does not hold and a URL that is none are final; anything else on the way may pass."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, ValueError):
        return Refusal("fetch.url", f"{public_url(url)} is no URL to fetch", found=_short(error), exit_code=EXIT_OTHER)
    if "SSLError" in kinds:
        return Refusal("fetch.tls", f"no safe connection to {public_url(url)}", found=_short(error), exit_code=EXIT_OTHER)
    return _CutError(_short(error))


def _given_up(partial: Path, state: _State, attempts: int, cut: _CutError) -> Refusal:
    size = _size(partial)
    return Refusal(
        "fetch.cut",
        f"{partial.name} did not come whole from {public_url(state.url)} in {attempts} attempts",
        found=f"{size} of {state.total if state.total is not None else 'unknown'} bytes; {cut}",
        hint="the same command goes on from there" if size else None,
        status=502,
        exit_code=EXIT_OTHER,
    )


def wrong_size(name: str, found: str, allowed: str) -> Refusal:
    """The refusal for a file whose size is not the known one."""
    return Refusal("fetch.size", f"{name} has another size than it should", found=found, allowed=allowed)


def _length(response: Any) -> int | None:
    text = str(response.headers.get("Content-Length", "")).strip()
    return int(text) if re.fullmatch(r"[0-9]{1,19}", text) else None


def _validator(response: Any) -> str | None:
    """What If-Range may carry: a strong entity tag, else the date. Source: RFC 9110 section 13.1.5."""
    tag = str(response.headers.get("ETag", ""))
    if tag.startswith('"'):
        return tag
    date = response.headers.get("Last-Modified")
    return str(date) if date else None


def _retry_after(response: Any) -> float | None:
    text = str(response.headers.get("Retry-After", ""))
    return min(float(text), LONGEST_PAUSE_S) if re.fullmatch(r"[0-9]{1,6}", text) else None


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _truncate(partial: Path) -> None:
    partial.write_bytes(b"")


def _state_path(partial: Path) -> Path:
    return partial.with_name(partial.name + ".state")


def discard(partial: Path) -> None:
    """Forget a partial file and what is known about it."""
    partial.unlink(missing_ok=True)
    _state_path(partial).unlink(missing_ok=True)


def _load(partial: Path, url: str) -> _State:
    """The state that a former run left, if it is about the same URL; else a new one and no partial file."""
    try:
        kept = json.loads(_state_path(partial).read_text("utf-8"))
        validator, total = kept["validator"], kept["total"]
        if kept["url"] == public_url(url) and isinstance(validator, str | None) and isinstance(total, int | None):
            return _State(url, validator, total)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    discard(partial)
    return _State(url)


def _save(partial: Path, state: _State) -> None:
    kept = {"url": public_url(state.url), "validator": state.validator, "total": state.total}
    _state_path(partial).write_text(json.dumps(kept), "utf-8")
