# SPDX-License-Identifier: MIT OR Apache-2.0
"""The kernels that a model uses are held to the reference at every start; no answer of one with other bits is called exact."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bankml.core.exact import check, trials
from bankml.core.gguf.reader import GgufFile
from bankml.core.gguf.types import TYPE_IDS, TYPES
from bankml.core.model.compile import compile_kernels
from bankml.core.model.graph import SPLIT_FROM
from bankml.core.model.plan import plan
from bankml.kernels.compiler import store
from bankml.kernels.products.weights import TYPE_IDS as PLAYED
from bankml.kernels.products.weights import weight_type

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "tests" / "records"
FUSED = "accs[c][lane] = E.fma(scale, E.i2f(dot), accs[c][lane])"
UNFUSED = "accs[c][lane] = E.add(E.mul(scale, E.i2f(dot)), accs[c][lane])"
COMPILE = """
import sys
from pathlib import Path
from bankml.kernels.compiler import native
native.module_named("blocks.q4_1")
Path(sys.argv[1]).write_bytes(native.compile_object(native.entries("blocks.q4_1")))
"""
STORE = """
import sys
from pathlib import Path

from bankml.kernels.compiler import store
store.write("blocks.q4_1", Path(sys.argv[1]).read_bytes())
assert store.read("blocks.q4_1") == Path(sys.argv[1]).read_bytes()
"""
# What graph.py points at, beside the kernels of the weight types.
OF_THE_GRAPH = {
    "activations.rows.form_rows", "activations.rows.norm_rows", "activations.rows.swiglu_rows", "attention.rows.attend",
    "attention.rows.join_form", "attention.tiled.rows_tiled", "attention.rope.rope_store", "attention.cache_q8.rope_store",
    "attention.cache_q8.attend_rows",
}  # fmt: skip


def run(*words: object, tree: Path = ROOT, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(tree)} | ({} if home is None else {"BANKML_HOME": str(home)})
    return subprocess.run(
        [sys.executable, *map(str, words)], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def home_with_another_q4_1(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose store has all kernels of this tree, but a blocks.q4_1.o whose products are not fused, sealed as if right."""
    folder = tmp_path_factory.mktemp("another-q4_1")
    shutil.copytree(ROOT / "bankml", folder / "tree" / "bankml", ignore=shutil.ignore_patterns("__pycache__"))
    changed = folder / "tree" / "bankml" / "kernels" / "blocks" / "q4_1.py"
    assert changed.read_text().count(FUSED) == 1
    changed.write_text(changed.read_text().replace(FUSED, UNFUSED))
    run("-c", COMPILE, folder / "q4_1", tree=folder / "tree").check_returncode()
    compile_kernels([(TYPE_IDS["Q4_1"], 8), (TYPE_IDS["Q8_0"], 8)])
    assert check.check() is None
    home = folder / "home"
    shutil.copytree(store.folder(), home / "cache" / "kernels" / store.folder().name)
    for each in home.rglob("*"):
        each.chmod(0o755 if each.is_dir() else 0o644)
    run("-c", STORE, folder / "q4_1", home=home).check_returncode()
    return home


def generate(smollm2: Path, home: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return run(
        "-m",
        "bankml",
        "generate",
        "--model",
        smollm2,
        "--allow-unpinned",
        "--max",
        2,
        "--ctx",
        512,
        "--json",
        *more,
        "Hi",
        home=home,
    )


def test_a_kernel_with_other_bits_is_refused_by_name(smollm2: Path, home_with_another_q4_1: Path) -> None:
    done = generate(smollm2, home_with_another_q4_1)
    refused = json.loads(done.stdout)
    assert (done.returncode, refused["verdict"], refused["code"]) == (2, "refuse", "exact.kernel")
    assert refused["reason"] == "the answers would not be exact: blocks.q4_1.gemv differs from the reference machine's"
    assert refused["where"].startswith("product (type Q4_1, rows 40, k 320, columns 1")
    assert "--inexact answers all the same" in done.stderr


def test_an_inexact_answer_names_the_kernel(smollm2: Path, home_with_another_q4_1: Path) -> None:
    done = generate(smollm2, home_with_another_q4_1, "--inexact")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["exact"], answer["completion_tokens"]) == (0, False, 2)
    assert answer["inexact"].startswith("blocks.q4_1.gemv differs from the reference machine's at product (type Q4_1")
    assert f"the answer is not exact: {answer['inexact']}" in done.stderr


def test_the_check_asks_every_kernel_of_the_graph() -> None:
    compile_kernels([(number, rows) for number in PLAYED for rows in (8, 9)], "q8_0")
    asked = {trials.evaluate(case, trials.numbers(case))[0] for case in trials.cases()}
    kinds = [weight_type(number, rows) for number in PLAYED for rows in (8, 9)]
    of_types = {kernel.symbol for kind in kinds for kernel in (kind.gemv, kind.gemm, kind.get_rows)}
    assert asked == OF_THE_GRAPH | of_types


def test_what_a_model_uses_is_what_it_is_asked_about(smollm2: Path) -> None:
    with GgufFile.open(smollm2) as gguf:
        built = plan(gguf)
        types = {name: gguf.tensors[name].type_id for name in built.matrices}
    used = trials.used_by(built, types, "f16")
    assert used == trials.Used(frozenset({("Q4_1", True), ("Q8_0", True)}), 64, 64, False, False, "f16")
    asked = [case for case in trials.cases() if used.asks(case)]
    assert {case["type"] for case in asked if "type" in case} == {"Q4_1", "Q8_0"}
    assert {case["form"] for case in asked if "form" in case} == {"F32", "Q8_1"}
    assert {(case["of"], case["cache"]) for case in asked if "cache" in case} == {("rope", "f16"), ("attention", "f16")}
    # One row, one in spans, few, and many.
    rows = {(case["rows"], case["position"] + 256 > SPLIT_FROM) for case in asked if case["of"] == "attention"}
    assert rows == {(1, False), (1, True), (3, False), (66, False)}
    quantized = dataclasses.replace(used, cache_type="q8_0")
    asked = [case for case in trials.cases() if quantized.asks(case)]
    assert {(case["of"], case["cache"]) for case in asked if "cache" in case} == {("rope", "q8_0"), ("attention", "q8_0")}


@pytest.mark.parametrize(("width", "asked"), [(64, {64}), (160, {32, 64, 96, 128, 256}), (72, {40}), (10, {80, 40, 6})])
def test_heads_of_a_width_without_a_record_are_held_to_their_like(width: int, asked: set[int]) -> None:
    used = trials.Used(head_dim=width, rope_dims=width)
    assert {case["dim"] for case in trials.cases() if case["of"] == "attention" and used.asks(case)} == asked


def test_every_question_is_of_some_model() -> None:
    every = frozenset((TYPES[number].name, eights) for number in PLAYED for eights in (True, False))
    models = [
        trials.Used(every, width, rotated, neox, norms, cache)
        for width in {case["dim"] for case in trials.cases() if case["of"] == "attention"}
        for rotated in (64, 6)
        for neox in (True, False)
        for norms in (True, False)
        for cache in ("f16", "q8_0")
    ]
    assert [case for case in trials.cases() if not any(model.asks(case) for model in models)] == []


@pytest.mark.parametrize(("file", "record"), [(check.RECORD, "libm"), (check.KERNELS, "start")])
def test_the_packages_records_are_those_of_the_oracle(file: Path, record: str) -> None:
    assert file.read_bytes() == (RECORDS / f"{record}.json.gz").read_bytes()


def test_the_record_answers_every_question_and_tells_them_apart() -> None:
    recorded = json.loads(gzip.decompress(check.KERNELS.read_bytes()))["body"]["cases"]
    answers = [case.pop("answer") for case in recorded]
    assert recorded == list(trials.cases())
    # How many heads are taken at once changes no bit, and a row that is joined from one span is the row.
    alike = [{**case, "together": None, "of": case["of"].replace("join", "form")} for case in recorded]
    assert len(set(answers)) == len(set(map(json.dumps, alike)))
