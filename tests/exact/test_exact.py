# SPDX-License-Identifier: MIT OR Apache-2.0
"""No C library decides a bit, and where the compiled functions are not the record's, no answer is called exact."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bankml.core.engine import Engine, EngineOptions
from bankml.core.exact import check, sweep
from bankml.core.receipts.receipt import receipt
from bankml.core.serve.resident import Resident
from bankml.oracle.kinds.libm import KIND
from bankml.refusal import Refusal

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "tests" / "records"
LATER = "expf(0x1.0000000000000p-15) or after, before expf(0x1.ff9c160000000p-8)"


def child(code: str, *arguments: str, root: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def undefined_symbols(data: bytes) -> Iterator[str]:
    """Names that the object files in these bytes leave to the linker. Source: the ELF-64 object file format."""
    for start in (found.start() for found in re.finditer(rb"\x7fELF\x02", data)):
        (table,), (size, count) = struct.unpack_from("<Q", data, start + 40), struct.unpack_from("<HH", data, start + 58)
        # Of each section: type, offset, size, the section that it refers to.
        sections = [struct.unpack_from("<4xI16xQQI", data, start + table + size * i) for i in range(count)]
        for kind, offset, length, link in sections:
            if kind != 2:
                continue
            for at in range(start + offset, start + offset + length, 24):
                name, section = struct.unpack_from("<I2xH", data, at)
                if section == 0 and name:
                    first = start + sections[link][1] + name
                    yield data[first : data.index(b"\0", first)].decode()


def test_compiled_kernels_call_no_mathematics_of_the_c_library() -> None:
    from bankml.core.model.compile import compile_kernels
    from bankml.kernels.compiler import store

    compile_kernels([(8, 64)], "q8_0")
    objects = list(store.folder().glob("*.o"))
    called = {name for path in objects for name in undefined_symbols(path.read_bytes())}
    names = "acosh? asinh? atanh? atan2 cbrt cosh? erfc? exp exp2 exp10 expm1 hypot log log1p log2 log10 pow sincos sinh? tanh?"
    mathematics = re.compile(rf"({'|'.join(names.split())})[fl]?")
    assert {name for name in called if mathematics.fullmatch(name)} == set()
    assert {"memset", "syscall"} <= called


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler to build another library with")
def test_a_c_library_that_rounds_otherwise_changes_no_bit(tmp_path: Path) -> None:
    library = tmp_path / "another.so"
    source = Path(__file__).with_name("another_libm.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-fno-builtin", "-o", library, source, "-ldl", "-lm"], check=True)
    files = [str(RECORDS / f"{name}.json.gz") for name in ("operations", "attention", "sampler", "libm")]
    code = """
import ctypes, math, sys
from tests.kernels.compare_records import main
here = ctypes.CDLL(None)
here.expf.restype, here.expf.argtypes = ctypes.c_float, [ctypes.c_float]
assert here.expf(0.0) == 1 + 2**-23 and math.exp(0.0) == 1 + 2**-52 and math.pow(3.0, 2.0) == 9 + 2**-49
sys.exit(main())
"""
    done = child(code, *files, LD_PRELOAD=str(library))
    tallies = list(map(json.loads, done.stdout.splitlines()[:-1]))
    assert [tally["identical"] for tally in tallies] == [tally["total"] for tally in tallies]
    assert (done.returncode, len(tallies)) == (0, len(files)), done.stderr[-2000:]


def test_a_function_that_differs_is_refused_with_its_first_argument(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "bankml", tmp_path / "bankml", ignore=shutil.ignore_patterns("__pycache__"))
    changed = tmp_path / "bankml" / "kernels" / "libm" / "functions.py"
    text = changed.read_text()
    assert text.count("0x1.715475f35c8b8p+0") == 1
    changed.write_text(text.replace("0x1.715475f35c8b8p+0", "0x1.715475f35c8b8p+1"))
    code = """
from bankml.core.exact import require
from bankml.refusal import Refusal
try:
    print(require())
except Refusal as refusal:
    print(refusal.code, refusal.exit_code, refusal.line())
print(require(inexact=True))
"""
    done = child(code, root=tmp_path, BANKML_HOME=str(tmp_path / "home"))
    refused, told = done.stdout.splitlines()
    # The first positive float of the sweep, after 0.
    assert refused.startswith("exact.libm 2 the answers would not be exact: log2f differs from the reference machine's")
    assert re.search(r"\(at log2f\(0x1\.\w+p-1\d\d\), found -0x1\.\w+p\+\d, allowed: -0x1\.\w+p\+\d\) - --inexact ", refused)
    assert told.startswith("log2f differs from the reference machine's at log2f(0x1.")
    assert not list((tmp_path / "home").rglob("libm-*.same"))


@pytest.fixture
def another_record(another_machines_libm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "RECORD", another_machines_libm)


def test_agreement_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check.check() is None
    monkeypatch.setattr(check, "first_difference", lambda _: pytest.fail("computed again"))
    assert check.check() is None


@pytest.mark.usefixtures("another_record")
def test_an_answer_that_is_not_exact_is_refused(bankml, smollm2: Path) -> None:
    answer = bankml("generate", smollm2, "Hi", "--max", 2, "--ctx", 512)
    assert (answer.code, answer.out) == (2, "")
    assert f"the answers would not be exact: expf differs from the reference machine's (at {LATER})" in answer.err


@pytest.mark.usefixtures("another_record")
def test_inexact_answers_say_so(bankml, smollm2: Path) -> None:
    answer = bankml("generate", smollm2, "Hi", "--max", 2, "--ctx", 512, "--inexact", "--json")
    told = json.loads(answer.out)
    assert (answer.code, told["exact"], told["completion_tokens"]) == (0, False, 2)
    assert told["inexact"] == f"expf differs from the reference machine's at {LATER}"
    assert f"bankml: the answer is not exact: {told['inexact']}" in answer.err


@pytest.mark.usefixtures("another_record")
def test_inexact_receipts_say_so(smollm2: Path) -> None:
    with pytest.raises(Refusal, match="would not be exact"):
        Engine.open(smollm2, EngineOptions(n_ctx=256))
    with Engine.open(smollm2, EngineOptions(n_ctx=256, inexact=True)) as engine:
        origin = Resident(engine, 3).origin(engine)
    counts = {"prompt_tokens": 1, "completion_tokens": 1, "cache_n": 0, "ttft_ms": 1.0, "wall_ms": 1.0}
    made = receipt(origin, request_sha256="0" * 64, text="", sampling={}, **counts)
    assert made["exact"] is False
    assert made["inexact"].startswith("expf differs")
    assert made["engine"].endswith("not exact here")


def test_exact_answers_say_so(bankml, smollm2: Path) -> None:
    told = json.loads(bankml("generate", smollm2, "Hi", "--max", 1, "--ctx", 512, "--json").out)
    assert told["exact"] is True
    assert "inexact" not in told


def test_every_segment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.loads(gzip.decompress(check.RECORD.read_bytes()))["body"]
    monkeypatch.setattr(sweep, "SEGMENTS", 2)
    body["functions"] = {"sincosf": [body["functions"]["sincosf"][0], "0" * 64]}
    tally = KIND.compare(body, None)
    assert (tally.identical, tally.total, tally.differences) == (1, 2, ["sincosf, segment 1 of 2"])
