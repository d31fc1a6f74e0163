# SPDX-License-Identifier: MIT OR Apache-2.0
"""Downloads from a real server that cuts, lies, refuses and redirects."""

import errno
import hashlib
from types import SimpleNamespace

import pytest
import requests

from bankml.core.pins import fetch, files
from bankml.core.pins.fetch import BLOCK as READ
from bankml.core.pins.fetch import download, public_url
from bankml.core.pins.web import check_url, getter
from bankml.core.refusal import Refusal
from tests.pins.web import Page, serving

# A cut costs the block that was being read, no more.
BODY = hashlib.shake_128(b"a download").digest(60 * READ + 17)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(fetch, "FIRST_PAUSE_S", 0.0)


@pytest.fixture
def partial(tmp_path):
    return tmp_path / "partial" / "m.gguf"


def fetch_page(page, partial, **options):
    with serving({"/m.gguf": page}) as web, requests.Session() as session:
        try:
            return download(getter(session), f"{web.url}/m.gguf", partial, **options), web
        except Refusal as refusal:
            return refusal, web


def ranges(web):
    return [asked for _, asked, _ in web.seen]


def test_a_whole_download(partial):
    told = []
    fetched, web = fetch_page(Page(BODY), partial, progress=lambda *words: told.append(words))
    assert (fetched.bytes, fetched.joined) == (len(BODY), False)
    assert partial.read_bytes() == BODY
    assert told[-1] == ("fetch m.gguf", len(BODY), len(BODY))
    assert ranges(web) == [None]


def test_it_goes_on_after_each_cut(partial):
    fetched, web = fetch_page(Page(BODY, cuts=[2 * READ + 5, READ, 5, 3]), partial)
    assert (fetched.bytes, fetched.joined) == (len(BODY), True)
    assert partial.read_bytes() == BODY
    assert ranges(web) == [None, *(f"bytes={blocks * READ}-" for blocks in (2, 3, 3, 3))]
    assert {condition for _, _, condition in web.seen[1:]} == {'"1"'}


def test_a_later_run_goes_on_from_there(partial):
    page = Page(BODY, cuts=[READ] + [0] * 20)
    with serving({"/m.gguf": page}) as web, requests.Session() as session:
        with pytest.raises(Refusal, match="did not come whole") as caught:
            download(getter(session), f"{web.url}/m.gguf", partial)
        assert "the same command goes on" in caught.value.hint
        assert (caught.value.exit_code, caught.value.found.split(";")[0]) == (1, f"{READ} of {len(BODY)} bytes")
        assert partial.read_bytes() == BODY[:READ]
        web.seen.clear()
        page.cuts.clear()
        download(getter(session), f"{web.url}/m.gguf", partial)
        assert partial.read_bytes() == BODY
        assert ranges(web) == [f"bytes={READ}-"]
        web.seen.clear()
        assert download(getter(session), f"{web.url}/m.gguf", partial).joined
        assert web.seen == []


def test_another_file_on_the_server_is_fetched_from_the_start(partial):
    page = Page(BODY, cuts=[READ] + [0] * 20)
    other = BODY[::-1]
    with serving({"/m.gguf": page}) as web, requests.Session() as session:
        with pytest.raises(Refusal):
            download(getter(session), f"{web.url}/m.gguf", partial)
        web.pages["/m.gguf"] = Page(other, etag='"2"')
        assert not download(getter(session), f"{web.url}/m.gguf", partial).joined
    assert partial.read_bytes() == other


def test_a_part_of_another_url_is_not_used(partial):
    fetch_page(Page(BODY, cuts=[READ] + [0] * 20), partial)
    fetched, web = fetch_page(Page(BODY), partial)
    assert (fetched.joined, ranges(web)) == (False, [None])


def test_a_server_without_ranges_starts_over(partial):
    fetched, web = fetch_page(Page(BODY, ranges=False, cuts=[1000, 2000]), partial)
    assert (fetched.bytes, fetched.joined) == (len(BODY), False)
    assert partial.read_bytes() == BODY
    assert len(web.seen) == 3


@pytest.mark.parametrize("shift", [7, -7, 1, -1, -READ])
def test_a_server_that_answers_another_range_is_not_believed(partial, shift):
    _, web = fetch_page(Page(BODY, shift=shift, cuts=[READ]), partial)
    assert partial.read_bytes() == BODY
    assert ranges(web) == [None, f"bytes={READ}-", None]


def test_a_weak_tag_is_no_condition_for_a_range(partial):
    """Two files may have the same weak tag. Source: RFC 9110 section 13.1.5."""
    _, web = fetch_page(Page(BODY, etag='W/"1"', cuts=[READ]), partial)
    assert partial.read_bytes() == BODY
    assert [(asked, condition) for _, asked, condition in web.seen] == [(None, None), (f"bytes={READ}-", None)]


def test_a_shrunken_file_starts_over(partial):
    page = Page(BODY, cuts=[READ] + [0] * 20)
    with serving({"/m.gguf": page}) as web, requests.Session() as session:
        with pytest.raises(Refusal):
            download(getter(session), f"{web.url}/m.gguf", partial)
        web.pages["/m.gguf"] = Page(BODY[:10])
        download(getter(session), f"{web.url}/m.gguf", partial)
    assert partial.read_bytes() == BODY[:10]


def test_chunks_without_a_length(partial):
    fetched, _ = fetch_page(Page(BODY, chunked=True), partial)
    assert (fetched.bytes, partial.read_bytes()) == (len(BODY), BODY)
    fetched, web = fetch_page(Page(BODY, chunked=True, cuts=[READ]), partial.with_name("n.gguf"))
    assert partial.with_name("n.gguf").read_bytes() == BODY
    assert ranges(web) == [None, f"bytes={READ}-"]


def test_a_length_that_is_a_lie(partial):
    refusal, web = fetch_page(Page(BODY, announce=len(BODY) + 1), partial)
    assert (refusal.code, refusal.exit_code) == ("fetch.cut", 1)
    assert len(web.seen) <= fetch.STALLED_ATTEMPTS + 1
    refusal, web = fetch_page(Page(BODY), partial, expected=len(BODY) - 1)
    assert (refusal.code, refusal.exit_code, len(web.seen)) == ("fetch.size", 2, 1)
    assert not partial.exists()
    refusal, _ = fetch_page(Page(BODY, chunked=True), partial, expected=1000)
    assert refusal.code == "fetch.size"
    assert left(partial) == []


def left(partial):
    return list(partial.parent.iterdir())


def test_more_than_the_disk_holds_is_refused_before_the_first_byte(partial):
    refusal, _ = fetch_page(Page(BODY, announce=10**18), partial)
    assert (refusal.code, refusal.exit_code) == ("disk.full", 1)
    assert "bytes free" in refusal.found
    assert left(partial) == []


@pytest.mark.parametrize("page", [Page(endless=True), Page(BODY, chunked=True), Page(BODY)], ids=["endless", "chunked", "length"])
def test_a_disk_keeps_some_space_and_no_part(partial, monkeypatch, page):
    """A disk of 4 MB, which takes up what is written to it; a sixteenth of it is for others."""
    least = []

    def usage(folder):
        free = 600_000 - sum(path.stat().st_size for path in folder.iterdir())
        least.append(free)
        return SimpleNamespace(total=4_000_000, used=4_000_000 - free, free=free)

    monkeypatch.setattr(fetch, "_LOOK_EVERY", 4 * READ)
    monkeypatch.setattr(files.shutil, "disk_usage", usage)
    refusal, _ = fetch_page(page, partial)
    assert (refusal.code, refusal.exit_code) == ("disk.full", 1)
    assert refusal.message == "the disk is full: no space for m.gguf"
    assert min(least) >= 250_000
    assert left(partial) == []


def test_an_endless_body_ends_with_the_size_that_is_known(partial):
    refusal, _ = fetch_page(Page(endless=True), partial, expected=100_000)
    assert (refusal.code, refusal.allowed) == ("fetch.size", "100000 bytes")
    assert left(partial) == []


def test_a_disk_that_fills_up_meanwhile(partial, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(fetch, "_write", full)
    refusal, _ = fetch_page(Page(BODY), partial)
    assert (refusal.code, refusal.message) == ("disk.full", "the disk is full: no space left for m.gguf")
    assert left(partial) == []


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_server_that_is_busy_is_asked_again(partial, status):
    _, web = fetch_page(Page(BODY, statuses=[status, status]), partial)
    assert partial.read_bytes() == BODY
    assert len(web.seen) == 3


def test_there_is_an_end_to_asking_again(partial):
    refusal, web = fetch_page(Page(BODY, statuses=[503] * 99), partial)
    assert (refusal.code, refusal.exit_code) == ("fetch.cut", 1)
    assert len(web.seen) == fetch.STALLED_ATTEMPTS
    assert left(partial) == []


@pytest.mark.parametrize(("said", "pause"), [("999999", 20.0), ("3", 3.0), ("9" * 30, 0.0), ("-1", 0.0), ("soon", 0.0)])
def test_a_server_decides_on_a_pause_within_limits(partial, monkeypatch, said, pause):
    pauses = []
    monkeypatch.setattr(fetch.time, "sleep", pauses.append)
    fetch_page(Page(BODY, statuses=[503], retry_after=said), partial)
    assert partial.read_bytes() == BODY
    assert pauses == [pause]


def test_progress_byte_by_byte_has_an_end_too(partial):
    refusal, web = fetch_page(Page(BODY, cuts=[READ] * 999), partial)
    assert refusal.code == "fetch.cut"
    assert len(web.seen) == fetch.MOST_ATTEMPTS


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 206, 304])
def test_a_no_is_a_no(partial, status):
    refusal, web = fetch_page(Page(BODY, statuses=[status]), partial)
    assert refusal.code == "fetch.status"
    assert f"HTTP {status}" in refusal.message
    assert len(web.seen) == 1
    assert left(partial) == []


def test_a_no_takes_nothing_that_came_before(partial):
    with serving({"/m.gguf": Page(BODY, cuts=[READ] + [0] * 20)}) as web, requests.Session() as session:
        url = f"{web.url}/m.gguf"
        with pytest.raises(Refusal, match="did not come whole"):
            download(getter(session), url, partial)
        web.pages["/m.gguf"] = Page(BODY, statuses=[403])
        with pytest.raises(Refusal, match="HTTP 403"):
            download(getter(session), url, partial)
        assert partial.read_bytes() == BODY[:READ]
        assert download(getter(session), url, partial).joined
    assert partial.read_bytes() == BODY


def test_an_encoded_body_is_refused(partial):
    refusal, _ = fetch_page(Page(BODY, encoding="gzip"), partial)
    assert refusal.code == "fetch.encoding"


def test_nobody_listens(partial):
    with serving({}) as web:
        url = f"{web.url}/m.gguf"
    with requests.Session() as session, pytest.raises(Refusal, match="did not come whole") as caught:
        download(getter(session), url, partial)
    assert "Connection" in caught.value.found
    assert left(partial) == []


def test_redirects(partial):
    pages = {"/a": Page(location="/b"), "/b": Page(location="m.gguf"), "/m.gguf": Page(BODY)}
    pages |= {"/loop": Page(location="/loop"), "/away": Page(location="http://example.org/m.gguf")}
    pages |= {"/file": Page(location="file:///etc/passwd")}
    with serving(pages) as web, requests.Session() as session:
        get = getter(session)
        download(get, f"{web.url}/a", partial)
        assert partial.read_bytes() == BODY
        for page, code in (("/loop", "fetch.redirects"), ("/away", "fetch.url"), ("/file", "fetch.url")):
            with pytest.raises(Refusal) as caught:
                download(get, f"{web.url}{page}", partial)
            assert caught.value.code == code


def test_a_redirect_away_from_https_is_refused_even_to_this_machine():
    answer = SimpleNamespace(status_code=302, headers={"Location": "http://127.0.0.1/x"}, close=lambda: None)
    session = SimpleNamespace(headers={}, get=lambda *_, **__: answer)
    with pytest.raises(Refusal, match=r"http://127\.0\.0\.1/x is not fetched") as caught:
        getter(session)("https://example.org/m.gguf", {})
    assert "away from https" in caught.value.found


@pytest.mark.parametrize(
    "url", ["https://example.org/a", "http://127.0.0.1/a", "http://[::1]:8/a", "http://localhost:1/a", "http://127.9.9.9/a"]
)
def test_urls_that_are_asked(url):
    check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/a",
        "http://10.0.0.1/a",
        "http://0.0.0.0/a",
        "http://localhost.example.org/a",
        "http://127.0.0.1@example.org/a",
        "http://example.org\\@127.0.0.1/a",
        "ftp://example.org/a",
        "file:///a",
        "https:///a",
        "https://a b/c",
        "https://a/\n",
        "https://[::1/a",
        "https://a:x/b",
    ],
)
def test_urls_that_are_not(url):
    with pytest.raises(Refusal) as caught:
        check_url(url)
    assert caught.value.code == "fetch.url"


def test_secrets_in_a_url_are_not_kept():
    assert public_url("https://me:secret@example.org/a/m.gguf?token=t#f") == "https://example.org/a/m.gguf"


def test_a_certificate_that_does_not_hold_is_final(partial):
    class SSLError(OSError):
        pass

    def get(*_):
        raise SSLError("self-signed")

    with pytest.raises(Refusal) as caught:
        download(get, "https://example.org/m.gguf", partial)
    assert caught.value.code == "fetch.tls"
