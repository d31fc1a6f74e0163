# SPDX-License-Identifier: MIT OR Apache-2.0
"""What arguments may hold: text is UTF-8 or refused, on every command; names of files and models are any bytes."""

import io
import os
import sys

import click
import pytest

from bankml.cli import inputs
from bankml.cli.main import cli
from bankml.cli.values import FILE, MODEL, TEXT
from bankml.core.pins import files
from bankml.core.refusal import Refusal

BAD = os.fsdecode(b"caf\xe9")


def commands(command=cli, path=()):
    """(words, command) of everything that can be called."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        yield from commands(command.get_command(context, name), (*path, name))


PARAMETERS = [
    pytest.param(path, command, parameter, id=f"{' '.join(path)}: {parameter.name}")
    for path, command in commands()
    for parameter in command.params
    if not getattr(parameter, "is_flag", False)
]
NUMBERS = (click.types.IntParamType, click.types.FloatParamType)


@pytest.mark.parametrize(("path", "command", "parameter"), PARAMETERS)
def test_every_argument_is_text_or_a_name_or_one_of_some_words(path, command, parameter):
    kind = parameter.type
    assert kind in (TEXT, MODEL, FILE) or isinstance(kind, (click.Choice, *NUMBERS)), kind


def words_of(command, parameter, value):
    """A command line that gives ``value`` to the parameter, and something to all that it cannot do without."""
    words = []
    for other in command.params:
        mine = value if other is parameter else "x" if other.required or isinstance(other, click.Argument) else None
        if mine is not None:
            words += [max(other.opts, key=len), mine] if isinstance(other, click.Option) else [mine]
    return words


@pytest.mark.parametrize(("path", "command", "parameter"), [each for each in PARAMETERS if each.values[2].type is TEXT])
def test_text_that_is_not_utf8_is_refused(path, command, parameter):
    with pytest.raises(Refusal) as caught:
        cli.main([*path, *words_of(command, parameter, BAD)], "bankml", standalone_mode=False)
    assert (caught.value.code, caught.value.exit_code) == (f"{path[0]}.utf8", 2)
    assert (caught.value.where.rpartition(", ")[2], caught.value.found) == ("byte 3", "0xe9")
    name = max(parameter.opts, key=len) if isinstance(parameter, click.Option) else parameter.human_readable_name
    assert name in caught.value.where


@pytest.mark.parametrize("asked", [["generate", BAD], ["generate", "x.gguf", BAD], ["generate", "--raw", "--model", "x", BAD]])
def test_a_prompt_that_is_not_utf8_is_refused(bankml, asked):
    answer = bankml(*asked, "--json")
    assert (answer.code, '"code": "generate.utf8"' in answer.out) == (2, True)


def test_names_of_files_and_models_are_any_bytes(bankml, tmp_path):
    file = tmp_path / BAD
    file.write_text('root ::= "a"')
    assert bankml("grammar", "check", file).code == 0
    assert "caf\\udce9" in bankml("sha256", file, "--json").out
    answer = bankml("info", file)
    assert (answer.code, "not a GGUF file" in answer.err) == (2, True)
    assert bankml("pin", file, "--fork", tmp_path / f"{BAD}.json", "--write").code == 0
    assert "caf\\udce9" in bankml("verify", BAD).err


@pytest.fixture
def stdin(monkeypatch):
    def set_to(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))

    return set_to


@pytest.mark.parametrize(
    ("given", "prompt"),
    [
        (b"a", "a"),
        (b"a\n", "a"),
        (b"a\n\n", "a\n"),
        (b"a\r\n", "a\r"),
        (b"a \n", "a "),
        (b"\n", ""),
        (b"", ""),
        (b"a\nb", "a\nb"),
        (b"a\r", "a\r"),
        ("a\u2028".encode(), "a\u2028"),
    ],
)
def test_one_line_end_is_taken_off_a_prompt_that_is_piped(stdin, given, prompt):
    from bankml.cli.prompt_arguments import chat_of

    stdin(given)
    assert chat_of(None, None, None, raw=True) == prompt
    stdin(given)
    assert chat_of(None, None, None, raw=False) == [{"role": "user", "content": prompt}]


def test_a_prompt_that_is_an_argument_stays_as_it_is():
    from bankml.cli.prompt_arguments import chat_of

    assert chat_of(None, "a\n", None, raw=True) == "a\n"


@pytest.mark.parametrize(
    "asked",
    [
        ["tokenize", "--file", "/dev/zero"],
        ["template", "--template-file", "/dev/zero"],
        ["grammar", "check", "/dev/zero"],
        ["grammar", "from-schema", "/dev/zero"],
        ["generate", "--messages", "/dev/zero"],
        ["generate", "Hi", "--grammar", "/dev/zero"],
        ["generate", "Hi", "--schema", "/dev/zero"],
        ["oracle", "compare", "/dev/zero"],
    ],
    ids=" ".join,
)
def test_what_has_no_end_is_refused(bankml, home_with_smollm2, monkeypatch, asked):
    monkeypatch.setattr(files, "LARGEST_INPUT", 1 << 16)
    answer = bankml(*asked)
    assert (answer.code, answer.out) == (2, "")
    assert "more than 65536 bytes" in answer.err
    assert "/dev/zero" in answer.err


def test_as_much_as_may_be_read_is_read(stdin, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_INPUT", 10)
    stdin(b"x" * 10)
    assert inputs.read_stdin() == b"x" * 10
    stdin(b"x" * 11)
    with pytest.raises(Refusal, match="more text than a command reads"):
        inputs.read_stdin()
    stdin(b"123456789\n123456789\n")
    assert list(inputs.stdin_lines()) == [b"123456789\n"] * 2
    stdin(b"12345678901\n")
    with pytest.raises(Refusal, match="more text than a command reads"):
        list(inputs.stdin_lines())
