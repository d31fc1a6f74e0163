# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml generate``: one answer on the terminal."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bankml.cli.sampling_flags import sampling_flags, sampling_request

if TYPE_CHECKING:
    from bankml.core.engine import Completion, Engine
    from bankml.core.model.graph import CacheType


@click.command("generate")
@click.argument("words", metavar="[MODEL] [PROMPT]", nargs=-1)
@click.option("--model", "model_option", metavar="MODEL", help="The model; then the one argument is the prompt.")
@click.option("--messages", metavar="FILE", type=click.Path(path_type=Path), help="A JSON list of chat messages; - for stdin.")
@click.option("--system", metavar="TEXT", help="A system message before the prompt.")
@click.option("--raw", is_flag=True, help="Continue the prompt as it is, without the chat template.")
@click.option("--max", "max_tokens", metavar="N", type=click.IntRange(min=-1), default=256, show_default=True,
              help="The most tokens to generate; -1 until the context is full.")  # fmt: skip
@click.option("--stop", metavar="TEXT", multiple=True, help="End the answer before this text. May be given again.")
@sampling_flags
@click.option("--ctx", metavar="N", type=click.IntRange(min=0), default=4096, show_default=True,
              help="Cells of the context; 0 for what the model was trained with.")  # fmt: skip
@click.option("--threads", metavar="N", type=click.IntRange(min=1), envvar="BANKML_THREADS",
              help="Threads that compute; all cores without it.")  # fmt: skip
@click.option("--llama-threads", metavar="N", type=click.IntRange(min=1, max=512), default=3, show_default=True,
              envvar="BANKML_LLAMA_THREADS", help="llama-server's -t whose bits long answers have.")  # fmt: skip
@click.option("--cache-type", type=click.Choice(["f16", "q8_0"]), default="f16", show_default=True, envvar="BANKML_CACHE_TYPE",
              help="Type of the KV cache; q8_0 takes 53 % of the memory and gives llama-server's q8_0 answers.")  # fmt: skip
@click.option("--fork", metavar="F", type=click.Path(path_type=Path), help="Pin to hold the file to; else the file's own.")
@click.option("--allow-unpinned", is_flag=True, help="Answer from a file that no pin vouches for, and say so.")
@click.option("--inexact", is_flag=True, help="Answer even where the bits would not be the reference's, and say so.")
@click.option(
    "--grammar", metavar="FILE", type=click.Path(path_type=Path), help="GBNF that the answer must fit; see bankml grammar."
)
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
    ctx: int,
    threads: int | None,
    llama_threads: int,
    cache_type: CacheType,
    fork: Path | None,
    allow_unpinned: bool,
    inexact: bool,
    grammar: Path | None,
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
    model, prompt = _model_and_prompt(words, model_option, given=messages is not None)
    chat = _messages(messages, prompt, system, raw)
    text = grammar.read_text("utf-8", "surrogateescape") if grammar is not None else None
    asked = _Asked(max_tokens, list(stop), n_probs or 0, post_sampling_probs, text, sampling_request(sampling))
    with (
        _open(model, fork, allow_unpinned, ctx, threads, llama_threads, cache_type, inexact, asked.constrained) as engine,
        _start(engine, chat, asked) as completion,
    ):
        if as_json:
            click.echo(json.dumps(_report(engine, completion.run(), llama_threads, asked), ensure_ascii=False, indent=2))
        else:
            _stream(completion)


@dataclass(frozen=True)
class _Asked:
    """What the answer shall be like.

    Attributes:
        sampling: the sampler chain as the fields of a request.
    """

    max_tokens: int
    stop: list[str]
    n_probs: int
    post_sampling_probs: bool
    grammar: str | None
    sampling: dict[str, Any]

    @property
    def constrained(self) -> bool:
        """Whether a grammar binds the answer or probabilities are told."""
        return self.grammar is not None or self.n_probs > 0


def _model_and_prompt(words: tuple[str, ...], model: str | None, given: bool) -> tuple[str | None, str | None]:
    """Which of the arguments is the model and which the prompt; a prompt of None comes from stdin."""
    most = 2 - (model is not None) - given
    if len(words) > most:
        raise click.UsageError(f"expected at most {most} of [MODEL] [PROMPT] here, got {len(words)}: quote the prompt")
    if model is not None or not words:
        return model, words[0] if words else None
    if len(words) == 2 or given:
        return words[0], words[1] if len(words) == 2 else None
    # A lone argument: a model when it names one and the prompt comes by stdin.
    if not sys.stdin.isatty() and _names_model(words[0]):
        return words[0], None
    return None, words[0]


def _names_model(word: str) -> bool:
    from bankml.core.pins import resolve_model
    from bankml.core.refusal import Refusal

    try:
        return resolve_model(word).is_file()
    except (Refusal, OSError, ValueError):
        return False


def _messages(path: Path | None, prompt: str | None, system: str | None, raw: bool) -> list[dict[str, Any]] | str:
    """The chat to answer, or the text to continue.

    Raises:
        Refusal: the file is not a list of messages, or a text is not UTF-8.
    """
    if path is not None:
        if raw or system is not None:
            raise click.UsageError("--messages holds the whole chat: it goes with neither --raw nor --system")
        return _read_messages(path)
    if prompt is None:
        if sys.stdin.isatty():
            raise click.UsageError("there is no prompt: give one as an argument, on stdin or with --messages")
        prompt = _utf8(sys.stdin.buffer.read(), "stdin")
    if raw:
        if system is not None:
            raise click.UsageError("--raw has no system message")
        return prompt
    head = [{"role": "system", "content": system}] if system is not None else []
    return [*head, {"role": "user", "content": prompt}]


def _read_messages(path: Path) -> list[dict[str, Any]]:
    from bankml.core.refusal import Refusal

    where = "stdin" if str(path) == "-" else str(path)
    text = _utf8(sys.stdin.buffer.read() if where == "stdin" else path.read_bytes(), where)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refusal("generate.messages", "the messages are not JSON", where=where, found=str(error)[:120]) from error
    if isinstance(value, dict) and "messages" in value:
        value = value["messages"]
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise Refusal(
            "generate.messages",
            "the messages are not a list of messages",
            where=where,
            allowed='[{"role": "user", "content": "…"}, …], or an object with that list as "messages"',
        )
    return value


def _utf8(data: bytes, where: str) -> str:
    from bankml.core.refusal import Refusal

    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refusal(
            "generate.utf8", "the text is not UTF-8", where=f"{where}, byte {error.start}", found=f"0x{data[error.start]:02x}"
        ) from error


def _open(
    model: str | None,
    fork: Path | None,
    allow_unpinned: bool,
    ctx: int,
    threads: int | None,
    llama_threads: int,
    cache_type: CacheType,
    inexact: bool,
    warm: bool,
) -> Engine:
    """Verify the file, then load it; each with its progress on a terminal.

    Args:
        warm: a grammar or probabilities are asked for.
    """
    from bankml.cli.progress import bars
    from bankml.core.engine import Engine
    from bankml.core.model.compile import load_ahead
    from bankml.core.pins import measure, resolve_model, verify
    from bankml.core.refusal import Refusal

    path = resolve_model(model)
    load_ahead()
    with bars() as progress:
        try:
            verified = verify(path, fork, progress=progress)
        except Refusal as refusal:
            if not allow_unpinned or refusal.code != "pin.unpinned":
                raise
            verified = measure(path, progress=progress)
            click.echo(f"bankml: {path.name} is unpinned: no record vouches for sha256 {verified.sha256}", err=True)
        engine = Engine.open(
            verified.path,
            n_ctx=ctx,
            threads=threads,
            llama_threads=llama_threads,
            cache_type=cache_type,
            verified=verified,
            inexact=inexact,
            progress=progress,
        )
        if warm:
            engine.warm(progress)
    if engine.inexact is not None:
        click.echo(f"bankml: the answer is not exact: {engine.inexact}", err=True)
    return engine


def _start(
    engine: Engine,
    chat: list[dict[str, Any]] | str,
    asked: _Asked,
) -> Completion:
    from bankml.core.sampling import resolve_params

    stop = asked.stop
    if isinstance(chat, str):
        tokens = engine.tokenizer.encode(chat)
    else:
        prompt = engine.template.apply({"messages": chat})
        tokens = engine.tokenizer.encode(prompt.raw)
        stop = [*stop, *prompt.stops]
    _check_biases(asked.sampling, engine)
    return engine.complete(
        tokens,
        resolve_params(asked.sampling, engine.defaults, engine.tokenizer),
        max_tokens=asked.max_tokens,
        stop=stop,
        n_probs=asked.n_probs,
        post_sampling_probs=asked.post_sampling_probs,
        grammar=asked.grammar,
    )


def _check_biases(sampling: dict[str, Any], engine: Engine) -> None:
    """A request passes over a token that does not exist; here it is a slip."""
    from bankml.core.refusal import Refusal

    for token, _ in sampling.get("logit_bias", ()):
        if token >= engine.tokenizer.n_vocab:
            allowed = f"0 to {engine.tokenizer.n_vocab - 1}"
            raise Refusal("generate.token", "--logit-bias names no token of this model", found=str(token), allowed=allowed)


def _stream(completion: Completion) -> None:
    """Print the text as it comes; control characters are shown, not sent, where a terminal would obey them."""
    terminal = sys.stdout.isatty()
    last = "\n"
    for step in completion:
        if step.text:
            sys.stdout.write(_harmless(step.text) if terminal else step.text)
            sys.stdout.flush()
            last = step.text[-1]
    if last != "\n":
        sys.stdout.write("\n")
    if sys.stderr.isatty():
        click.echo(_summary(completion), err=True)


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


def _report(engine: Engine, completion: Completion, llama_threads: int, asked: _Asked) -> dict[str, Any]:
    from bankml.core.serve.answer import resolved
    from bankml.core.serve.logprobs import entries
    from bankml.core.serve.receipt import text_sha256

    verified = engine.verified
    measured = completion.measured_text
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
        **({"grammar_sha256": text_sha256(asked.grammar)} if asked.grammar else {}),
        "text": completion.text,
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
