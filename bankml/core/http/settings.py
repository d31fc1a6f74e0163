# SPDX-License-Identifier: MIT OR Apache-2.0
"""Settings of a server, and its limits."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from bankml.refusal import EXIT_OTHER, Refusal

DEFAULT_LISTEN = "127.0.0.1:18093"
MAX_BODY = 16 << 20
MAX_BODIES = 64 << 20
"""Bytes of bodies that are received or read at once; further ones wait in the network."""
MAX_CONNECTIONS = 32
MAX_LINE = 16 << 10
MAX_HEADERS = 100
READ_SECONDS = 30.0
WRITE_SECONDS = 120.0
DRAIN_SECONDS = 0.2
STOP_SECONDS = 3.0

_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[^\[\]:]+)):(?P<port>\d{1,5})")
_LOOPBACK_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?", re.IGNORECASE)
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:]+)(?::\d{1,5})?")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")


@dataclass(frozen=True)
class Settings:
    """What the command line decides.

    Attributes:
        allow_origin: origins whose pages may read answers, compared as whole strings.
        quiet: no log row for each request.
        llama_threads: named in receipts.
        threads: bankml's own, shown by ``/bankml``; None for all cores.
        read_seconds: so long a client may take for its request, or stay silent.
        write_seconds: so long a client may take nothing of its answer.
    """

    host: str = "127.0.0.1"
    port: int = 18093
    allow_origin: frozenset[str] = field(default=frozenset())
    quiet: bool = False
    llama_threads: int = 3
    threads: int | None = None
    read_seconds: float = READ_SECONDS
    write_seconds: float = WRITE_SECONDS

    @property
    def address(self) -> str:
        """Host and port as a URL has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def answers_to(self, header: str) -> bool:
        """Whether a Host header names the loopback interface: a page under another name must not reach the server by it."""
        if is_loopback_host(header):
            return True
        match = _HOST.fullmatch(header)
        return match is not None and match[1].strip("[]").lower() == self.host.lower()


def listen_address(text: str) -> tuple[str, int]:
    """The host and port of ``HOST:PORT``; the host must be the loopback interface.

    Raises:
        Refusal: it is not (exit code 1): answers would be open to the network, or every client refused by its Host header.
    """
    match = _ADDRESS.fullmatch(text)
    port = int(match["port"]) if match else 0
    if match is None or port > 65535:
        raise Refusal(
            "serve.listen",
            "--listen is not HOST:PORT",
            found=text,
            allowed=f"for example {DEFAULT_LISTEN} or [::1]:18093",
            exit_code=EXIT_OTHER,
        )
    host = match["v6"] or match["name"]
    if host.lower() == "localhost":
        return "127.0.0.1", port
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise Refusal(
            "serve.listen",
            "bankml serve answers loopback clients only",
            found=text,
            allowed="127.0.0.1, localhost or [::1]",
            hint="to serve a network, put a proxy with its own access rules in front",
            exit_code=EXIT_OTHER,
        )
    return host, port


def origins(texts: Iterable[str]) -> frozenset[str]:
    """The origins that ``--allow-origin`` names, several of them with commas between.

    Raises:
        Refusal: one of them is no origin that a browser sends (exit code 1).
    """
    found = frozenset(origin for text in texts for origin in text.split(",") if origin)
    for origin in sorted(found):
        if not _ORIGIN.fullmatch(origin):
            raise Refusal(
                "serve.origin",
                "--allow-origin is not an origin",
                found=origin[:100],
                allowed="SCHEME://HOST or SCHEME://HOST:PORT in lower case, without a path",
                exit_code=EXIT_OTHER,
            )
    return found


def is_loopback_host(header: str) -> bool:
    """Whether a Host header is one of the usual names of the loopback interface."""
    return _LOOPBACK_HOST.fullmatch(header) is not None
