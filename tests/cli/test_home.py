# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where files live: never a place that depends on the current directory by accident, and a word where there is none."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from bankml.core import home
from bankml.core.refusal import Refusal


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BANKML_HOME", "BANKML_FORKS"):
        monkeypatch.delenv(name, raising=False)


def test_the_usual_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home.home() == tmp_path / ".local" / "share" / "bankml"
    assert home.forks_dir() == home.home() / "forks"
    monkeypatch.setenv("BANKML_HOME", "~/models")
    assert home.cache_dir() == tmp_path / "models" / "cache"
    monkeypatch.setenv("BANKML_FORKS", "~")
    assert home.forks_dir() == tmp_path


def test_a_relative_name_is_of_the_current_directory_for_good(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BANKML_HOME", "here")
    assert home.home() == tmp_path / "here"


def test_an_empty_home_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "")
    assert home.home() == Path(pwd.getpwuid(os.getuid()).pw_dir) / ".local" / "share" / "bankml"


@pytest.mark.parametrize("relative", ["rel", "./rel", ".."])
def test_a_relative_home_is_refused(monkeypatch: pytest.MonkeyPatch, relative: str) -> None:
    monkeypatch.setenv("HOME", relative)
    with pytest.raises(Refusal, match="the home directory is not an absolute path") as refused:
        home.home()
    assert "BANKML_HOME" in refused.value.line()
    monkeypatch.setenv("BANKML_HOME", "~/x")
    with pytest.raises(Refusal, match="not an absolute path"):
        home.home()


def test_a_user_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch, bankml) -> None:
    monkeypatch.setenv("BANKML_FORKS", "~no-such-user/forks")
    with pytest.raises(Refusal, match="BANKML_FORKS names the home directory of a user that does not exist"):
        home.forks_dir()
    monkeypatch.setenv("BANKML_HOME", "~no-such-user/x")
    answer = bankml("list")
    assert (answer.code, answer.out) == (1, "")
    assert "BANKML_HOME names the home directory of a user that does not exist (found ~no-such-user/x" in answer.err
    assert "set BANKML_HOME to a directory" in answer.err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without an entry")
def test_a_user_without_a_home_is_refused() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "HOME" and not name.startswith("BANKML_")}
    # The interpreter and the package may lie where only root looks, so the user changes after the import.
    code = (
        "import os, sys; from bankml.cli.main import main; import bankml.cli.list, bankml.core.pins; "
        "os.setuid(54321); sys.exit(main(['list']))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("bankml: this user has no home directory (found HOME is not set, uid 54321 is unknown")
    assert "set BANKML_HOME" in done.stderr


def test_what_bankml_makes_is_its_owners_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from bankml.core.pins.files import write_atomic

    monkeypatch.setenv("BANKML_HOME", str(tmp_path / "home"))
    before = os.umask(0)
    try:
        write_atomic(home.forks_dir() / "x", b"")
    finally:
        os.umask(before)
    assert [each.stat().st_mode & 0o777 for each in (home.home(), home.forks_dir())] == [0o755, 0o755]
