# SPDX-License-Identifier: MIT OR Apache-2.0
"""The loopback rules and the limits, over real sockets."""

from __future__ import annotations

import pytest

from bankml.core.http.settings import Settings, is_loopback_host, listen_address, origins
from bankml.refusal import Refusal

from .conftest import Served

GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:18093", "localhost", "LOCALHOST:1", "[::1]", "[::1]:18093"])
def test_loopback_hosts_are_answered(served: Served, host: str) -> None:
    assert served.get("/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["example.com", "127.0.0.1.example.com", "localhost.", "127.0.0.1@x", "0.0.0.0", "::1", "127.1", ""]
)
def test_other_hosts_are_refused(served: Served, host: str) -> None:
    answer = served.get("/health", headers={"Host": host})
    assert answer.status_code == 403
    assert answer.json()["error"]["message"] == "bankml serve: loopback clients only"
    assert not is_loopback_host(host)


def test_a_chunked_request_is_refused(served: Served) -> None:
    answer = served.raw(
        b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    )
    assert status(answer) == 400
    assert b"Content-Length" in answer


@pytest.mark.parametrize("kind", ["text/plain", "", "application/x-www-form-urlencoded"])
def test_a_post_must_say_that_it_is_json(served: Served, kind: str) -> None:
    answer = served.post("/tokenize", b"{}", headers={"Content-Type": kind})
    assert answer.status_code == 415
    assert answer.json()["error"]["message"] == "POST bodies must be Content-Type: application/json"
    assert served.post("/tokenize", b"{}", headers={"Content-Type": "application/json; charset=utf-8"}).status_code == 200


def test_a_body_of_16_mib_is_the_largest(served: Served) -> None:
    fits = b'{"content":"' + b" " * ((16 << 20) - 14) + b'"}'
    assert len(fits) == 16 << 20
    answer = served.post("/detokenize", fits)
    assert answer.status_code == 200, answer.text
    answer = served.post("/detokenize", fits + b" ")
    assert answer.status_code == 413
    assert "request too large" in answer.json()["error"]["message"]


def test_header_limits(served: Served) -> None:
    end = b"Connection: close\r\n\r\n"
    assert status(served.raw(GET + b"X: " + b"a" * 16_000 + b"\r\n" + end)) == 200
    assert status(served.raw(GET + b"X: " + b"a" * 17_000 + b"\r\n" + end)) == 400
    assert status(served.raw(GET + b"".join(b"X%d: 1\r\n" % n for n in range(98)) + end)) == 200
    assert status(served.raw(GET + b"".join(b"X%d: 1\r\n" % n for n in range(99)) + end)) == 400
    long_line = GET.replace(b"/health", b"/health?" + b"q" * 17_000)
    assert status(served.raw(long_line + end)) == 400
    assert status(served.raw(GET + (b"X: " + b"a" * 60_000 + b"\r\n") * 40)) == 400


@pytest.mark.parametrize(
    "sent", [b"hello\r\n\r\n", b"GET /\r\n\r\n", b"GET /health HTTP/1.1\r\nHost: localhost\r\nbad header\r\n\r\n"]
)
def test_what_is_no_http_gets_a_400(served: Served, sent: bytes) -> None:
    answer = served.raw(sent)
    assert status(answer) == 400
    assert b"invalid_request_error" in answer


def test_cors(served: Served) -> None:
    allowed = {
        "Origin": "https://allowed.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Private-Network": "true",
    }
    answer = served.session.options(served.base + "/v1/chat/completions", headers=allowed)
    assert answer.status_code == 204
    assert answer.headers["Access-Control-Allow-Origin"] == "https://allowed.example"
    assert answer.headers["Access-Control-Allow-Private-Network"] == "true"
    assert served.get("/health", headers=allowed).headers["Access-Control-Allow-Origin"] == "https://allowed.example"
    for origin in ("https://allowed.example.evil", "https://x.allowed.example", "null", "http://allowed.example"):
        answer = served.session.options(served.base + "/v1/chat/completions", headers={**allowed, "Origin": origin})
        assert answer.status_code == 403
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert "Access-Control-Allow-Origin" not in served.get("/health", headers={"Origin": origin}).headers


def test_the_listeners_own_address_is_answered() -> None:
    settings = Settings(host="127.0.0.2", port=80)
    assert settings.answers_to("127.0.0.2")
    assert settings.answers_to("127.0.0.2:80")
    assert settings.answers_to("localhost")
    assert not settings.answers_to("127.0.0.3")
    assert not settings.answers_to("127.0.0.2.example.com")
    assert Settings(host="::1", port=80).answers_to("[::1]:80")


@pytest.mark.parametrize(
    "text",
    ["*", "null", "https://page.example/", "file://", "page.example", "https://Page.example", "https://a b", "https://x/y"],
)
def test_only_what_a_browser_sends_is_an_origin(text: str) -> None:
    with pytest.raises(Refusal) as caught:
        origins(["https://allowed.example", text])
    assert caught.value.exit_code == 1
    assert caught.value.found == text


def test_origins() -> None:
    asked = ["https://a.example,http://localhost:3000", "", "http://[::1]:8080"]
    assert origins(asked) == {"https://a.example", "http://localhost:3000", "http://[::1]:8080"}


@pytest.mark.parametrize("kind", ["application/jsonp", "application/json5; x"])
def test_other_types_that_begin_alike_are_refused(served: Served, kind: str) -> None:
    assert served.post("/tokenize", b"{}", headers={"Content-Type": kind}).status_code == 415


@pytest.mark.parametrize(
    "text", ["0.0.0.0:1", "192.168.0.1:80", "example.com:80", "127.0.0.1", ":80", "127.0.0.1:70000", "[::]:80", ""]
)
def test_only_loopback_addresses_are_listened_on(text: str) -> None:
    with pytest.raises(Refusal) as caught:
        listen_address(text)
    assert caught.value.exit_code == 1


def test_listen_addresses() -> None:
    assert listen_address("127.0.0.1:18093") == ("127.0.0.1", 18093)
    assert listen_address("localhost:80") == ("127.0.0.1", 80)
    assert listen_address("[::1]:80") == ("::1", 80)
