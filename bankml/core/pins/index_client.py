# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fetches one wheel through pip's own session, so that pip's whole configuration counts; run as a program by ``index``.

pip offers no library. This asks its parts for the one thing that its command line cannot do: go on with a download that a former
run began. Where a version of pip has other parts, it ends with ``NO_SUCH_PIP`` and the caller falls back to ``pip download``.
The program reads its task as JSON from its argument and answers in JSON lines on stdout.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

from bankml.core.pins.fetch import Fetched, download, public_url
from bankml.core.refusal import EXIT_OTHER, Refusal

NO_SUCH_PIP = 70
MOST_PAGE = 4 << 20
"""Bytes of an index's page; pip's parser takes some seconds for each million that are made to hurt."""


def _say(**members: Any) -> None:
    """Tell the caller; when it is gone, end at once and leave what came for the next run."""
    try:
        print(json.dumps(members), flush=True)
    except BrokenPipeError:
        os._exit(1)


def _progress(what: str, done: int, total: int | None) -> None:
    _say(progress=[what, done, total])


def _wheel_links(project: str, wheel: str) -> tuple[Any, list[Any]]:
    """pip's session and the links of that file name which its configured indexes offer."""
    command: Any = importlib.import_module("pip._internal.commands").create_command("download")
    options, _ = command.parse_args(["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input"])
    with command.main_context():
        session = command.get_default_session(options)
        _limit(session)
        finder = command._build_package_finder(options=options, session=session)
        candidates = finder.find_all_candidates(project)
    return session, [candidate.link for candidate in candidates if candidate.link.filename == wheel]


def _limit(session: Any) -> None:
    """Let no server have pip read a page without end, or wait as long as the server likes."""
    session.hooks["response"].append(_hold_page)
    for adapter in session.adapters.values():
        retries = getattr(adapter, "max_retries", None)
        if retries is not None:
            retries.respect_retry_after_header = False


def _hold_page(response: Any, **options: Any) -> None:
    """Read a page up to its limit; a file, which is streamed, has its own."""
    if options.get("stream"):
        return
    page = bytearray()
    for piece in response.iter_content(1 << 16):
        page += piece
        if len(page) > MOST_PAGE:
            response.close()
            raise Refusal(
                "pull.page",
                f"{public_url(response.url)} is longer than a page of a package index",
                found=f"more than {MOST_PAGE} bytes",
                allowed=f"{MOST_PAGE} bytes",
                status=502,
                exit_code=EXIT_OTHER,
            )
    response._content = bytes(page)


def run(task: dict[str, Any]) -> int:
    """Fetch the wheel that ``task`` names into its partial file; the exit code."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(message)s")
    try:
        importlib.import_module("pip._internal.utils._log").init_logging()
        session, links = _wheel_links(task["project"], task["wheel"])
    except Refusal as refusal:
        return _refused(refusal)
    except (ImportError, AttributeError, TypeError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return NO_SUCH_PIP
    if not links:
        _say(missing=True)
        return 1
    link = next((link for link in links if getattr(link, "hash", None) == task["sha256"]), links[0])
    _say(url=public_url(link.url))
    if link.is_file:
        _say(file=link.file_path)
        return 0

    def get(url: str, headers: dict[str, str]) -> Any:
        return session.get(url, headers=headers, stream=True)

    try:
        fetched: Fetched = download(
            get, link.url_without_fragment, Path(task["partial"]), expected=task["bytes"], progress=_progress
        )
    except Refusal as refusal:
        return _refused(refusal)
    _say(joined=fetched.joined)
    return 0


def _refused(refusal: Refusal) -> int:
    _say(refusal=refusal.as_dict(), status=refusal.status, exit_code=refusal.exit_code)
    return 1


if __name__ == "__main__":
    raise SystemExit(run(json.loads(sys.argv[1])))
