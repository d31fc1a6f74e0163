# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command as a process: its standard streams closed, full or in another encoding, little memory, an odd clock."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

BANKML = [sys.executable, "-m", "bankml"]
# Python with an ASCII file system encoding: as in a locale that is not UTF-8, without a need of one.
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def run(arguments, data=b"", environment=None, closing=""):
    words = [os.fsencode(word) for word in (*BANKML, *arguments)]
    return subprocess.run(
        ["bash", "-c", f'"$@" {closing}', "bash", *words],
        input=data,
        capture_output=True,
        env={**os.environ, **(environment or {})},
        check=False,
    )


def plain(done):
    """Neither a traceback nor an internal error reached the user."""
    said = done.stdout + done.stderr
    return not any(word in said for word in (b"internal error", b"Traceback", b"Exception ignored"))


@pytest.fixture(scope="module")
def pieces(smollm2):
    return run(["tokenize", smollm2, "--pieces"], "猫 é".encode()).stdout


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16"])
def test_stdout_is_utf8_whatever_python_is_told(smollm2, pieces, encoding):
    assert "é".encode() in pieces
    done = run(["tokenize", smollm2, "--pieces"], "猫 é".encode(), {"PYTHONIOENCODING": encoding})
    assert (done.returncode, done.stdout) == (0, pieces)


def test_an_answer_is_utf8_too(home_with_smollm2):
    asked = ["generate", "--raw", "--max", "3", "猫 犬 鳥 猫 犬 鳥"]
    answers = [run(asked, environment={"PYTHONIOENCODING": encoding}) for encoding in ("utf-8", "ascii")]
    assert [answer.returncode for answer in answers] == [0, 0]
    assert answers[0].stdout == answers[1].stdout != answers[1].stdout.decode().encode("ascii", "ignore")


@pytest.mark.parametrize("environment", [{}, ASCII], ids=["utf-8", "ascii"])
def test_a_path_is_printed_with_the_bytes_that_it_has(tmp_path, environment):
    names = [os.fsencode(tmp_path) + b"/" + name for name in ("é".encode(), b"\xe9", "猫".encode())]
    for name in names:
        Path(os.fsdecode(name)).write_bytes(b"x")
    told = subprocess.run([b"sha256sum", *names], capture_output=True, check=True).stdout
    assert run(["sha256", *names], environment=environment).stdout == told


def test_text_is_utf8_in_any_locale(smollm2, tmp_path):
    template = tmp_path / "now"
    template.write_text("{{ messages[0].content }}")
    grammar = tmp_path / "é.gbnf"
    grammar.write_text('root ::= "é"')
    for environment in ({}, ASCII):
        assert run(["grammar", "check", grammar, "--root", "é"], environment=environment).returncode == 2
        assert "é".encode() in run(["grammar", "check", grammar, "--root", "é"], environment=environment).stderr


@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("name", ["list", "verify", "tokenize", "generate", "nonsense"])
def test_closed_streams(home_with_smollm2, name, closing):
    model = "smollm2-135m-instruct"
    asked = {
        "list": ["list", "--json"],
        "verify": ["verify", model],
        "tokenize": ["tokenize", model],
        "generate": ["generate", "--max", "1", "Hi"],
        "nonsense": ["nonsense"],
    }[name]
    usual, done = run(asked), run(asked, closing=closing)
    assert plain(done)
    assert done.returncode == usual.returncode == (name == "nonsense")
    assert done.stdout == (b"" if ">&-" in closing.split() else usual.stdout)


def test_a_closed_stream_is_no_file_that_is_opened_later(tmp_path):
    """The number of a closed stream is not given to the next file, which a child process would take for its stream."""
    code = (
        "from bankml.cli import streams; streams.prepare();"
        "import os, sys; print(open(sys.argv[1]).fileno() > 2, [os.path.realpath(f'/proc/self/fd/{n}') for n in (0, 2)])"
    )
    closed = f'exec "{sys.executable}" -c "$1" "$2" <&- 2>&-'
    done = subprocess.run(["bash", "-c", closed, "bash", code, __file__], capture_output=True, text=True, check=True)
    assert done.stdout == "True ['/dev/null', '/dev/null']\n"


@pytest.mark.parametrize("asked", [["list"], ["--help"], ["verify", "nothing", "--json"], ["completion", "bash"]], ids=" ".join)
@pytest.mark.usefixtures("smollm2")
def test_a_full_disk_behind_stdout_is_one_line(asked):
    done = run(asked, closing=">/dev/full")
    assert done.returncode == 1
    assert plain(done)
    assert b"No space left on device" in done.stderr


@pytest.mark.parametrize("asked", [["verify", "nothing"], ["nonsense"], ["verify", "nothing", "--json"]], ids=" ".join)
def test_a_full_disk_behind_stderr_changes_no_exit_code(asked):
    usual, done = run(asked), run(asked, closing="2>/dev/full")
    assert (done.returncode, done.stdout) == (usual.returncode, usual.stdout)


def test_a_reader_that_goes_away_is_no_error():
    done = subprocess.run(
        ["bash", "-c", '"$@" | true; exit "${PIPESTATUS[0]}"', "bash", *BANKML, "--help"], capture_output=True, check=False
    )
    assert done.returncode in (0, 1)
    assert done.stderr == b""


@pytest.mark.parametrize("room", [0, 4 << 20, 8 << 20, 16 << 20, 24 << 20], ids=lambda room: f"{room >> 20}MiB")
def test_little_memory_is_one_line(smollm2, room):
    """A process that may take so little more than it has cannot load what `info` needs."""
    code = f"""
import resource, sys
from bankml.cli.main import main
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + {room},) * 2)
sys.exit(main(["info", sys.argv[1]]))
"""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code, smollm2], capture_output=True, env=environment, check=False)
    assert plain(done)
    assert done.returncode == 1, done.stderr


CLOCK = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    long code = syscall(SYS_clock_gettime, id, now);
    if (code == 0 && id == CLOCK_REALTIME) now->tv_sec += atol(getenv("CLOCK_SHIFT"));
    return (int)code;
}
"""


@pytest.fixture(scope="module")
def clock(tmp_path_factory):
    """A library that sets the clock of a process."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("clock")
    (folder / "clock.c").write_text(CLOCK)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "clock.so", folder / "clock.c"], check=True)
    return folder / "clock.so"


@pytest.mark.parametrize("years", [-70, 30, 250, 9000])
def test_any_clock(home_with_smollm2, clock, years):
    moved = {"LD_PRELOAD": str(clock), "CLOCK_SHIFT": str(years * 31_556_952)}
    assert run(["list"], environment=moved).returncode == 0
    done = run(["generate", "--max", "1", "Hi"], environment=moved)
    assert plain(done)
    assert (done.returncode, b"clock" in done.stderr) == ((1, True) if years > 230 else (0, False))
