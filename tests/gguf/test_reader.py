# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files as they are read and written."""

import hashlib
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bankml.core.gguf import limits
from bankml.core.gguf.guard import judge
from bankml.core.gguf.header import Text, Truncated
from bankml.core.gguf.reader import GgufFile, read_header
from bankml.core.gguf.types import ARRAY, BOOL, F32, F64, I8, I16, I32, I64, STRING, TYPES, U8, U16, U32, U64
from bankml.core.gguf.writer import Tensor, write_gguf
from bankml.core.refusal import Refusal

SCALARS = [
    ("u8", U8, 255), ("i8", I8, -128), ("u16", U16, 65535), ("i16", I16, -32768), ("u32", U32, 2**32 - 1),
    ("i32", I32, -(2**31)), ("f32", F32, 1.5), ("bool", BOOL, True), ("str", STRING, "é\n😀"), ("empty", STRING, ""),
    ("u64", U64, 2**64 - 1), ("i64", I64, -(2**63)), ("f64", F64, 0.1),
]  # fmt: skip
ARRAYS = [(f"{key}s", (ARRAY, kind), [value, value, value]) for key, kind, value in SCALARS]
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
KEYS = st.lists(TEXTS.filter(bool), unique=True, max_size=6)


def write(path, kv=(), tensors=()):
    write_gguf(path, list(kv), list(tensors))
    return path


def test_every_value_type_round_trips(tmp_path):
    path = write(tmp_path / "m.gguf", [*SCALARS, *ARRAYS, ("none", (ARRAY, U32), [])])
    with GgufFile.open(path) as file:
        assert {key: file.kv[key] for key, _, _ in SCALARS} == {key: value for key, _, value in SCALARS}
        assert {key: file.kv[key] for key, _, _ in ARRAYS} == {key: value for key, _, value in ARRAYS}
        assert file.get("none") == []
        assert file.get("absent") is None
        assert file.get("absent", 3) == 3
        assert file.kv["strs"] is file.kv["strs"]
        assert file.raw_strings("strs") == ["é\n😀".encode()] * 3
        with pytest.raises(KeyError):
            file.raw_strings("u8s")
        with pytest.raises(KeyError):
            file.raw_strings("str")


def test_tensors_are_read_only_views_of_the_file(tmp_path):
    weights = np.arange(64, dtype=np.float32).reshape(2, 32)
    tensors = [("a", (32, 2), 0, weights), ("q", (32,), 8, bytes(range(34))), ("b", (3,), 24, b"\1\2\3")]
    file = GgufFile.open(write(tmp_path / "m.gguf", [("general.alignment", U32, 64)], tensors))
    assert list(file.tensors) == ["a", "q", "b"]
    assert file.tensors["a"].dims == (32, 2)
    assert [each.offset % 64 for each in file.tensors.values()] == [0, 0, 0]
    view = file.data("a")
    assert view.view(np.float32).tolist() == weights.ravel().tolist()
    assert bytes(file.data("q")) == bytes(range(34))
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    with pytest.raises(KeyError):
        file.data("c")
    file.close()
    assert view.view(np.float32)[63] == 63


def test_a_long_string_is_read_when_it_is_asked_for(tmp_path):
    text = "é" * limits.KEPT_TEXT
    path = write(tmp_path / "m.gguf", [("long", STRING, text), ("short", STRING, "x")])
    with GgufFile.open(path) as file:
        assert isinstance(file.header.entries["long"].value, Text)
        assert file.kv["long"] == text
        assert file.kv["short"] == "x"


@pytest.mark.parametrize(
    ("end", "code", "place"),
    [(b"\xc3", "gguf.string-utf8", -1), (b"\xffabc", "gguf.string-utf8", -4), (b"a\0b", "gguf.string-nul", -2)],
)
def test_a_long_string_is_checked(tmp_path, end, code, place):
    path = write(tmp_path / "m.gguf", [("long", STRING, b"\xc3\xa9" * limits.KEPT_TEXT + end)])
    (reason,) = judge(path).reasons
    assert reason.code == code
    assert reason.where.startswith(f"offset {path.stat().st_size + place},")


def test_array_strings_that_are_not_utf8_are_refused_when_they_are_read_as_text(tmp_path):
    path = write(tmp_path / "m.gguf", [("tokens", (ARRAY, STRING), ["a", b"b\xff"])])
    with GgufFile.open(path) as file:
        assert file.raw_strings("tokens") == [b"a", b"b\xff"]
        with pytest.raises(Refusal) as caught:
            file.get("tokens")
        assert caught.value.code == "gguf.string-utf8"
        assert path.read_bytes()[int(caught.value.where.split(",")[0].split()[1])] == 0xFF


def test_open_refuses_what_the_guard_refuses(tmp_path):
    place = tmp_path / "m.gguf"
    place.write_bytes(b"GGUF")
    with pytest.raises(Truncated) as caught:
        GgufFile.open(place)
    assert caught.value.exit_code == 3
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(Refusal) as caught:
            GgufFile.open(path)
        assert caught.value.code == "gguf.unreadable"
        assert caught.value.exit_code == 1


def test_open_gives_all_reasons_together(tmp_path):
    kv = [("general.architecture", STRING, "llama"), ("general.name", U32, 1), ("llama.block_count", U32, 0)]
    with pytest.raises(Refusal) as caught:
        GgufFile.open(write(tmp_path / "m.gguf", kv))
    assert caught.value.message == 'the number of layers is out of range; "general.name" is of the wrong type'
    assert [reason["code"] for reason in caught.value.extra["reasons"]] == ["gguf.block-count", "gguf.key-type"]


def test_read_header_of_a_prefix():
    with pytest.raises(Truncated) as caught:
        read_header(memoryview(b"GGUF\3\0\0\0"))
    assert caught.value.need == 16


def test_a_vocabulary_of_150k_tokens_is_quick(tmp_path):
    tokens = [f"tok{i}é" for i in range(150_000)]
    merges = [f"a{i} b{i}" for i in range(150_000)]
    kv = [
        ("tokenizer.ggml.tokens", (ARRAY, STRING), tokens),
        ("tokenizer.ggml.scores", (ARRAY, F32), [0.5] * 150_000),
        ("tokenizer.ggml.token_type", (ARRAY, I32), [1] * 150_000),
        ("tokenizer.ggml.merges", (ARRAY, STRING), merges),
    ]
    path = write(tmp_path / "m.gguf", kv)
    opening, reading = [], []
    for _ in range(3):
        started = time.process_time()
        with GgufFile.open(path) as file:
            opening.append(time.process_time() - started)
            started = time.process_time()
            assert [file.kv[key] for key, _, _ in kv] == [value for _, _, value in kv]
            reading.append(time.process_time() - started)
    assert min(opening) < 0.4
    assert min(reading) < 0.4


def test_the_real_model_is_written_again_bit_for_bit(smollm2, tmp_path):
    with GgufFile.open(smollm2) as file:
        kinds = {
            key: (ARRAY, entry.value.type) if entry.type == ARRAY else entry.type for key, entry in file.header.entries.items()
        }
        kv = [(key, kinds[key], file.kv[key]) for key in file.kv]
        tensors = [Tensor(each.name, each.dims, each.type_id, file.data(each.name)) for each in file.tensors.values()]
        write_gguf(tmp_path / "again.gguf", kv, tensors)
        del tensors
    assert hashlib.sha256((tmp_path / "again.gguf").read_bytes()).hexdigest() == (
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    )


@pytest.mark.parametrize(
    "kv",
    [
        [("a", U8, 256)],
        [("a", U32, "x")],
        [("a", BOOL, 1)],
        [("a", STRING, 3)],
        [("a", STRING, "\ud800")],
        [("a", ARRAY, [1])],
        [("a", (ARRAY, ARRAY), [[1]])],
        [("a", (ARRAY, U8), 3)],
        [("a", 99, 3)],
        [("", U8, 3)],
        [("a\0", U8, 3)],
        [("a", U8, 3), ("a", U8, 3)],
        [("general.alignment", U32, 24)],
        [("general.alignment", U64, 32)],
    ],
)
def test_writer_refuses_pairs(tmp_path, kv):
    with pytest.raises(Refusal, match="cannot write the file"):
        write(tmp_path / "m.gguf", kv)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "tensors",
    [
        [("a", (32,), 8, bytes(33))],
        [("a", (33,), 8, bytes(34))],
        [("a", (32,), 4, bytes(34))],
        [("a", (), 0, bytes(4))],
        [("a", (1, 1, 1, 1, 1), 0, bytes(4))],
        [("a", (0,), 0, b"")],
        [("a" * 64, (1,), 0, bytes(4))],
        [("a", (1,), 0, bytes(4)), ("a", (1,), 0, bytes(4))],
    ],
)
def test_writer_refuses_tensors(tmp_path, tensors):
    with pytest.raises(Refusal, match="cannot write the file"):
        write(tmp_path / "m.gguf", [], tensors)
    assert list(tmp_path.iterdir()) == []


def test_writer_replaces_the_old_file_whole_or_not_at_all(tmp_path, monkeypatch):
    path = write(tmp_path / "m.gguf", [("a", U8, 1)])
    old = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bankml.core.gguf.atomic.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(path, [("a", U8, 2)])
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


@st.composite
def numbers(draw):
    kind, low, high = draw(st.sampled_from([(U8, 0, 2**8 - 1), (I16, -(2**15), 2**15 - 1), (U64, 0, 2**64 - 1)]))
    values = draw(st.lists(st.integers(low, high), max_size=5))
    return ((ARRAY, kind), values)


@given(
    keys=KEYS,
    names=st.lists(TEXTS.filter(lambda text: 0 < len(text.encode()) < 64), unique=True, max_size=5),
    alignment=st.sampled_from([32, 64, 256]),
    data=st.data(),
)
def test_what_is_written_plays_and_is_read_back(tmp_path_factory, keys, names, alignment, data):
    values = st.one_of(
        st.tuples(st.just(STRING), TEXTS),
        st.tuples(st.just(F64), st.floats(allow_nan=False)),
        st.tuples(st.just((ARRAY, STRING)), st.lists(TEXTS, max_size=5)),
        numbers(),
    )
    kv = [(f"k.{key}", *data.draw(values)) for key in keys]
    tensors = []
    for name in names:
        kind = data.draw(st.sampled_from(sorted(TYPES)))
        rows = data.draw(st.integers(1, 3))
        tensors.append((name, (TYPES[kind].block * 2, rows), kind, bytes([kind]) * (TYPES[kind].bytes * 2 * rows)))
    path = tmp_path_factory.mktemp("written") / "m.gguf"
    write_gguf(path, [("general.alignment", U32, alignment), *kv], tensors)
    with GgufFile.open(path) as file:
        assert [(key, file.kv[key]) for key, _, _ in kv] == [(key, value) for key, _, value in kv]
        assert [(each.name, each.dims, each.type_id, bytes(file.data(each.name))) for each in file.tensors.values()] == tensors
