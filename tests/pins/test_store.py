# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names of models, and what they stand for."""

import os

import pytest

from bankml.core.pins import resolve_model, sha256_file
from bankml.core.pins.record import Provenance, home_fork, write_pin
from bankml.core.pins.store import entries, find, find_exact, remove
from bankml.core.refusal import Refusal
from tests.pins.conftest import make_tiny


@pytest.fixture
def models(own_home):
    folder = own_home / "models"
    folder.mkdir()
    return folder


def pin(path):
    write_pin(home_fork(path.name), path.name, path.stat().st_size, sha256_file(path), Provenance("a test", "repo", None, "r2"))


def test_an_empty_store_lists_nothing_and_names_the_next_step():
    assert entries() == []
    with pytest.raises(Refusal, match="default model") as caught:
        resolve_model(None)
    assert "bankml pull" in caught.value.hint
    assert (caught.value.exit_code, caught.value.status) == (1, 404)


def test_a_model_has_its_stem_as_name_and_several_ways_to_say_it(models):
    path = make_tiny(models / "Bonsai-8B-Q1_0.gguf")
    pin(path)
    for name in ("bonsai-8b-q1_0", "Bonsai-8B-Q1_0", "bonsai-8b-q1_0:latest", "BONSAI-8B-Q1_0.GGUF", "bonsai-8b"):
        assert resolve_model(name) == path
    assert find_exact("bonsai-8b") is None
    for name in ("bonsai", "bonsai-8b-q1", "bonsai-8b-q1_0:8b", "", "../models/Bonsai-8B-Q1_0"):
        assert find(name) is None


@pytest.mark.parametrize(
    ("file", "base"),
    [
        ("mindx-gen39-F16.gguf", "mindx-gen39"),
        ("Ternary-Bonsai-8B-Q2_0_g64.gguf", "ternary-bonsai-8b"),
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m-instruct"),
        ("x.Q4_K_M.gguf", "x"),
        ("x-IQ2_XXS.gguf", "x"),
        ("x-bf16.gguf", "x"),
        ("phi-4.gguf", "phi-4"),
        ("qwen3-8b.gguf", "qwen3-8b"),
    ],
)
def test_bases(models, file, base):
    make_tiny(models / file)
    assert [entry.base for entry in entries()] == [base]


def test_a_base_that_two_models_have_names_neither(models):
    for file in ("a-F16.gguf", "a-Q8_0.gguf"):
        make_tiny(models / file)
    assert find("a") is None
    assert find("a-f16").path.name == "a-F16.gguf"


def test_of_two_names_that_differ_in_case_the_first_counts(models):
    for file in ("B.gguf", "b.gguf"):
        make_tiny(models / file)
    assert [entry.path.name for entry in entries()] == ["B.gguf"]


def test_what_is_listed(models, tmp_path):
    pinned = make_tiny(models / "a.gguf")
    pin(pinned)
    make_tiny(models / "b.gguf")
    (models / "c.gguf").write_bytes(b"no model")
    home_fork("c.gguf").write_text("no record")
    (models / "notes.txt").write_text("x")
    (models / "folder.gguf").mkdir()
    (models / "gone.gguf").symlink_to(tmp_path / "nowhere")
    rows = {entry.name: entry.as_dict() for entry in entries()}
    assert list(rows) == ["a", "b", "c"]
    assert rows["a"]["sha256"] == sha256_file(pinned)
    assert (rows["a"]["source"], rows["a"]["arch"]) == ("repo r2", "llama")
    assert (rows["b"]["pinned"], rows["b"]["sha256"], rows["b"]["problem"]) == (False, None, None)
    assert (rows["c"]["pinned"], rows["c"]["arch"]) == (False, None)
    assert "not JSON" in rows["c"]["problem"]


def test_paths_are_taken_as_they_are(models, tiny, tmp_path, monkeypatch):
    make_tiny(models / "tiny.gguf")
    monkeypatch.chdir(tiny.parent)
    assert resolve_model(tiny) == tiny
    assert resolve_model(str(tiny)) == tiny
    assert resolve_model(tiny.name).resolve() == tiny
    (tiny.parent / "tiny").mkdir()
    assert resolve_model("tiny") == models / "tiny.gguf"
    for bad in (tmp_path, tmp_path / "nothing", f"{tmp_path}/nothing.gguf", "nothing", "x" * 5000, "a\x00b", "/a\x00b"):
        with pytest.raises(Refusal, match="cannot read") as caught:
            resolve_model(bad)
        assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.mkdir(), "is a directory"),
        (os.mkfifo, "is not a regular file"),
        (lambda path: path.symlink_to(path.name), "Too many levels of symbolic links"),
        (lambda path: path.symlink_to("nowhere"), "is a link that leads nowhere"),
        (lambda path: path.symlink_to("/dev/zero"), "is not a regular file"),
    ],
)
def test_what_stands_under_a_name_and_is_no_file_is_said(models, tmp_path, monkeypatch, make, why):
    make(tmp_path / "odd")
    monkeypatch.chdir(tmp_path)
    for name in ("odd", "./odd", tmp_path / "odd"):
        with pytest.raises(Refusal, match=f"cannot read odd: {why}") as caught:
            resolve_model(name)
        assert caught.value.exit_code == 1
    make_tiny(models / "odd.gguf")
    assert resolve_model("odd") == models / "odd.gguf"


def test_removing_takes_the_file_and_its_pin_but_not_what_a_link_points_to(models, tiny):
    link = models / "linked.gguf"
    link.symlink_to(tiny)
    pin(link)
    (entry,) = entries()
    remove(entry)
    assert tiny.exists()
    assert not link.is_symlink()
    assert not home_fork("linked.gguf").exists()
    assert entries() == []
