# SPDX-License-Identifier: MIT OR Apache-2.0
"""A real HTTP server on a loopback port, that misbehaves as it is told."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Page:
    """What stands under one path, and how it is given out.

    Args:
        shift: so many bytes later (or earlier) than asked for a range begins, and says so.
        endless: no length is announced, and the body goes on until the client has enough.
        retry_after: what an answer with a status of ``statuses`` says about when to come again.
        cuts: the connection is closed after that many bytes of the body; one number for each request, None: it is not cut.
        statuses: answered with these statuses first, one a request, before anything else.
    """

    body: bytes = b""
    etag: str | None = '"1"'
    ranges: bool = True
    announce: int | None = None
    chunked: bool = False
    location: str | None = None
    content_type: str = "application/octet-stream"
    encoding: str | None = None
    shift: int = 0
    endless: bool = False
    retry_after: str = "0"
    cuts: list[int | None] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)


@dataclass
class Web:
    """The server's address, its pages, and the requests that it saw as (path, Range, If-Range)."""

    url: str
    pages: dict[str, Page]
    seen: list[tuple[str, str | None, str | None]]


@contextmanager
def serving(pages: dict[str, Page]) -> Iterator[Web]:
    """Serve the pages until the block ends."""
    seen: list[tuple[str, str | None, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def end_headers(self) -> None:
            self.send_header("Connection", "close")
            super().end_headers()

        def log_message(self, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            seen.append((self.path, self.headers["Range"], self.headers["If-Range"]))
            page = pages.get(path)
            if page is None:
                self.send_error(404)
                return
            if page.statuses:
                self.send_response(page.statuses.pop(0))
                self.send_header("Content-Length", "0")
                self.send_header("Retry-After", page.retry_after)
                self.end_headers()
                return
            if page.location is not None:
                self.send_response(302)
                self.send_header("Location", page.location)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            start = self._start(page)
            if start is None:
                return
            body = page.body[start:]
            cut = page.cuts.pop(0) if page.cuts else None
            self.send_header("Content-Type", page.content_type)
            if page.etag is not None:
                self.send_header("ETag", page.etag)
            if page.encoding is not None:
                self.send_header("Content-Encoding", page.encoding)
            if page.endless:
                self.end_headers()
                with suppress(OSError):
                    while True:
                        self.wfile.write(b"x" * 65536)
                return
            if page.chunked:
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                sent = body if cut is None else body[:cut]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(sent), sent))
                if cut is None:
                    self.wfile.write(b"0\r\n\r\n")
                return
            self.send_header("Content-Length", str(len(body) if page.announce is None else page.announce))
            self.end_headers()
            self.wfile.write(body if cut is None else body[:cut])

        def _start(self, page: Page) -> int | None:
            wanted = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "")
            same = self.headers["If-Range"] in (None, page.etag)
            if wanted is None or not page.ranges or not same:
                self.send_response(200)
                return 0
            start = int(wanted[1])
            if start >= len(page.body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(page.body)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return None
            self.send_response(206)
            start += page.shift
            self.send_header("Content-Range", f"bytes {start}-{len(page.body) - 1}/{len(page.body)}")
            return start

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield Web(f"http://127.0.0.1:{server.server_port}", pages, seen)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
