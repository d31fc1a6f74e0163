# SPDX-License-Identifier: MIT OR Apache-2.0
"""The ``bankml`` command: finds the subcommand's file, imports only that, turns a Refusal into a line and an exit code."""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
import sys
from typing import Any

import click

from bankml import __version__
from bankml.cli import streams
from bankml.core.refusal import EXIT_OTHER, Refusal, printable

EXIT_STOPPED = 130

# name -> (module in bankml.cli, one line of help); the module holds a click command named `command`.
COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("serve", "Answer over HTTP from a verified model."),
    "generate": ("generate", "Answer one prompt on the terminal."),
    "pull": ("pull", "Fetch a model, check its sha256, pin it."),
    "list": ("list", "List the models on this machine."),
    "rm": ("rm", "Remove a model and its pin."),
    "verify": ("verify", "Guard a model file, hash it, hold it to its pin."),
    "guard": ("guard", "Judge a GGUF file by its header alone."),
    "pin": ("pin", "Hold a file's sha256 to its record, or write one."),
    "sha256": ("sha256", "Print the sha256 of files."),
    "info": ("info", "Say what a model is and whether it plays."),
    "tokenize": ("tokenize", "Turn text into token ids."),
    "detokenize": ("detokenize", "Turn token ids into text."),
    "template": ("template", "Render a chat template over messages."),
    "grammar": ("grammar", "Check a grammar, or make one from a JSON schema."),
    "oracle": ("oracle", "Record the reference's answers, compare ours with them."),
    "bench": ("bench", "Measure speed, as a ratio to the reference."),
    "completion": ("completion", "Print a shell completion script."),
}


class _Lazy(click.Group):
    """A group that imports a subcommand only when it is called, so that ``--help`` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"bankml.cli.{COMMANDS[name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", message="bankml %(version)s")
def cli() -> None:
    """Answer from GGUF language models with the bits of llama.cpp b11192, and prove it.

    Exit codes: 0 done, 2 refused, 3 truncated input, 1 anything else.
    """


def main(argv: list[str] | None = None) -> int:
    """Run one command line; returns the exit code. No traceback ever reaches the user unless BANKML_DEBUG is set."""
    args = sys.argv[1:] if argv is None else argv
    try:
        code = _run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader went away (`bankml ... | head`): nobody is there to read of an error.
        streams.finish_stdout()
        return EXIT_OTHER
    except Exception as error:
        if os.environ.get("BANKML_DEBUG"):
            raise
        _say(_fault(error))
        streams.finish_stdout()
        return EXIT_OTHER
    return code


def _run(args: list[str]) -> int:
    try:
        code: Any = cli.main(args=args, prog_name="bankml", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt):
        _say("stopped")
        return EXIT_STOPPED
    except click.ClickException as error:
        with contextlib.suppress(OSError):
            error.show()
        return EXIT_OTHER
    except Refusal as refusal:
        if "--json" in args:
            members = {"verdict": "refuse", "reason": refusal.message, "bankml": __version__, **refusal.as_dict()}
            print(json.dumps(members))
        _say(refusal.line())
        return refusal.exit_code
    return code if isinstance(code, int) else 0


def _fault(error: Exception) -> str:
    """One line about an error that no command expects."""
    if _is_want_of_memory(error):
        return "out of memory: this machine, or the limits of this process, do not give enough of it"
    if isinstance(error, OverflowError) and str(error).startswith("timestamp "):
        return "the clock of this machine is set to a year that Python does not count: it ends with 2262"
    if isinstance(error, OSError):
        name = f" {error.filename}" if error.filename else ""
        return f"cannot read or write{name}: {error.strerror or error}"
    return f"internal error: {type(error).__name__}: {error} - BANKML_DEBUG=1 shows where"


def _is_want_of_memory(error: BaseException) -> bool:
    """Whether memory was refused; for a library or a thread that found no room Python and the linker have words of their own."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    if isinstance(error, RuntimeError):
        return str(error) == "can't start new thread"
    if isinstance(error, ImportError):
        return "failed to map segment" in str(error) or (error.__cause__ is not None and _is_want_of_memory(error.__cause__))
    return False


def _say(line: str) -> None:
    """A line on stderr, where it can be written."""
    with contextlib.suppress(OSError):
        print(f"bankml: {printable(line)}", file=sys.stderr)


def entry() -> None:
    """The console script."""
    streams.prepare()
    # numpy's linear algebra is not used here; the threads that it starts for it take memory and time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    raise SystemExit(main())


if __name__ == "__main__":
    entry()
