# SPDX-License-Identifier: MIT OR Apache-2.0
import json

import pytest

from bankml.core.gguf.reader import GgufFile
from bankml.core.gguf.types import ARRAY, BOOL, F32, STRING, U16, U32
from bankml.core.gguf.writer import write_gguf
from bankml.oracle.cases import keys_models


@pytest.fixture
def changed(smollm2, tmp_path):
    """The default model with its first two layers, other values or other types."""

    def write(changes=None, *, without=(), types=None):
        path = tmp_path / "changed.gguf"
        with GgufFile.open(smollm2) as gguf:
            kv = []
            for key, entry in gguf.header.entries.items():
                if key in without:
                    continue
                value = 2 if key == "llama.block_count" else (changes or {}).get(key, gguf.kv[key])
                kind = (entry.type, entry.value.type) if isinstance(value, list) else entry.type
                kv.append((key, kind, value))
            tensors = []
            for name, tensor in gguf.tensors.items():
                if name.startswith("blk.") and int(name.split(".")[1]) > 1:
                    continue
                data = gguf.data(name)
                type_id, dims = (types or {}).get(name, (tensor.type_id, tensor.dims))
                if name not in without:
                    size = size_of(type_id, dims)
                    tensors.append((name, dims, type_id, data[:size] if size <= len(data) else bytes(size)))
            write_gguf(path, kv, tensors)
        return path

    return write


def size_of(type_id, dims):
    from bankml.core.gguf.types import row_bytes

    count = 1
    for dim in dims[1:]:
        count *= dim
    return row_bytes(type_id, dims[0]) * count


def test_the_default_model(bankml, smollm2):
    answer = bankml("info", smollm2)
    assert answer.code == 0
    lines = dict(line.split(maxsplit=1) for line in answer.out.splitlines())
    assert lines["arch"] == "llama"
    assert lines["size"] == "98,362,432 bytes, 134,515,008 weights, 5.744 bits each"
    assert lines["types"] == "F32 61, Q4_1 210, Q8_0 1"
    assert lines["tokenizer"] == "gpt2 / smollm, 49,152 tokens"
    assert lines["context"] == "8,192 tokens, 23,040 bytes of cache each"
    assert lines["plays"] == "yes"


def test_as_json(bankml, smollm2):
    report = json.loads(bankml("info", smollm2, "--json").out)
    assert report["plays"] is True
    assert report["obstacles"] == []
    assert report["parameters"] == 134_515_008
    assert (report["heads"], report["key_value_heads"], report["key_length"], report["layers"]) == (9, 3, 64, 30)
    assert report["vocabulary"] == 49_152
    assert report["tokenizer"] == {"model": "gpt2", "pre": "smollm", "supported": True, "refusal": None}
    assert report["template"] == {"present": True, "supported": True, "refusal": None}
    assert report["pinned"] is True
    assert report["pinned_sha256"].startswith("b179c9523d0e")


def test_a_file_without_a_record_is_unpinned(bankml, smollm2, tmp_path):
    path = tmp_path / "other.gguf"
    path.symlink_to(smollm2)
    assert "unpinned" in bankml("info", path).out
    assert json.loads(bankml("info", path, "--json").out)["pinned"] is False


def test_a_record_that_is_none(bankml, smollm2, tmp_path):
    path = tmp_path / "other.gguf"
    path.symlink_to(smollm2)
    (tmp_path / "other.gguf.FORK.json").write_text("{")
    answer = bankml("info", path)
    assert answer.code == 0
    assert "unpinned: " in answer.out


@pytest.mark.parametrize(
    ("changes", "without", "code", "where"),
    [
        ({"general.architecture": "bert"}, (), "model.architecture", "key general.architecture"),
        ({}, ("blk.1.ffn_up.weight",), "model.tensor-missing", "tensor blk.1.ffn_up.weight"),
        ({}, ("llama.embedding_length",), "model.key-missing", "key llama.embedding_length"),
        ({"tokenizer.ggml.pre": "elsewhere"}, (), "text.pre", "tokenizer.ggml.pre"),
    ],
)
def test_what_stands_in_the_way_is_named(bankml, changed, changes, without, code, where):
    path = changed(changes, without=without)
    answer = bankml("info", path, "--json")
    assert answer.code == 2
    report = json.loads(answer.out)
    assert report["plays"] is False
    assert code in [each["code"] for each in report["obstacles"]]
    assert where in " ".join(str(each.get("where")) for each in report["obstacles"])
    assert f"{code}: " in bankml("info", path).out


@pytest.mark.parametrize(
    ("changes", "code", "where"),
    [
        ({"llama.context_length": [U32, 0]}, "gguf.context-length", "llama.context_length"),
        ({"general.sampling.penalty_repeat": [F32, 0.0]}, "gguf.sampling", "general.sampling.penalty_repeat"),
        ({"general.sampling.mirostat": [U32, 3]}, "gguf.sampling", "general.sampling.mirostat"),
        ({"llama.attention.causal": [BOOL, False]}, "model.not-built", "key llama.attention.causal"),
        ({"llama.attention.layer_norm_rms_epsilon": [F32, -1.0]}, "model.key-value", "layer_norm_rms_epsilon"),
    ],
)
def test_what_the_reference_stops_on_or_computes_otherwise(bankml, tmp_path, changes, code, where):
    keys_models.write("llama", changes, tmp_path / "m.gguf")
    answer = bankml("info", tmp_path / "m.gguf", "--json")
    assert answer.code == 2
    assert [each["code"] for each in json.loads(answer.out)["obstacles"]] == [code]
    assert where in json.loads(answer.out)["obstacles"][0]["where"]
    refused = bankml("generate", "--allow-unpinned", "--model", tmp_path / "m.gguf", "--raw", "a")
    assert refused.code == 2
    assert where in refused.err


def test_a_token_to_be_added_that_is_not_there(bankml, tmp_path):
    changes = {"tokenizer.ggml.tokens": [[ARRAY, STRING], keys_models.TOKENS[:11]], "tokenizer.ggml.bos_token_id": None}
    keys_models.write("llama", changes, tmp_path / "m.gguf", rows=11)
    assert bankml("info", tmp_path / "m.gguf").code == 0
    keys_models.write("llama", changes | {"tokenizer.ggml.add_bos_token": [BOOL, True]}, tmp_path / "m.gguf", rows=11)
    answer = bankml("info", tmp_path / "m.gguf")
    assert answer.code == 2
    assert "text.add-special: " in answer.out
    assert "bos token" in bankml("generate", "--allow-unpinned", "--model", tmp_path / "m.gguf", "--raw", "a").err


@pytest.mark.parametrize(("number", "wanted"), [(0, "the merged file"), (1, "the first file or the merged one")])
def test_a_part_of_a_split_model(bankml, tmp_path, number, wanted):
    path = tmp_path / "m.gguf"
    pairs = [("split.no", U16, number), ("split.count", U16, 3)]
    if number:
        write_gguf(path, pairs, [("a", (8,), 0, bytes(32))])
    else:
        keys_models.write("llama", {key: [kind, value] for key, kind, value in pairs}, path)
    report = json.loads(bankml("info", path, "--json").out)
    assert [each["code"] for each in report["obstacles"]] == ["model.split"]
    assert report["notes"] == [f"part {number + 1} of 3 of a split model: the others are not judged with it"]
    for command in (("info", path), ("generate", "--allow-unpinned", "--model", path, "--raw", "a")):
        answer = bankml(*command)
        assert answer.code == 2
        assert f"this is part {number + 1} of 3 of a split model: bankml does not play split models yet, {wanted} is wanted" in (
            answer.out + answer.err
        )


def test_a_weight_type_without_kernels(bankml, changed):
    path = changed(types={"blk.1.attn_q.weight": (28, (576, 576))})
    with GgufFile.open(path) as gguf:
        assert gguf.tensors["blk.1.attn_q.weight"].type_id == 28
    (obstacle,) = json.loads(bankml("info", path, "--json").out)["obstacles"]
    assert (obstacle["code"], obstacle["where"], obstacle["found"]) == ("model.weight-type", "tensor blk.1.attn_q.weight", "F64")


def test_a_template_that_is_refused_does_not_stop_the_model(bankml, changed):
    path = changed({"tokenizer.chat_template": "{% for"})
    answer = bankml("info", path)
    assert answer.code == 0
    assert "template   not run: " in answer.out
    report = json.loads(bankml("info", path, "--json").out)
    assert report["template"]["supported"] is False
    assert report["template"]["refusal"]["code"].startswith("template.")


def test_a_file_without_a_template(bankml, changed):
    assert "ChatML" in bankml("info", changed(without=("tokenizer.chat_template",))).out


def test_bad_input(bankml, smollm2, tmp_path):
    assert bankml("info", tmp_path / "absent.gguf").code == 1
    assert bankml("info", tmp_path).code == 1
    (tmp_path / "no.gguf").write_bytes(b"hello, this is no model at all")
    assert bankml("info", tmp_path / "no.gguf").code == 2
    (tmp_path / "cut.gguf").write_bytes(smollm2.read_bytes()[:5000])
    answer = bankml("info", tmp_path / "cut.gguf")
    assert (answer.code, answer.out) == (3, "")
    (tmp_path / "short.gguf").write_bytes(smollm2.read_bytes()[:50_000_000])
    answer = bankml("info", tmp_path / "short.gguf")
    assert answer.code == 2
    assert "gguf.data-short" in answer.out
