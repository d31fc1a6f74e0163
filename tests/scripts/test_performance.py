# SPDX-License-Identifier: MIT OR Apache-2.0
"""The speed page: one run of everything on one commit, every round of it, or nothing."""

import copy
import json
import subprocess

import pytest

from bankml.bench.memory import READ_BYTES
from bankml.kernels.compiler.isa import TIER, TIERS
from bankml.reference.build import LIBRARIES
from testing import performance
from testing.performance import BEGIN, END, PAGE, RESULTS, main, newest, page_of
from tests.cli.doc_blocks import ROOT

pytestmark = pytest.mark.long

ROUNDS = [2.0, 1.0, 4.0, 3.0, 5.0, 2.0, 2.0]


def samples(name, factor=1.0):
    return {f"{name}_samples": [factor * value for value in ROUNDS]}


def rates(factor):
    return {**samples("pp_tokens_per_second", factor), **samples("tg_tokens_per_second", 10 * factor)}


BUILD = {"version": "b11192", "variant": "native"}


def report(step):
    """What the benchmark of a step says where bankml is twice as fast as the reference."""
    match step.words[0]:
        case "memory":
            return {"read_bytes": READ_BYTES, "memory": [{"threads": 1, **samples("bytes_per_second", 1e9)}]}
        case "model":
            one = {"prompt": 512, "depth": 0, "threads": 2, **rates(2), "reference": {**BUILD, **rates(1)}}
            return {"depths": [one, {**one, "depth": 256}]} if "-d" in step.words else one
        case "start":
            mine = {**samples("first_token_seconds"), **samples("resident_bytes", 1e6), **samples("cold_first_token_seconds", 9)}
            theirs = {**BUILD, **samples("first_token_seconds", 2), **samples("resident_bytes", 1e6)}
            return {"ctx": 4096, **mine, "reference": theirs}
        case "kernels":
            cells = [
                {"type": "Q4_1", "threads": 1, "columns": 1, **samples("ratio"), **samples("share_of_memory", 0.1)},
                {"type": "Q4_1", "threads": 1, "columns": 32, **samples("ratio", 3)},
            ]
            head = {"rows": 12288, "k": 4096, "tier": step.tier or TIER, "weights": "real", "reference": BUILD}
            return {**head, "cells": cells}


@pytest.fixture
def tree(tmp_path, monkeypatch, smollm2):
    """A repository with the page, and a build of the reference of the test's own; the steps that are asked for."""
    monkeypatch.setenv("BANKML_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "models").mkdir(parents=True)
    (tmp_path / "home" / "models" / smollm2.name).symlink_to(smollm2)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    PAGE.write_text(page_of((ROOT / PAGE).read_text(), None))
    (tmp_path / ".gitignore").write_text("home/\n.reference/\n")
    for build in ("haswell", "native"):
        place = tmp_path / ".reference" / build / "bin"
        place.mkdir(parents=True)
        programs = {"llama-server": "echo 'version: 11192 (0)'", "llama-quantize": 'ln "$2" "$3" 2>/dev/null || cp "$2" "$3"'}
        for name, script in programs.items():
            (place / name).write_text(f"#!/bin/sh\n{script}\n")
            (place / name).chmod(0o755)
        for name in LIBRARIES:
            (place / f"lib{name}.so").touch()
    git("init", "-q")
    commit()
    return tmp_path


def git(*words):
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@localhost", *words], check=True)


def commit():
    git("add", ".")
    git("commit", "-q", "-m", "tree")


class Asked:
    """Answers every step, and remembers it."""

    def __init__(self):
        self.steps = []

    def __call__(self, step):
        self.steps.append(step)
        return report(step)


def test_the_page_is_that_of_the_newest_run():
    done = subprocess.run(
        [performance.sys.executable, "-m", "testing.performance", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_kept_run_is_whole():
    run = newest(ROOT / RESULTS)
    if run is not None:
        assert run["rounds"] >= performance.LEAST_ROUNDS
        assert {"memory", "depths", "start", "kernels", *(f"model {name}" for name in ("Q4_1", *performance.MODEL_TYPES))} <= {
            step["name"] for step in run["steps"]
        }


def test_one_run_measures_everything_once_and_keeps_every_round(tree, capsys):
    asked = Asked()
    assert main([], asked) == 0, capsys.readouterr().err
    names = [step.name for step in asked.steps]
    lower = list(TIERS)[list(TIERS).index(TIER) + 1 :]
    assert names == [
        *("memory", "model Q4_1", *(f"model {name}" for name in performance.MODEL_TYPES), "depths", "start", "kernels"),
        *(f"kernels {tier}" for tier in lower),
    ]
    assert all(step.words[-2:] == ("-r", "7") for step in asked.steps)
    against = {step.name: step.words[step.words.index("--reference") + 1] for step in asked.steps[1:]}
    assert {place for name, place in against.items() if name.startswith("kernels")} == {".reference/haswell"}
    assert {place for name, place in against.items() if not name.startswith("kernels")} == {".reference/native"}
    (file,) = RESULTS.iterdir()
    run = json.loads(file.read_text())
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    assert (file.name, run["commit"]) == (f"performance-{head[:12]}.json", head)
    assert set(run["references"]) == {"reference", "fastest"}
    assert all(len(step["load_before"]) == len(step["load_after"]) == 3 for step in run["steps"])
    assert [step["report"] for step in run["steps"]] == [json.loads(json.dumps(report(step))) for step in asked.steps]
    assert str(tree) not in file.read_text()
    assert main(["--check"], asked) == 0
    assert len(asked.steps) == len(names)


def test_every_row_has_the_median_and_the_spread_of_its_rounds(tree):
    assert main([], Asked()) == 0
    part = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    for row in (
        "| Q8_0 | 40.0 (20.0-100.0) | 20.0 (10.0-50.0) | 2.00 (2.00-2.00) | 4.0 (2.0-10.0) | 2.0 (1.0-5.0) | 2.00 (2.00-2.00) |",
        "| 256 | 40.0 (20.0-100.0) | 20.0 (10.0-50.0) | 2.00 (2.00-2.00) |",
        "| start of a process to its first token, context 4096, s | 2.00 (1.00-5.00) | 4.00 (2.00-10.00) | 0.50 (0.50-0.50) |",
        "| the same start with nothing compiled, s | 18.0 (9.0-45.0) |  |  |",
        "| Q4_1 | 2.00 (1.00-5.00) | 6.00 (3.00-15.00) | 20 (10-50) |",
        "| 1 thread | 2.0 (1.0-5.0) |",
    ):
        assert row in part
    assert "by `bankml bench model SmolLM2-135M-Instruct.Q8_0.gguf --reference .reference/native -p 512 -n 64 -r 7`" in part


def test_what_changes_the_page_or_the_run_is_noticed(tree, capsys):
    assert main([], Asked()) == 0
    text = PAGE.read_text()
    PAGE.write_text(text.replace("40.0 (20.0-100.0)", "41.0 (20.0-100.0)", 1))
    assert main(["--check"]) == 1
    assert main(["--page"]) == 0
    assert PAGE.read_text() == text
    (file,) = RESULTS.iterdir()
    run = json.loads(file.read_text())
    later = copy.deepcopy(run) | {"date": "2126-01-01T00:00:00+00:00", "rounds": 9}
    (RESULTS / "performance-0.json").write_text(json.dumps(later))
    assert main(["--check"]) == 1
    assert main(["--page"]) == 0
    assert "9 rounds of everything" in PAGE.read_text()


@pytest.mark.parametrize("change", [lambda tree: (tree / "new").touch(), lambda tree: PAGE.write_text(PAGE.read_text() + "x")])
def test_a_work_tree_with_changes_is_not_measured(tree, change, capsys):
    change(tree)
    asked = Asked()
    assert main([], asked) == 1
    assert "the work tree is no commit" in capsys.readouterr().err
    assert asked.steps == []


def test_a_tree_that_changes_meanwhile_leaves_nothing(tree, capsys):
    def ask(step):
        (tree / "new").touch()
        return report(step)

    assert main([], ask) == 1
    assert "no commit" in capsys.readouterr().err
    assert not RESULTS.exists()


def test_a_step_that_fails_leaves_nothing(tree, capsys):
    before = PAGE.read_text()

    def ask(step):
        if step.name == "kernels":
            raise performance.CannotMeasureError("kernels failed")
        return report(step)

    assert main([], ask) == 1
    assert "kernels failed" in capsys.readouterr().err
    assert (RESULTS.exists(), PAGE.read_text()) == (False, before)


def test_few_rounds_are_no_result(tree, capsys):
    asked = Asked()
    assert main(["--rounds", "4"], asked) == 1
    assert main(["--quick"], asked) == 1
    assert asked.steps == []


def test_without_a_run_the_page_states_nothing(tree):
    assert main(["--check"]) == 0
    assert not any(word in page_of(PAGE.read_text(), None).partition(BEGIN)[2] for word in ("(", "|"))


def test_quick_measures_for_real(smollm2, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(["--quick", "--into", str(tmp_path)]) == 0
    run = newest(tmp_path)
    assert [step["name"] for step in run["steps"]][:4] == ["memory", "model Q4_1", "depths", "start"]
    start = next(step["report"] for step in run["steps"] if step["name"] == "start")
    assert len(start["first_token_seconds_samples"]) == len(start["resident_bytes_samples"]) == 2
    cells = next(step["report"]["cells"] for step in run["steps"] if step["name"] == "kernels")
    assert [len(cell["seconds"]) for cell in cells] == [2] * len(cells)
    assert all(len(cell["share_of_memory_samples"]) == 2 for cell in cells if cell["columns"] == 1)
    assert "rounds of everything" in (tmp_path / "performance.md").read_text()
