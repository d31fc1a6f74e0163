# SPDX-License-Identifier: MIT OR Apache-2.0
"""What every test may ask for: a home of its own, the real default model, the command line.

All tests share one BANKML_HOME (``.models`` in the repository, or ``BANKML_TEST_HOME``): the model is fetched once, the
kernels are compiled once. The user's own store is never touched. A test that changes the store asks for ``own_home``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest

SHARED_HOME = Path(os.environ.get("BANKML_TEST_HOME") or Path(__file__).parent.parent / ".models").resolve()
os.environ["BANKML_HOME"] = str(SHARED_HOME)
os.environ.pop("BANKML_FORKS", None)
# The same examples on every run of the continuous integration; by hand, new ones each time.
hypothesis.settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    hypothesis.settings.load_profile("ci")


@dataclass(frozen=True)
class Answer:
    """What a command line gave."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The verified SmolLM2-135M-Instruct.Q4_1.gguf, fetched by bankml's own ``pull`` if it is not there yet."""
    from bankml.core.pins import pull

    return pull()


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty BANKML_HOME for this test alone; compiled kernels are still the shared ones."""
    home = tmp_path / "home"
    home.mkdir()
    shared = SHARED_HOME / "cache"
    shared.mkdir(parents=True, exist_ok=True)
    (home / "cache").mkdir()
    for entry in shared.iterdir():
        if entry.name != "partial":
            (home / "cache" / entry.name).symlink_to(entry)
    monkeypatch.setenv("BANKML_HOME", str(home))
    monkeypatch.delenv("BANKML_FORKS", raising=False)
    return home


@pytest.fixture
def home_with_smollm2(own_home: Path, smollm2: Path) -> Path:
    """An own BANKML_HOME that holds the default model and its pin; returns the home."""
    (own_home / "models").mkdir()
    (own_home / "models" / smollm2.name).symlink_to(smollm2)
    pin = SHARED_HOME / "forks" / f"{smollm2.name}.FORK.json"
    (own_home / "forks").mkdir()
    (own_home / "forks" / pin.name).write_bytes(pin.read_bytes())
    return own_home


@pytest.fixture
def bankml(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Run a command line in this process: ``bankml("verify", path)``."""
    from bankml.cli.main import main

    def run(*args: object) -> Answer:
        capsys.readouterr()
        code = main([str(arg) for arg in args])
        said = capsys.readouterr()
        return Answer(code, said.out, said.err)

    return run
