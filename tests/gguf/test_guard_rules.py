# SPDX-License-Identifier: MIT OR Apache-2.0
"""The guard's rules, its report and its command."""

import json
import os
from pathlib import Path

import pytest

from bankml.core.gguf.guard import judge, judge_bytes
from bankml.core.gguf.types import BOOL, F32, I64, STRING, U16, U32, U64
from bankml.oracle.cases.guard import array, gguf, pair, tensor, text, u32, u64

KEYS = [
    "verdict", "engine", "gguf_version", "arch", "name", "tensors", "types", "kv_f16_bytes_per_token", "reasons", "refusals",
    "notes", "bytes", "trailing_bytes",
]  # fmt: skip


def shape(**numbers):
    """A header without tensors for the architecture x; a list gives an array, a pair a value of that type."""
    pairs = [pair("general.architecture", STRING, "x")]
    for name, value in numbers.items():
        key = "x." + ("attention." + name if name in ("key_length", "value_length") else name)
        key = key.replace("x.heads", "x.attention.head_count")
        if isinstance(value, list):
            pairs.append(array(key, U32, value))
        else:
            pairs.append(pair(key, *value) if isinstance(value, tuple) else pair(key, U32, value))
    return gguf(pairs)


def codes(data, engine="mainline", name=""):
    return [reason.code for reason in judge_bytes(data, engine, len(data), name).reasons]


def test_report_keys_and_a_minimal_file():
    report = judge_bytes(gguf(), size=32).as_dict()
    assert list(report) == KEYS
    assert report["verdict"] == "play"
    assert report["engine"] == "mainline"
    assert report["gguf_version"] == 3
    assert report["arch"] is None
    assert report["name"] is None
    assert report["types"] == {}
    assert report["kv_f16_bytes_per_token"] is None


def test_report_of_the_real_model(smollm2):
    report = judge(smollm2).as_dict()
    assert report["verdict"] == "play"
    assert report["arch"] == "llama"
    assert report["tensors"] == 272
    assert report["types"] == {"F32": 61, "Q4_1": 210, "Q8_0": 1}
    assert report["kv_f16_bytes_per_token"] == 30 * 3 * (64 + 64) * 2
    assert report["trailing_bytes"] == 0


def test_types_are_ordered_by_id():
    entries = [tensor("a", [128], 41, 0), tensor("b", [8], 0, 32), tensor("c", [16], 1, 64)]
    data = gguf([], entries, bytes(96))
    assert list(judge_bytes(data, size=len(data)).types.items()) == [("F32", 1), ("F16", 1), ("Q1_0", 1)]


@pytest.mark.parametrize("kind", [142, 143])
def test_fork_types_play_on_the_fork(kind):
    data = gguf([], [tensor("a", [128], kind, 0), tensor("b", [8], 0, 64)], bytes(96))
    (reason,) = judge_bytes(data, size=len(data)).reasons
    assert reason.message.startswith("PQ2_0/PTQ1_0 are PrismML-fork types")
    assert codes(data, "prism") == []
    assert codes(data, "anything else") == ["gguf.type-fork"]


def test_unknown_types_are_named_together_on_both_engines():
    data = gguf([], [tensor("a", [8], 77, 0), tensor("b", [8], 0, 32), tensor("c", [8], 43, 64)], bytes(96))
    for engine in ("mainline", "prism"):
        (reason,) = judge_bytes(data, engine, len(data)).reasons
        assert reason.message == "type ids [43, 77] unknown to every build this guard knows"


@pytest.mark.parametrize("label", ["Bonsai 2 8B", "bonsai2", "Ternary-BONSAI_-2", "x prism-fork-required y"])
@pytest.mark.parametrize("place", ["general.name", "general.basename", "file name"])
def test_rotated_weights_are_refused_by_label(label, place):
    data = gguf() if place == "file name" else gguf([pair(place, STRING, label)])
    name = label + ".gguf" if place == "file name" else "m.gguf"
    (reason,) = judge_bytes(data, "mainline", len(data), name).reasons
    assert reason.message.startswith("Bonsai 2 weights are in a rotated basis")
    assert codes(data, "prism", name) == []


def test_other_bonsai_plays():
    assert codes(gguf([pair("general.name", STRING, "Bonsai-1.7B")]), name="Bonsai-8B-Q1_0.gguf") == []


def test_legacy_q2_0_is_told_from_a_short_file():
    first, last = tensor("a", [512, 2], 42, 0), tensor("b", [256], 42, 272 + 16)
    old = gguf([], [first, tensor("b", [256], 42, 272)], bytes(272 + 68))
    verdict = judge_bytes(old, size=len(old))
    assert [reason.code for reason in verdict.reasons] == ["gguf.q2-legacy", "gguf.data-short"]
    assert verdict.reasons[0].message.startswith("2 Q2_0 tensors smaller than group-64 layout")
    new = gguf([], [first, last], bytes(288 + 72))
    assert codes(new) == []
    assert codes(new[:-20]) == ["gguf.data-short"]


@pytest.mark.parametrize(
    ("numbers", "kv"),
    [
        ({"block_count": 28, "heads": 16, "heads_kv": 8, "key_length": 128, "value_length": 128}, 114_688),
        ({"block_count": 36, "heads": 32, "heads_kv": 8, "embedding_length": 4096}, 147_456),
        ({"block_count": 30, "heads": 9, "heads_kv": 3, "embedding_length": 576}, 23_040),
        ({"block_count": 2, "heads": 4, "embedding_length": 64}, 2 * 4 * 32 * 2),
        ({"block_count": 2, "heads": [4, 4], "heads_kv": 2, "embedding_length": 64}, None),
        ({"block_count": 2, "heads": 4, "heads_kv": [2, 2], "embedding_length": 64}, None),
        ({"block_count": 2, "heads": 4}, None),
        ({"heads": 4, "embedding_length": 64}, None),
    ],
)
def test_kv_bytes_per_token(numbers, kv):
    verdict = judge_bytes(shape(**numbers))
    assert verdict.kv_f16_bytes_per_token == kv
    assert verdict.reasons == []


def test_kv_overflow():
    big = (U64, 2**64 - 1)
    data = shape(block_count=big, heads_kv=big, key_length=big, value_length=big)
    verdict = judge_bytes(data, size=len(data))
    assert verdict.reasons[0].message.startswith("KV cache size per token overflows")
    assert verdict.kv_f16_bytes_per_token is None
    assert {"gguf.kv-overflow", "gguf.key-type"} <= set(codes(data))


def test_booleans_count_as_integers():
    verdict = judge_bytes(shape(block_count=(BOOL, True), heads=4, heads_kv=2, embedding_length=32))
    assert verdict.kv_f16_bytes_per_token == 2 * 16 * 2


@pytest.mark.parametrize("arch", ["mamba", "mamba2", "rwkv6", "rwkv7"])
def test_recurrent_models_have_no_heads(arch):
    data = gguf([pair("general.architecture", STRING, arch), pair(f"{arch}.attention.head_count", U32, 0)])
    assert codes(data) == []


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ({"heads": 6, "embedding_length": 512, "key_length": 64, "value_length": 64}, []),
        ({"heads": 6, "embedding_length": 512}, ["gguf.embedding-division"]),
        ({"heads": [4, 0, 4], "heads_kv": [2, 0, 2], "block_count": 3}, []),
        ({"heads": 8, "heads_kv": [8, 3], "block_count": 2}, ["gguf.head-division"]),
        ({"block_count": (I64, -1)}, ["gguf.block-count", "gguf.key-type"]),
        ({"heads": [1] * 600, "block_count": 2}, ["gguf.layer-count"]),
        ({"expert_count": 8, "expert_used_count": 2}, []),
        ({"expert_count": 8, "expert_used_count": 2, "expert_group_count": 3}, ["gguf.experts"]),
        ({"expert_count": 8, "expert_used_count": 2, "expert_group_count": 4}, ["gguf.experts"]),
        ({"expert_count": 8, "expert_used_count": 2, "expert_group_count": 4, "expert_group_used_count": 2}, []),
        ({"expert_count": 8, "expert_used_count": [2, 9], "block_count": 2}, ["gguf.experts"]),
    ],
)
def test_shapes(numbers, expected):
    assert codes(shape(**numbers)) == expected


def test_other_architectures_keys_are_not_judged():
    pairs = [pair("general.architecture", STRING, "x"), pair("y.block_count", F32, 1.0), pair("y.attention.head_count", U32, 0)]
    assert codes(gguf(pairs)) == []


def test_clip_has_no_shape():
    pairs = [pair("general.architecture", STRING, "clip"), pair("clip.attention.head_count", U32, 0)]
    assert codes(gguf(pairs)) == []


def test_notes():
    data = gguf([pair("split.count", U16, 3)], [tensor("a", [8], 0, 0)], bytes(132))
    verdict = judge_bytes(data, size=len(data))
    assert verdict.verdict == "play"
    assert verdict.notes == [
        "one of 3 files of a split model: the others are not judged with it",
        "100 trailing bytes behind the last tensor",
    ]
    assert verdict.trailing_bytes == 100
    assert judge_bytes(gguf(), size=32).notes == ["no tensors: a vocabulary or metadata only"]


@pytest.mark.parametrize(
    ("count", "number", "words"),
    [(3, 0, "part 1 of 3 of a split model"), (3, 2, "part 3 of 3 of a split model"), (1, 0, None), (0, None, None)],
)
def test_the_part_of_a_split_model_is_noted(count, number, words):
    pairs = [pair("split.count", U16, count), *([pair("split.no", U16, number)] if number is not None else [])]
    notes = judge_bytes(gguf(pairs, [tensor("a", [8], 0, 0)], bytes(32)), size=None).notes
    assert notes == ([f"{words}: the others are not judged with it"] if words else [])


def test_a_key_that_is_read_beside_another_is_judged_only_there():
    arch = pair("general.architecture", STRING, "llama")
    older, newer = pair("llama.rope.scale_linear", U32, 2), pair("llama.rope.scaling.factor", F32, 2.0)
    assert codes(gguf([arch, older])) == ["gguf.key-type"]
    assert codes(gguf([arch, older, newer])) == []
    assert codes(gguf([arch, pair("split.no", U32, 1)])) == []
    assert codes(gguf([arch, pair("split.no", U32, 1), pair("split.count", U16, 2)])) == ["gguf.key-type"]
    assert codes(gguf([pair("general.architecture", STRING, "mamba"), pair("mamba.vocab_size", STRING, "x")])) == []
    assert codes(gguf([arch, pair("llama.vocab_size", STRING, "x")])) == ["gguf.key-type"]


def test_two_million_nested_arrays_are_refused_at_once():
    deep = text("k") + u32(9) + (u32(9) + u64(1)) * 2_000_000
    data = gguf([deep])
    assert codes(data) == ["gguf.array-depth"]


def test_keys_of_absurd_size_together_are_refused():
    data = gguf([pair(f"{i:03d}" + "k" * 60_000, U16, i) for i in range(80)])
    assert codes(data) == ["gguf.keys-size"]


def test_a_hostile_name_cannot_break_the_report(tmp_path, bankml):
    name = '"\\\n\x1b[31m\x07\u202eё'
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf([pair("general.name", STRING, name), pair("general.architecture", STRING, "\n\t")]))
    answer = bankml("guard", path, "--json")
    assert answer.code == 0
    assert json.loads(answer.out)["name"] == name
    assert answer.out.count("\n") == 1
    answer = bankml("guard", path)
    assert "\x1b" not in answer.out
    assert len(answer.out.splitlines()) == 7


@pytest.mark.parametrize(
    ("data", "code", "verdict"),
    [(gguf(), 0, "play"), (gguf(version=1), 2, "refuse"), (b"", 2, "refuse"), (gguf()[:10], 3, "need_more")],
)
def test_command(tmp_path, bankml, data, code, verdict):
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    plain, report = bankml("guard", path), bankml("guard", "--json", path, "--engine", "prism")
    assert (plain.code, report.code) == (code, code)
    assert plain.out.splitlines()[0] == f"{verdict} {path}"
    assert json.loads(report.out)["verdict"] == verdict
    assert json.loads(report.out)["engine"] == "prism"
    assert ("need_bytes" in json.loads(report.out)) == (verdict == "need_more")


def test_command_cannot_read(tmp_path, bankml):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert [reason.code for reason in judge(tmp_path).reasons] == ["gguf.unreadable"]
    for path, found in ((tmp_path, "a directory"), (tmp_path / "no", "No such file or directory"), (pipe, "not a regular file")):
        answer = bankml("guard", path)
        assert answer.code == 1
        assert answer.err.startswith("bankml: cannot read ")
        assert found in answer.err
        assert str(path) in answer.err
        assert bankml("guard", path, "--json").code == 1


def test_command_takes_names(bankml, home_with_smollm2):
    by_name = bankml("guard", "smollm2-135m-instruct")
    assert by_name.code == 0
    assert by_name.out.startswith(f"play {home_with_smollm2}")
    assert by_name.out == bankml("guard").out
    unknown = bankml("guard", "no-such-model")
    assert (unknown.code, unknown.out) == (1, "")
    assert "bankml list" in unknown.err


def test_command_reads_names_that_are_not_utf8(tmp_path, bankml):
    path = os.fsencode(tmp_path) + b"/bonsai2-\xff.gguf"
    Path(os.fsdecode(path)).write_bytes(gguf())
    assert bankml("guard", os.fsdecode(path)).code == 2
    report = bankml("guard", os.fsdecode(path), "--json")
    assert json.loads(report.out)["refusals"][0]["code"] == "gguf.rotated"
