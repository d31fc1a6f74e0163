# SPDX-License-Identifier: MIT OR Apache-2.0
"""The checks of ``make check`` catch what they are for, and pass on this repository."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPTS = ROOT / "scripts"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module


@pytest.mark.parametrize("name", ["check_headers", "check_imports", "check_places"])
def test_the_repository_passes(name):
    done = subprocess.run([sys.executable, SCRIPTS / f"{name}.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["command_help", "key_table"])
def test_pages_made_from_the_code_are_in_step(name):
    done = subprocess.run([sys.executable, SCRIPTS / f"{name}.py", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("bankml.kernels.simd", "bankml.core.refusal"),
        ("bankml.kernels.simd", "bankml"),
        ("bankml.core.gguf.reader", "bankml.core.pins.digest"),
        ("bankml.core.model.plan", "bankml.core.engine"),
        ("bankml.core.text.tokenizer", "bankml.core.model"),
        ("bankml.core.engine.slot", "bankml.core.serve.app"),
        ("bankml.core.serve.app", "bankml.core.oracle.kind"),
        ("bankml.core.home", "bankml.core.gguf"),
        ("bankml.core.gguf.reader", "bankml.cli.main"),
        ("bankml.cli.info", "bankml.kernels.simd"),
    ],
)
def test_an_import_that_points_outward_is_an_objection(script, source, target):
    assert script("check_imports").objection(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("bankml.kernels.q8_0", "bankml.kernels.simd"),
        ("bankml.core.model.plan", "bankml.kernels.simd"),
        ("bankml.core.model.plan", "bankml.core.gguf.reader"),
        ("bankml.core.pins.verify", "bankml.core.refusal"),
        ("bankml.core.engine.slot", "bankml.core.sampling"),
        ("bankml.core.serve.app", "bankml.core.engine"),
        ("bankml.core.oracle.kinds.serve", "bankml.core.serve.app"),
        ("bankml.cli.serve", "bankml.core.serve.app"),
        ("bankml.cli.main", "bankml"),
    ],
)
def test_an_import_that_points_inward_is_none(script, source, target):
    assert script("check_imports").objection(source, target) is None


def test_imports_are_found_in_every_form(script, tmp_path):
    package = tmp_path / "bankml" / "core" / "gguf"
    package.mkdir(parents=True)
    (package / "a.py").write_text(
        "import bankml.core.serve\nfrom bankml.core import engine\nfrom ..pins import digest\n"
        "def f():\n    import bankml.cli.main\n"
    )
    assert [line.split(":")[1] for line in script("check_imports").check(tmp_path)] == ["1", "2", "3", "5"]


def test_a_machine_path_and_a_registry_are_found(script):
    places = script("check_places")
    assert places.MACHINE_PATHS.search("see " + "/home" + "/ann/models/a.gguf")
    assert places.MACHINE_PATHS.search("open(" + "/root" + "/x)")
    assert not places.MACHINE_PATHS.search("GET /v1/models, ~/.local/share/bankml, https://example.org/work/x")
    assert places.REGISTRIES.search("https://registry." + "npmjs.org/x")


def test_help_pages_hold_every_command(script):
    from bankml.cli.main import COMMANDS

    page = script("command_help").page()
    for name in COMMANDS:
        assert f"\n## bankml {name}\n" in page
    assert "\n## bankml oracle compare\n" in page
