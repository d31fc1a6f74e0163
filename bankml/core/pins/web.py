# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which URLs bankml asks, and how: https anywhere, plain http on this machine only, redirects held to the same rule."""

from __future__ import annotations

import ipaddress
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from bankml import __version__
from bankml.core.pins.fetch import Get, public_url
from bankml.refusal import Refusal

if TYPE_CHECKING:
    import requests

MOST_REDIRECTS = 10
TIMEOUT_S = (15.0, 60.0)
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


def check_url(url: str) -> None:
    """Let through ``https://`` and, on a loopback address, ``http://``.

    Raises:
        Refusal: code ``fetch.url``.
    """
    if any(c.isspace() or not c.isprintable() or c == "\\" for c in url):
        raise _bad_url(url, "a space, a control character or a backslash")
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError as error:
        raise _bad_url(url, str(error)) from error
    if not host:
        raise _bad_url(url, "no host")
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)):
        return
    raise _bad_url(url, f"{parts.scheme}:// to {host}")


def is_loopback(host: str) -> bool:
    """Whether a host, as it is written, is this machine; no name is looked up."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def getter(session: requests.Session) -> Get:
    """Ask through ``session``, following redirects only from https to https, or from this machine to anywhere allowed.

    The proxies, certificates and credentials of the environment apply (``HTTPS_PROXY``, ``REQUESTS_CA_BUNDLE``, netrc; for the
    certificates also ``PIP_CERT`` and ``SSL_CERT_FILE``), but never on the way to a loopback address.
    """
    session.headers["User-Agent"] = f"bankml/{__version__}"

    def get(url: str, headers: dict[str, str]) -> Any:
        for _ in range(MOST_REDIRECTS + 1):
            check_url(url)
            session.trust_env = not is_loopback(urlsplit(url).hostname or "")
            response = session.get(
                url, headers=headers, stream=True, allow_redirects=False, timeout=TIMEOUT_S, verify=_certificates()
            )
            if response.status_code not in _REDIRECTS:
                return response
            target = urljoin(url, response.headers.get("Location", ""))
            response.close()
            if urlsplit(url).scheme == "https" and urlsplit(target).scheme != "https":
                raise _bad_url(target, f"a redirect from {public_url(url)} away from https")
            url = target
        raise Refusal("fetch.redirects", f"{public_url(url)}: more than {MOST_REDIRECTS} redirects", status=502)

    return get


def _certificates() -> str | bool:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "SSL_CERT_FILE"):
        path = os.environ.get(name)
        if path:
            return path
    return True


def _bad_url(url: str, found: str) -> Refusal:
    return Refusal(
        "fetch.url",
        f"{public_url(url)[:300]} is not fetched",
        found=found[:300],
        allowed="https://, or http:// to a loopback address such as 127.0.0.1",
    )
