# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every command on what stands where a file should: one line that says why, and an exit code of its own."""

import os
import socket
from pathlib import Path

import pytest


def sparse(path):
    path.touch()
    os.truncate(path, 1 << 40)


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


ODD = {
    "missing": lambda path: None,
    "folder": lambda path: path.mkdir(),
    "dead link": lambda path: path.symlink_to("nowhere"),
    "loop": lambda path: path.symlink_to(path.name),
    "empty": lambda path: path.touch(),
    "noise": lambda path: path.write_bytes(bytes(range(256)) * 20),
    "brackets": lambda path: path.write_text("[" * 200_000),
    "digits": lambda path: path.write_text("1" * 10_000),
    "list": lambda path: path.write_text("[1]"),
    "surrogate": lambda path: path.write_text('[{"role": "user", "content": "\\ud800"}]'),
    "sparse": sparse,
    "socket": a_socket,
    "pipe": os.mkfifo,
}
# A pipe is read as a file is, and waited for, where text is wanted.
MODELS = {
    "guard": ["guard", "@"],
    "info": ["info", "@"],
    "verify": ["verify", "@"],
    "pin": ["verify", "#", "--fork", "@"],
    "fork": ["pin", "#", "--fork", "@"],
    "written fork": ["pin", "#", "--write", "--fork", "@"],
    "tokenize": ["tokenize", "@"],
    "detokenize": ["detokenize", "@", "1"],
    "template": ["template", "@"],
    "grammar model": ["grammar", "check", "#", "--model", "@"],
    "generate": ["generate", "--model", "@", "Hi"],
    "bench model": ["bench", "model", "@"],
    "bench start": ["bench", "start", "--reference", "@"],
    "bench constrain": ["bench", "constrain", "@"],
    "pull": ["pull", "file:@"],
    "rm": ["rm", "@", "--yes"],
}
TEXTS = {
    "template file": ["template", "--template-file", "@"],
    "grammar": ["grammar", "check", "@"],
    "schema": ["grammar", "from-schema", "@"],
    "messages": ["generate", "--messages", "@", "--max", "1", "--ctx", "256"],
    "record": ["oracle", "compare", "@"],
}
CASES = [(name, odd) for name in MODELS for odd in ODD if (name, odd) != ("written fork", "missing")] + [
    (name, odd) for name in TEXTS for odd in ODD if odd != "pipe"
]


@pytest.mark.parametrize(("name", "odd"), CASES, ids=lambda word: word.replace(" ", "-"))
def test_odd_files_are_said_in_a_line(bankml, home_with_smollm2, tmp_path, monkeypatch, name, odd):
    # The bytes of this name are short enough for a socket.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bankml.core.pins.files.LARGEST_INPUT", 1 << 20)
    Path("sound").write_text("x")
    ODD[odd](Path("odd.gguf"))
    words = (MODELS | TEXTS)[name]
    answer = bankml(*[word.replace("@", "./odd.gguf").replace("#", "./sound") for word in words])
    # Some of these are sound texts.
    assert answer.code in ((0, 1, 2, 3) if name in TEXTS else (1, 2, 3))
    assert "internal error" not in answer.err
    assert "Traceback" not in answer.err
    if answer.code:
        said = answer.err.splitlines()[-1:] or answer.out.splitlines()[1:]
        assert said and said[-1].strip()
