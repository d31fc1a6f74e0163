# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the guard costs: steps and memory of its own, on large hostile headers and on large real ones."""

import json
import subprocess
import sys

import pytest

from bankml.core.gguf import limits
from bankml.core.gguf.guard import judge
from bankml.core.gguf.types import ARRAY, STRING, U8
from bankml.oracle.cases.guard import gguf, pair, tensor, text, u32, u64
from tests.steps import calls

pytestmark = pytest.mark.long

MIB = 1 << 20
MEASURE = """
import json, sys, tracemalloc
from bankml.core.gguf.guard import judge
tracemalloc.start()
verdict = judge(sys.argv[1])
peak = tracemalloc.get_traced_memory()[1]
print(json.dumps([peak, verdict.reasons[0].code if verdict.reasons else None]))
"""


def strings(count, raw):
    return pair("k", ARRAY, u32(STRING) + u64(count) + (u64(len(raw)) + raw) * count)


def many_keys():
    return [pair(f"{i:05d}" + "k" * 200, STRING, "v" * 300) for i in range(limits.MAX_KV)]


def many_tensors():
    return [tensor(f"{i:058d}", [32, 1, 1, 1], 24, 32 * i) for i in range(limits.MAX_TENSORS)]


EMPTY = "as many empty strings as are allowed"
FILES = {
    "2,000,000 nested arrays": (lambda: gguf([text("k") + u32(9) + (u32(9) + u64(1)) * 2_000_000]), "gguf.array-depth"),
    EMPTY: (lambda: gguf([strings(limits.MAX_STRINGS, b"")]), None),
    "a string of 60 MiB": (lambda: gguf([pair("k", STRING, b"x" * (60 * MIB))]), None),
    "an array of 100 MiB": (lambda: gguf([pair("k", ARRAY, u32(U8) + u64(100 * MIB) + bytes(100 * MIB))]), None),
    "as many keys as are allowed": (lambda: gguf(many_keys()), None),
    "as many tensors as are allowed": (lambda: gguf([], many_tensors(), bytes(32 * limits.MAX_TENSORS)), None),
}


@pytest.mark.parametrize("name", FILES)
def test_memory_of_its_own_stays_below_64_mib(tmp_path, name):
    build, code = FILES[name]
    path = tmp_path / "m.gguf"
    # tracemalloc makes each string dear, and they leave nothing behind.
    path.write_bytes(gguf([strings(limits.MAX_STRINGS // 8, b"")]) if name == EMPTY else build())
    done = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True, timeout=60)
    peak, found = json.loads(done.stdout)
    assert found == code
    assert peak < 64 * MIB


@pytest.mark.parametrize("name", FILES)
def test_even_the_largest_headers_take_few_steps(tmp_path, name):
    path = tmp_path / "m.gguf"
    path.write_bytes(FILES[name][0]())
    # The most take two million calls, one for each of the largest number of strings.
    assert calls(lambda: judge(path)) < 3_000_000


def test_a_hostile_header_cannot_pass_a_limit_on_the_address_space(tmp_path):
    """Counts that lie about terabytes do not even try to allocate them."""
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf([pair("k", ARRAY, u32(STRING) + u64(limits.MAX_STRINGS))]))
    script = (
        "import resource, sys; from bankml.core.gguf.guard import judge; "
        "resource.setrlimit(resource.RLIMIT_DATA, (96 << 20, 96 << 20)); print(judge(sys.argv[1]).verdict)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "need_more\n"


def test_the_real_model_is_judged_in_few_steps(smollm2):
    assert calls(lambda: judge(smollm2)) < 250_000
