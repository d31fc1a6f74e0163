# SPDX-License-Identifier: MIT OR Apache-2.0
"""A model file that another program writes: no answer comes from other bytes than were hashed, and none ends the process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bankml.core.engine import Engine
from bankml.core.gguf.guard import judge
from bankml.core.gguf.reader import GgufFile
from bankml.core.pins import Identity, measure
from bankml.core.refusal import Refusal
from bankml.core.sampling import resolve_params
from bankml.core.serve.resident import Resident

ROOT = Path(__file__).resolve().parents[2]
# A process of its own: where the file were mapped, this would end it by SIGBUS.
SHORTENED = """
import asyncio, os, sys
from pathlib import Path
from tests.model.test_changed_file import ask, opened
from bankml.core.refusal import Refusal
from bankml.core.serve.resident import Resident

path = Path(sys.argv[1])
engine = opened(path)
resident = Resident(engine, 3, lambda: opened(path))
before = ask(engine)
whole = path.read_bytes()
os.truncate(path, 1000)
assert ask(engine) == before
for code in ("serve.file-changed", "gguf.truncated"):
    try:
        asyncio.run(resident.acquire())
    except Refusal as refusal:
        assert (refusal.code, refusal.status) == (code, 503), refusal.code
    else:
        raise AssertionError("answered")
path.write_bytes(whole)
assert ask(asyncio.run(resident.acquire())) == before
resident.close()
"""


def opened(path: Path) -> Engine:
    return Engine.open(path, n_ctx=256, verified=measure(path))


def ask(engine: Engine) -> list[int]:
    params = resolve_params({"temperature": 0}, engine.defaults, engine.tokenizer)
    return engine.complete(engine.tokenizer.encode("Once upon a time"), params, max_tokens=8, cache_prompt=False).run().tokens


def later(path: Path) -> None:
    """Let the clock of change times pass on: what is done to the file from now on has another one."""
    before = path.stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture(scope="module", params=["F16", "F32"])
def made(request: pytest.FixtureRequest, smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = tmp_path_factory.mktemp("made") / f"{request.param}.gguf"
    shape = ("--embd", "64", "--ff", "96", "--heads", "2", "--kv-heads", "1", "--head-dim", "32")
    maker = ROOT / "testing" / "make_model.py"
    subprocess.run([sys.executable, maker, model, "--tokenizer", smollm2, "--type", request.param, *shape], check=True)
    return model


@pytest.fixture
def model(made: Path, tmp_path: Path) -> Path:
    copy = tmp_path / made.name
    copy.write_bytes(made.read_bytes())
    return copy


@pytest.fixture
def engine(model: Path) -> Iterator[Engine]:
    later(model)
    with opened(model) as made:
        yield made


def test_a_file_that_is_cut_short_ends_no_process(model: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", SHORTENED, str(model)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_weights_that_are_written_with_the_time_put_back_are_not_answered_from(engine: Engine, model: Path) -> None:
    before = ask(engine)
    identity = Identity.of(model)
    later(model)
    tensor = engine.gguf.tensors["token_embd.weight"]
    with model.open("r+b") as file:
        file.seek(tensor.offset)
        file.write(bytes(tensor.n_bytes))
    os.utime(model, ns=(identity.mtime_ns, identity.mtime_ns))
    assert model.stat().st_mtime_ns == identity.mtime_ns
    # The weights are a copy, so an answer that has begun is of the bytes that were hashed; and none begins any more.
    assert ask(engine) == before
    with pytest.raises(Refusal, match="changed after it was verified") as refused:
        asyncio.run(Resident(engine, 3).acquire())
    assert refused.value.status == 503


def test_a_file_that_changes_before_it_is_loaded_is_not_answered_from(model: Path) -> None:
    verified = measure(model)
    later(model)
    with pytest.raises(Refusal, match="changed while it was being loaded") as refused:
        Engine.open(model, n_ctx=256, verified=verified)
    assert (refused.value.code, refused.value.status) == ("pin.changed", 503)


def test_weights_are_a_copy_of_the_file(engine: Engine) -> None:
    held = [m for m in engine.model._weights.matrices.values() if not m.kind.packed]
    assert held
    mapped = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    for matrix in held:
        places = [line for line in mapped if int(line[0].split("-")[0], 16) <= matrix.address < int(line[0].split("-")[1], 16)]
        assert [len(line) for line in places] == [5], "a page of a file has its name behind it"


def test_a_header_that_is_cut_short_while_it_is_read_is_refused(model: Path) -> None:
    whole = model.read_bytes()
    with GgufFile.open(model) as file:
        os.truncate(model, 5000)
        for read in (lambda: file.get("tokenizer.ggml.tokens"), lambda: file.data("output_norm.weight")):
            with pytest.raises(Refusal, match="cannot read") as refused:
                read()
            assert refused.value.found == "it was cut short while it was read"
            assert refused.value.exit_code == 1
    assert judge(model).verdict == "need_more"
    model.write_bytes(whole)
    assert judge(model).verdict == "play"
