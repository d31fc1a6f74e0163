# SPDX-License-Identifier: MIT OR Apache-2.0
from hypothesis import given, settings
from hypothesis import strategies as st

from bankml.core.engine.release import Release, cut_character, partial_stop


def cut_into(data, text):
    at = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return [text[a:b] for a, b in zip([0, *at], [*at, len(text)], strict=True)]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40), st.data())
def test_only_whole_characters_leave_and_all_of_them_do(text, data):
    release = Release()
    sent = [release.push(piece) for piece in cut_into(data, text.encode())]
    for each in sent:
        each.decode()
    assert b"".join(sent).decode() == text


@settings(max_examples=300, deadline=None)
@given(st.text("ab€", max_size=30), st.lists(st.text("ab€", min_size=1, max_size=4), min_size=1, max_size=3), st.data())
def test_no_stop_string_is_ever_sent(text, stop, data):
    release = Release(stop)
    sent = b""
    for piece in cut_into(data, text.encode()):
        sent += release.push(piece)
        if release.stop_word is not None:
            break
    else:
        sent += release.push(b"", ends=True)
        assert sent.decode() == text
    # A token of many characters may hold a whole stop string and the beginning of an earlier one.
    assert text.encode().startswith(sent)
    assert sent.decode() == release.text.decode()
    if release.stop_word is not None:
        assert release.stop_word in stop
        assert text[len(sent.decode()) :].startswith(release.stop_word)


def test_withheld_until_it_cannot_become_the_stop_string():
    release = Release(["all-timid"])
    assert [release.push(piece) for piece in (b"by", b"-", b"all", b"-", b"tim", b"e")] == [
        b"by",
        b"-",
        b"",
        b"",
        b"",
        b"all-time",
    ]


def test_end_token_lets_go_of_what_was_withheld():
    release = Release(["stop"])
    assert release.push(b"st") == b""
    assert release.push(b"", ends=True) == b"st"


def test_limit_keeps_it_in_the_text_alone():
    release = Release(["stop"])
    assert release.push(b"a st") == b""
    assert release.text == b"a st"


def test_cut_character():
    assert [cut_character(b) for b in (b"", b"a", b"\xe2\x82\xac", b"\xe2\x82", b"\xe2", b"a\xf0\x9f\x98", b"\x82\x82")] == [
        0,
        0,
        0,
        2,
        1,
        3,
        0,
    ]


def test_partial_stop():
    assert partial_stop(b"hello wo", b"world") == 6
    assert partial_stop(b"aab", b"abc") == 1
    assert partial_stop(b"xyz", b"abc") == -1
    assert partial_stop(b"", b"abc") == -1
