# SPDX-License-Identifier: MIT OR Apache-2.0
"""The ``bankml`` command: finds the subcommand's file, imports only that, turns a Refusal into a line and an exit code."""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

import click

from bankml import __version__
from bankml.core.refusal import EXIT_OTHER, Refusal

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


def _wants_json(argv: list[str]) -> bool:
    return "--json" in argv


def _report(refusal: Refusal, argv: list[str]) -> None:
    if _wants_json(argv):
        print(json.dumps({"verdict": "refuse", "reason": refusal.message, "bankml": __version__, **refusal.as_dict()}))
    print(f"bankml: {refusal.line()}", file=sys.stderr)


def main(argv: list[str] | None = None) -> int:
    """Run one command line; returns the exit code. No traceback ever reaches the user unless BANKML_DEBUG is set."""
    args = sys.argv[1:] if argv is None else argv
    try:
        code: Any = cli.main(args=args, prog_name="bankml", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        print("bankml: stopped", file=sys.stderr)
        return 130
    except click.ClickException as error:
        error.show()
        return EXIT_OTHER
    except Refusal as refusal:
        _report(refusal, args)
        return refusal.exit_code
    except KeyboardInterrupt:
        print("bankml: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader went away (`bankml ... | head`): not an error, and nothing more can be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OTHER
    except OSError as error:
        if os.environ.get("BANKML_DEBUG"):
            raise
        name = f" {error.filename}" if error.filename else ""
        print(f"bankml: cannot read or write{name}: {error.strerror or error}", file=sys.stderr)
        return EXIT_OTHER
    except Exception as error:
        if os.environ.get("BANKML_DEBUG"):
            raise
        print(f"bankml: internal error: {type(error).__name__}: {error} - BANKML_DEBUG=1 shows where", file=sys.stderr)
        return EXIT_OTHER


def entry() -> None:
    """The console script."""
    raise SystemExit(main())


if __name__ == "__main__":
    entry()
