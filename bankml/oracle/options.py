# SPDX-License-Identifier: MIT OR Apache-2.0
"""Options of a kind of oracle: each has a name, a default and a form; whatever else is given is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bankml.refusal import EXIT_OTHER, Refusal


@dataclass(frozen=True)
class Form:
    """What the value of an option may be.

    Attributes:
        words: the form in words.
        fits: whether a JSON value has it.
    """

    words: str
    fits: Callable[[Any], bool]


def _number(value: Any) -> bool:
    return type(value) is int and value >= 0


def _positive(value: Any) -> bool:
    return type(value) is int and value > 0


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


_numbers = _list_of(_number)

NUMBER = Form("a whole number from 0", _number)
POSITIVE = Form("a whole number from 1", _positive)
SWITCH = Form("true or false", lambda value: type(value) in (bool, int) and value in (0, 1))
TEXT = Form("a text", _text)
NAMES = Form("a name, or a JSON list of names", lambda value: _text(value) or _list_of(_text)(value))
NUMBERS = Form("a JSON list of whole numbers", _numbers)
ROWS = Form("a JSON list of lists of whole numbers", _list_of(_numbers))
NUMBERS_BY_NAME = Form(
    "a JSON object of lists of whole numbers", lambda value: isinstance(value, dict) and all(map(_numbers, value.values()))
)


def choice(*words: str) -> Form:
    """One of these words."""
    return Form(", ".join(words), lambda value: value in words)


@dataclass(frozen=True)
class Option:
    """One option; ``default`` counts where it is not given, and need not have the form."""

    form: Form
    default: Any = None


Options = Mapping[str, Option]


_NONE: Options = MappingProxyType({})


def declared(shared: Options = _NONE, /, **own: Option) -> Options:
    """The options of a kind: those that it shares with others, and its own."""
    return MappingProxyType({**shared, **own})


def resolved(kind: str, options: Options, given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every option.

    Raises:
        Refusal: the kind has no such option, or the value has another form.
    """
    for name, value in given.items():
        if name not in options:
            allowed = ", ".join(options) or "no option"
            raise _refused(f"the kind {kind!r} has no such option", name, name, allowed)
        if not options[name].form.fits(value):
            raise _refused(f"the option of the kind {kind!r} has another form", name, repr(value), options[name].form.words)
    return {name: given.get(name, option.default) for name, option in options.items()}


def refuse_idle(options: Options, values: Mapping[str, Any], names: tuple[str, ...], why: str) -> None:
    """Refuse those of the options that would change nothing here, as where there is no model.

    Raises:
        Refusal: one of them is not the default.
    """
    for name in names:
        if values[name] != options[name].default:
            raise _refused(f"the option means nothing {why}", name, repr(values[name]), "absent")


def files_in(folder: str, pattern: str) -> list[Path]:
    """The files of a folder that an option names.

    Raises:
        Refusal: there are none.
    """
    found = sorted(Path(folder).glob(pattern))
    if not found:
        raise Refusal("oracle.folder", "no such files there", where=folder, allowed=pattern, exit_code=EXIT_OTHER)
    return found


def _refused(message: str, name: str, found: str, allowed: str) -> Refusal:
    return Refusal("oracle.option", message, where=f"--set {name}", found=found, allowed=allowed, exit_code=EXIT_OTHER)
