# SPDX-License-Identifier: MIT OR Apache-2.0
"""``testing/every_type.py`` and its importance matrix, with programs of the test's own in place of the reference's."""

import hashlib

import numpy as np
import pytest

from bankml.core.gguf import types
from bankml.core.gguf.reader import GgufFile
from bankml.core.gguf.writer import write_gguf
from bankml.oracle.kind import Tally
from bankml.refusal import Refusal
from testing import every_type
from testing.importance_matrix import write_importance_matrix

# Refuses what the real one refuses, copies the model otherwise, and keeps what it was told.
QUANTIZE = """#!/bin/sh
echo "$@" >>"$0.log"
for last; do before=$file file=$name name=$last; done
[ "$name" != Q1_0 ] || { echo "failed to quantize: no fallback" >&2; exit 1; }
cp "$before" "$file"
"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.gguf"
    f32 = types.TYPE_IDS["F32"]
    shapes = {"token_embd.weight": (32, 4), "blk.0.attn_norm.weight": (32,), "blk.0.ffn_down.weight": (64, 32)}
    tensors = [(name, dims, f32, np.zeros(int(np.prod(dims)), np.float32)) for name, dims in shapes.items()]
    write_gguf(path, [("general.architecture", types.STRING, "llama")], tensors)
    return path


@pytest.fixture
def reference(tmp_path):
    folder = tmp_path / "build" / "bin"
    folder.mkdir(parents=True)
    for name in ("llama-server", "llama-quantize"):
        (folder / name).write_text(QUANTIZE)
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def hold(monkeypatch, model, reference):
    """Runs the tool: seven threads bring a difference, the cache ``none`` a refusal. Returns its code and what was asked."""
    asked = []

    def make_record(kind, file, _, options):
        assert file.is_file()
        asked.append((kind, options))
        if options.get("cache_type") == "none":
            raise Refusal("oracle.test", "refused here")
        return options

    def compare_record(options, _):
        tally = Tally()
        tally.count(True)
        tally.count(options["threads"] != 7, "another token")
        return tally

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["every_type.py", str(model), "--reference", str(reference), *map(str, arguments)])
        return every_type.main(), asked

    monkeypatch.setattr(every_type, "make_record", make_record)
    monkeypatch.setattr(every_type, "compare_record", compare_record)
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    return run


def test_every_type_is_held_on_each_cache(hold, reference, tmp_path, capsys):
    code, asked = hold("--types", "Q4_0,Q1_0,blk=MXFP4", "--scripts", "short,sampled", "--work", tmp_path)
    assert code == 0
    assert [(kind, options["script"], options["cache_type"]) for kind, options in asked] == 2 * [
        ("greedy", "short", "f16"),
        ("sampled", "chain", "f16"),
        ("greedy", "short", "q8_0"),
        ("sampled", "chain", "q8_0"),
    ]
    said = capsys.readouterr().out
    assert "Q1_0          llama-quantize makes none of it: failed to quantize: no fallback\n" in said
    assert "Q4_0          q8_0  short 2 of 2, sampled 2 of 2; " in said
    assert said.endswith("2 types: 16 of 16 identical\n")
    told = (reference / "llama-quantize.log").read_text().splitlines()
    assert all("--imatrix" in line for line in told)
    assert "--tensor-type blk=MXFP4 " in told[2]
    assert told[2].endswith(" Q8_0")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["build", "model.gguf"]


def test_a_given_file_is_held_and_stays(hold, reference, model, capsys):
    code, asked = hold("--types", "Q2_0", "--file", f"Q2_0={model}", "--caches", "q8_0", "--no-matrix", "--threads", 2)
    assert code == 0
    assert {options["threads"] for _, options in asked} == {2}
    assert [kind for kind, _ in asked] == ["greedy", "greedy", "greedy", "sampled", "logprobs"]
    assert model.is_file()
    assert not (reference / "llama-quantize.log").exists()
    assert "Q2_0          2 x F32\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--types", "Q4_0", "--threads", 7), "another token"),
        (("--types", "Q4_0", "--caches", "none"), "refused here"),
        (("--types", "Q1_0"), "0 types: 0 of 0 identical"),
    ],
    ids=["a difference", "a refusal", "nothing made"],
)
def test_what_is_not_identical_fails(hold, capsys, arguments, said):
    assert hold(*arguments)[0] == 1
    assert said in capsys.readouterr().out


def test_the_importance_matrix_has_every_matrix_of_the_layers(model, tmp_path):
    target = tmp_path / "importance.gguf"
    write_importance_matrix(model, target)
    with GgufFile.open(target) as gguf:
        assert gguf.kv["general.type"] == "imatrix"
        assert {name: tensor.dims for name, tensor in gguf.tensors.items()} == {
            "blk.0.ffn_down.weight.in_sum2": (64, 1),
            "blk.0.ffn_down.weight.counts": (1, 1),
        }
        sums = gguf.data("blk.0.ffn_down.weight.in_sum2").view("<f4")
        (count,) = gguf.data("blk.0.ffn_down.weight.counts").view("<f4")
    assert count == gguf.kv["imatrix.chunk_count"] * gguf.kv["imatrix.chunk_size"]
    assert sums.min() > 0
    assert sums.max() > 20 * np.median(sums)
    assert hashlib.sha256(target.read_bytes()).hexdigest() == "1d7733cedba2ab5f51376a0bc5eb36ee74241f8b1b87168cadb79e474206a034"
