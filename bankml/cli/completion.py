# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml completion``: the shell completion script."""

from __future__ import annotations

import click


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a shell completion script.

    \b
    bash:  eval "$(bankml completion bash)" in ~/.bashrc
    zsh:   eval "$(bankml completion zsh)" in ~/.zshrc
    fish:  bankml completion fish > ~/.config/fish/completions/bankml.fish
    """
    from click.shell_completion import get_completion_class

    from bankml.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(cli, {}, "bankml", "_BANKML_COMPLETE")
    # Not .source(), which starts a bash to ask its version: the script is for the shell that reads it.
    click.echo(script.source_template % script.source_vars())
