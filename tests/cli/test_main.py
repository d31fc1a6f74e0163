# SPDX-License-Identifier: MIT OR Apache-2.0
import errno
import subprocess
import sys

import click
import pytest

from bankml import __version__
from bankml.cli import main as cli_main
from bankml.cli.main import COMMANDS, main
from bankml.core.refusal import Refusal

HEAVY = ("numpy", "numba", "requests", "starlette", "uvicorn", "tqdm")


def raising(monkeypatch, error):
    @click.command("broken")
    @click.option("--json", "as_json", is_flag=True)
    def command(as_json):
        raise error

    monkeypatch.setattr(cli_main.cli, "get_command", lambda ctx, name: command)


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"bankml {__version__}\n"


def test_help_names_every_command(capsys):
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed for name in COMMANDS)


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"], ["bench", "model", "--rounds", "none"], ["completion"]])
def test_a_usage_error_is_exit_code_1(arguments, capsys):
    assert main(arguments) == 1
    assert "Usage:" in capsys.readouterr().err


@pytest.mark.parametrize("code", [1, 2, 3])
def test_a_refusal_is_one_line_and_its_exit_code(monkeypatch, capsys, code):
    raising(monkeypatch, Refusal("x.y", "no such thing", found="a\nb", exit_code=code))
    assert main(["broken"]) == code
    assert capsys.readouterr().err == "bankml: no such thing (found a\\nb)\n"


def test_a_refusal_as_json(monkeypatch, capsys):
    raising(monkeypatch, Refusal("x.y", "no such thing"))
    assert main(["broken", "--json"]) == 2
    assert '"code": "x.y"' in capsys.readouterr().out


@pytest.mark.parametrize(
    "error", [FileNotFoundError(2, "No such file", "m.gguf"), PermissionError(13, "denied"), ValueError("?")]
)
def test_no_error_is_a_traceback(monkeypatch, capsys, error):
    monkeypatch.delenv("BANKML_DEBUG", raising=False)
    raising(monkeypatch, error)
    assert main(["broken"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("bankml: ")
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "out of memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "out of memory"),
        (RuntimeError("can't start new thread"), "out of memory"),
        (ImportError("libx.so: failed to map segment from shared object"), "out of memory"),
        (OverflowError("timestamp too large to convert to C _PyTime_t"), "the clock of this machine"),
        (OverflowError("int too large"), "internal error: OverflowError"),
        (ImportError("No module named x"), "internal error: ImportError"),
        (RuntimeError("a\x1b[31m\nb"), "internal error: RuntimeError: a\\x1b[31m\\nb"),
        (OSError(errno.ENOENT, "No such file", "a\nb\udce9"), "cannot read or write a\\nb\\udce9: No such file"),
    ],
)
def test_what_no_command_expects_is_one_plain_line(monkeypatch, capsys, error, said):
    monkeypatch.delenv("BANKML_DEBUG", raising=False)
    raising(monkeypatch, error)
    assert main(["broken"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"bankml: {said}")
    assert printed.count("\n") == 1


def test_a_library_that_was_not_mapped_behind_another_error_is_want_of_memory(monkeypatch, capsys):
    error = ImportError("Importing the numpy C-extensions failed.")
    error.__cause__ = ImportError("libx.so: failed to map segment from shared object")
    raising(monkeypatch, error)
    assert main(["broken"]) == 1
    assert capsys.readouterr().err.startswith("bankml: out of memory")


def test_an_interrupt_is_130(monkeypatch, capsys):
    raising(monkeypatch, KeyboardInterrupt())
    assert main(["broken"]) == 130


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in COMMANDS)], ids=" ".join)
def test_help_imports_nothing_heavy(arguments):
    program = (
        "import sys; from bankml.cli.main import main; code = main(sys.argv[1:]);"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage:")
    assert done.stderr.splitlines()[-1] == "[]"
