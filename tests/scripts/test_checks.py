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


@pytest.mark.parametrize("name", ["check_headers", "check_imports", "check_places", "check_words", "check_english"])
def test_the_repository_passes(name):
    done = subprocess.run([sys.executable, SCRIPTS / f"{name}.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["command_help", "key_table"])
def test_pages_made_from_the_code_are_in_step(name):
    done = subprocess.run([sys.executable, SCRIPTS / f"{name}.py", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def house(script, tmp_path):
    """Makes a tree of modules from their texts, and gives what the check of imports says of it."""

    def build(modules):
        for name, text in modules.items():
            path = tmp_path / "bankml" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return script("check_imports").check(tmp_path)

    return build


def stating(names):
    return f'"""A room.\n\nMay import: {names}.\n"""\n'


def test_imports_are_found_in_every_form(house):
    found = house(
        {
            "core/gguf/__init__.py": stating("nothing"),
            "core/gguf/a.py": "import bankml.core.serve\nfrom bankml.core import engine\nfrom ..pins import digest\n"
            "def f():\n    import bankml.cli.main\n",
            **{f"{room}/__init__.py": stating("nothing") for room in ("core/serve", "core/engine", "core/pins", "cli")},
        }
    )
    assert [line.split(":")[1] for line in found] == ["1", "2", "3", "5"]


def test_a_room_imports_what_it_states_and_no_room_inside_another(house):
    found = house(
        {
            "a/__init__.py": stating("c"),
            "a/x.py": "from bankml.c.inner import y\nfrom bankml.a import z\nfrom bankml import __version__\n",
            "c/inner/__init__.py": stating("nothing"),
            "b/__init__.py": stating("nothing"),
            "b/inner/__init__.py": stating("nothing"),
            "b/y.py": "from bankml.b.inner import y\n",
        }
    )
    assert found == ["bankml.b.y:1: imports bankml.b.inner.y: b may import no other room"]


def test_what_no_import_needs_and_what_no_statement_covers_is_named(house):
    found = house({"a/__init__.py": stating("b"), "b/__init__.py": stating("nothing"), "c/d.py": "X = 1\n"})
    assert found == ["bankml.c.d: no docstring around it says what it may import", "a: states b and imports nothing of it"]


def test_a_circle_of_statements_is_named(house):
    found = house(
        {
            "a.py": stating("b") + "import bankml.b\n",
            "b.py": stating("c") + "import bankml.c\n",
            "c.py": stating("a") + "import bankml.a\n",
        }
    )
    assert [line.split(": ")[0] for line in found] == ["the rooms form a circle"]


def test_an_argument_word_named_by_a_number_is_found(script, tmp_path):
    kernels = tmp_path / "bankml" / "kernels" / "blocks"
    kernels.mkdir(parents=True)
    (kernels / "x.py").write_text("a = ld_i64(args, 3)\nb = ld_i64(args, BLOCKS)\nst_i64(args, 0, 1)\nc = ld_f32(scale, 0)\n")
    assert [line.split(":")[1] for line in script("check_words").check(tmp_path)] == ["1", "3"]


def test_a_word_that_must_be_read_twice_is_found(script, tmp_path):
    (tmp_path / "a.py").write_text("# what it was told\n# untold\n# Let it be. It lets go of so many\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "b.py").write_text("# told\n")
    found = script("check_english").check(tmp_path, [Path("a.py"), Path("tests/b.py")])
    assert found == ["a.py:1: 'told'", "a.py:3: 'lets go'", "a.py:3: 'so many'"]


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
