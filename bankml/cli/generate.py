# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml generate``: one answer on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bankml.cli.engine_options import Opening, engine_options
from bankml.cli.inputs import read_file
from bankml.cli.output import to_json
from bankml.cli.prompt_arguments import chat_of, model_and_prompt
from bankml.cli.sampling_flags import sampling_flags, sampling_request
from bankml.cli.values import FILE, MODEL, TEXT

if TYPE_CHECKING:
    from bankml.core.answers.content import Content
    from bankml.core.engine import Completion, Engine
    from bankml.core.engine.chat import Chat


@click.command("generate")
@click.argument("words", metavar="[MODEL] [PROMPT]", type=MODEL, nargs=-1)
@click.option("--model", "model_option", metavar="MODEL", type=MODEL, help="The model; then the one argument is the prompt.")
@click.option("--messages", metavar="FILE", type=FILE, help="A JSON list of chat messages; - for stdin.")
@click.option("--system", metavar="TEXT", type=TEXT, help="A system message before the prompt.")
@click.option("--raw", is_flag=True, help="Continue the prompt as it is, without the chat template.")
@click.option("--max", "max_tokens", metavar="N", type=click.IntRange(min=-1), default=256, show_default=True,
              help="The most tokens to generate; -1 until the context is full.")  # fmt: skip
@click.option("--stop", metavar="TEXT", type=TEXT, multiple=True, help="End the answer before this text. May be given again.")
@sampling_flags
@engine_options
@click.option("--allow-unpinned", is_flag=True, help="Answer from a file that no pin vouches for, and say so.")
@click.option("--grammar", metavar="FILE", type=FILE, help="GBNF that the answer must fit; see bankml grammar.")
@click.option("--schema", metavar="FILE", type=FILE, help="JSON schema that the answer must follow.")
@click.option("--json-mode", is_flag=True, help="The answer must be a JSON object.")
@click.option("--logprobs", "n_probs", metavar="N", type=click.IntRange(min=1, max=256),
              help="With --json, tell each token's logprob and those of the N most probable tokens.")  # fmt: skip
@click.option("--post-sampling-probs", is_flag=True,
              help="With --logprobs, tell the probabilities after the sampler chain instead.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end instead of the text as it comes.")
def command(
    words: tuple[str, ...],
    model_option: str | None,
    messages: Path | None,
    system: str | None,
    raw: bool,
    max_tokens: int,
    stop: tuple[str, ...],
    opening: Opening,
    allow_unpinned: bool,
    grammar: Path | None,
    schema: Path | None,
    json_mode: bool,
    n_probs: int | None,
    post_sampling_probs: bool,
    as_json: bool,
    **sampling: Any,
) -> None:
    """Answer one prompt: the argument, or stdin, or the chat of --messages.

    One argument is the prompt and the default model answers, unless a model has that name and the prompt comes by stdin
    or --messages; two are MODEL and PROMPT. MODEL is a path or a name from `bankml list`. Its file is guarded, hashed
    and held to its pin before a weight is read.

    The answer is greedy, with penalties and biases too. Any other flag of the sampler chain, --seed among them, makes it a
    draw, with the file's own defaults, then llama.cpp's, for the rest.

    Exit codes: 0 answered, 2 refused, 3 truncated file, 1 anything else.
    """
    if n_probs is not None and not as_json:
        raise click.UsageError("--logprobs goes with --json")
    if post_sampling_probs and n_probs is None:
        raise click.UsageError("--post-sampling-probs goes with --logprobs")
    model, prompt = model_and_prompt(words, model_option, given=messages is not None)
    chat = chat_of(messages, prompt, system, raw)
    if (grammar is not None) + (schema is not None) + json_mode > 1:
        raise click.UsageError("--grammar, --schema and --json-mode all bind the answer: give one")
    asked = _Asked(
        max_tokens=max_tokens,
        stop=list(stop),
        n_probs=n_probs or 0,
        post_sampling_probs=post_sampling_probs,
        grammar=read_file(grammar).decode("utf-8", "surrogateescape") if grammar is not None else "",
        schema={} if json_mode else _schema(schema),
        sampling=sampling_request(sampling),
    )
    with _open(model, opening, allow_unpinned, asked.needs_optional_kernels) as engine:
        begun = _start(engine, chat, asked)
        with begun.completion:
            if as_json:
                click.echo(to_json(_report(engine, begun, opening.options.llama_threads, asked), indent=2))
            else:
                _stream(begun)


@dataclass(frozen=True)
class _Asked:
    """What the answer shall be like.

    Attributes:
        grammar: GBNF, empty for none.
        schema: a JSON schema, empty for any object, None for none.
        sampling: the sampler chain as the fields of a request.
    """

    max_tokens: int
    stop: list[str]
    n_probs: int
    post_sampling_probs: bool
    grammar: str
    schema: dict[str, Any] | None
    sampling: dict[str, Any]

    @property
    def needs_optional_kernels(self) -> bool:
        """Whether the answer needs kernels that most answers do without."""
        return bool(self.grammar) or self.schema is not None or self.n_probs > 0 or self.sampling != {"temperature": 0.0}


@dataclass(frozen=True)
class _Begun:
    """An answer on its way.

    Attributes:
        grammar: GBNF that binds it, empty for none.
        content: what tells its content and reasoning, None for a text that is continued.
    """

    completion: Completion
    grammar: str
    content: Content | None


def _schema(path: Path | None) -> dict[str, Any] | None:
    """The schema in a file."""
    from bankml.core.json import ordered
    from bankml.refusal import Refusal

    if path is None:
        return None
    value = ordered.read(read_file(path))
    if not isinstance(value, dict):
        raise Refusal("schema.object", "the schema of an answer is an object", where=str(path), found=ordered.dump(value)[:60])
    return value


def _open(model: str | None, opening: Opening, allow_unpinned: bool, warm: bool) -> Engine:
    from bankml.core.pins import resolve_model

    engine = opening.load(opening.verify(resolve_model(model), allow_unpinned=allow_unpinned), warm=warm)
    if engine.inexact is not None:
        click.echo(f"bankml: the answer is not exact: {engine.inexact}", err=True)
    return engine


def _start(engine: Engine, chat: list[dict[str, Any]] | str, asked: _Asked) -> _Begun:
    from bankml.core.sampling import resolve_params

    _check_biases(asked.sampling, engine)
    made = None
    if isinstance(chat, str):
        tokens, grammar = engine.tokenizer.encode_compactly(chat), asked.grammar or _plain_grammar(asked.schema)
    else:
        made = _chat(engine, chat, asked.schema)
        tokens, grammar = made.tokens, made.reading.text or asked.grammar
        for warning in made.reading.warnings:
            click.echo(f"bankml: {warning}", err=True)
    completion = engine.complete(
        tokens,
        resolve_params(asked.sampling, engine.defaults, engine.tokenizer),
        max_tokens=asked.max_tokens,
        stop=[*asked.stop, *(made.stops if made else ())],
        n_probs=asked.n_probs,
        post_sampling_probs=asked.post_sampling_probs,
        grammar=grammar,
        prefill=made.reading.prefill if made and made.reading.text else b"",
        preserved=made.preserved if made else (),
    )
    return _Begun(completion, grammar, None if made is None else _content(made))


def _chat(engine: Engine, messages: list[dict[str, Any]], schema: dict[str, Any] | None) -> Chat:
    from bankml.core.chat.template_request import read_request
    from bankml.core.engine.chat import ready, rendered
    from bankml.refusal import Refusal

    wanted = {} if schema is None else {"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}
    made = ready(engine, rendered(engine, read_request({"messages": messages, **wanted})))
    if schema is not None and made.reading.text is None:
        raise Refusal("schema.template", "llama.cpp b11192 binds no answer by a schema on this template", hint="--grammar can")
    return made


def _plain_grammar(schema: dict[str, Any] | None) -> str:
    """The grammar of a schema for a text that is continued."""
    if schema is None:
        return ""
    from bankml.core.serve.llama.schema_field import grammar_of_schema

    return grammar_of_schema(schema)


def _content(chat: Chat) -> Content:
    from bankml.core.answers.content import Content

    return Content(chat.reading)


def _check_biases(sampling: dict[str, Any], engine: Engine) -> None:
    """A request passes over a token that does not exist; here it is a slip."""
    from bankml.refusal import Refusal

    for token, _ in sampling.get("logit_bias", ()):
        if token >= engine.tokenizer.n_vocab:
            allowed = f"0 to {engine.tokenizer.n_vocab - 1}"
            raise Refusal("generate.token", "--logit-bias names no token of this model", found=str(token), allowed=allowed)


def _stream(begun: _Begun) -> None:
    """Print the text as it comes; control characters are shown, not sent, where a terminal would obey them."""
    terminal = sys.stdout.isatty()
    last = "\n"
    for text in filter(None, _pieces(begun)):
        sys.stdout.write(_harmless(text) if terminal else text)
        sys.stdout.flush()
        last = text[-1]
    if last != "\n":
        sys.stdout.write("\n")
    if sys.stderr.isatty():
        click.echo(_summary(begun.completion), err=True)


def _pieces(begun: _Begun) -> Iterator[str]:
    """Yield text as it is released; for a chat, only the content."""
    for step in begun.completion:
        if begun.content is None:
            yield step.text
        elif step.whole:
            yield begun.content.push(step.released).content.decode("utf-8", "replace")
    if begun.content is not None:
        yield begun.content.push(b"", last=True).content.decode("utf-8", "replace")


def _harmless(text: str) -> str:
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii") for c in text)


def _summary(completion: Completion) -> str:
    """Counts and speeds in one line."""
    prompt = completion.prompt_tokens - completion.cached_tokens
    steps = completion.completion_tokens - 1
    speeds = [f"prompt {prompt} tokens"]
    if completion.prompt_ms > 0:
        speeds.append(f"{prompt / completion.prompt_ms * 1e3:.1f} tokens/s")
    speeds.append(f"answer {completion.completion_tokens} tokens")
    if completion.predicted_ms > 0 and steps > 0:
        speeds.append(f"{steps / completion.predicted_ms * 1e3:.1f} tokens/s")
    return f"bankml: {', '.join(speeds)}, {completion.finish_reason}"


def _report(engine: Engine, begun: _Begun, llama_threads: int, asked: _Asked) -> dict[str, Any]:
    from bankml.core.engine.chat import parse_finished
    from bankml.core.receipts.receipt import resolved, text_sha256
    from bankml.core.serve.llama.logprobs import entries

    verified = engine.verified
    completion = begun.completion.run()
    measured = completion.measured_text
    text, reasoning = (completion.text, "") if begun.content is None else parse_finished(begun.content, completion)
    return {
        "model": str(engine.gguf.path),
        "model_sha256": verified.sha256 if verified else None,
        "pinned": bool(verified and verified.pinned),
        "exact": engine.inexact is None,
        **({} if engine.inexact is None else {"inexact": engine.inexact}),
        "llama_threads": llama_threads,
        "cache_type": engine.model.cache.type,
        "seed": completion.seed,
        "sampling": {**resolved(completion.params), "seed": completion.seed},
        **({"grammar_sha256": text_sha256(begun.grammar)} if begun.grammar else {}),
        "text": text,
        **({"reasoning": reasoning} if reasoning else {}),
        "tokens": completion.tokens,
        **({"logprobs": entries(measured, engine.tokenizer.piece, asked.post_sampling_probs)} if measured else {}),
        "prompt_tokens": completion.prompt_tokens,
        "cached_tokens": completion.cached_tokens,
        "completion_tokens": completion.completion_tokens,
        "finish_reason": completion.finish_reason,
        "stop_type": completion.stop_type,
        "stop_word": completion.stop_word,
        "truncated": completion.truncated,
        "timings": {
            "ttft_ms": round(completion.ttft_ms, 3),
            "prompt_ms": round(completion.prompt_ms, 3),
            "predicted_ms": round(completion.predicted_ms, 3),
        },
    }
