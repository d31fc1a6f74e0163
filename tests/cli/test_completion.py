# SPDX-License-Identifier: MIT OR Apache-2.0
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bankml.cli.main import main

# Ask each shell's own machinery for what it would offer after these words.
DRIVERS = {
    "bash": 'eval "$(bankml completion bash)"; COMP_WORDS=({words}); COMP_CWORD={index}; _bankml_completion bankml; '
    'printf "%s\\n" "${{COMPREPLY[@]}}"',
    "fish": 'bankml completion fish | source; complete -C "{line}"',
}


def environment():
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


@pytest.mark.parametrize("shell", ["bash", "fish"])
@pytest.mark.parametrize(
    ("words", "offered"), [("bankml or", {"oracle"}), ("bankml oracle com", {"compare"}), ("bankml completion z", {"zsh"})]
)
def test_the_shell_offers(shell, words, offered):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    script = DRIVERS[shell].format(words=words, line=words, index=len(words.split()) - 1)
    done = subprocess.run([shell, "-c", script], capture_output=True, text=True, env=environment(), check=True)
    assert {line.split("\t")[0] for line in done.stdout.splitlines()} == offered, done.stderr


def test_zsh_script_loads_and_its_protocol_answers():
    script = subprocess.run(
        [sys.executable, "-m", "bankml", "completion", "zsh"], capture_output=True, text=True, check=True
    ).stdout
    assert script.lstrip().startswith("#compdef bankml")
    assert "_BANKML_COMPLETE=zsh_complete" in script
    if shutil.which("zsh"):
        subprocess.run(["zsh", "-n"], input=script, text=True, check=True)
    asked = {**environment(), "_BANKML_COMPLETE": "zsh_complete", "COMP_WORDS": "bankml oracle com", "COMP_CWORD": "2"}
    done = subprocess.run(["bankml"], capture_output=True, text=True, env=asked, check=True)
    assert done.stdout.splitlines()[:2] == ["plain", "compare"]


def test_another_shell_is_a_usage_error(capsys):
    assert main(["completion", "tcsh"]) == 1
    assert "bash" in capsys.readouterr().err
