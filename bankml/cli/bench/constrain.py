# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml bench constrain``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from bankml.cli.bench import options
from bankml.cli.values import MODEL

if TYPE_CHECKING:
    from bankml.bench.constrain import Costs


@click.command("constrain")
@click.argument("model", type=MODEL, required=False)
@click.option("-r", "--rounds", type=options.POSITIVE, default=5, show_default=True, help="Repetitions.")
@options.threads
@options.as_json
def bench_constrain(model: str | None, rounds: int, threads: int, as_json: bool) -> None:
    """Measure what constraints cost: the trie, masks, a schema's grammar, the sampler chain with logprobs.

    MODEL is a name from `bankml list` or a path; none means the default model. A file that has only a vocabulary will do, but
    then there is no token's time to compare the chain with.
    """
    from bankml.bench.constrain import measure_constraints
    from bankml.core.pins import resolve_model

    costs = measure_constraints(resolve_model(model), threads, rounds)
    click.echo(json.dumps(costs.as_dict(), indent=2) if as_json else _text(costs))


def _text(costs: Costs) -> str:
    first, every = costs.first_masks, costs.masks
    lines = [
        f"{costs.model.name}: {costs.vocabulary} tokens; milliseconds, median (least-greatest)",
        options.row("trie of the vocabulary", costs.trie.text()),
        options.row("a grammar's first mask", f"{first.text(3)} of {len(first.values)}"),
        options.row("a mask", f"{every.text(3)} of {len(every.values)}"),
        options.row(f"schema of {costs.rules} rules", costs.schema.text()),
        options.row("chain", costs.chain.text(3)),
        options.row("chain with logprobs", costs.logprobs.text(3)),
    ]
    if costs.token is not None:
        # Of its least: other processes make a token's time longer, and the share smaller than it is.
        share = 100 * costs.logprobs.median / costs.token.spread[0]
        lines.append(options.row("a token of the model", f"{costs.token.text(2)} on {costs.threads} threads"))
        lines.append(options.row("chain with logprobs", f"{share:.1f} % of the least"))
    return "\n".join(lines)
