# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whole answers: a script of requests put to llama-server in order, and put to bankml's engine in the same order.

One script is one life of one server: the order matters, since each request finds what the ones before left in the
slot and in the host's prompt cache.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bankml.oracle.kind import Tally
from bankml.oracle.options import POSITIVE, Option, Options, choice, declared
from bankml.refusal import Refusal

if TYPE_CHECKING:
    from bankml.core.engine import Completion, Engine
    from bankml.reference.build import Reference
    from bankml.reference.server import ReferenceServer

Step = dict[str, Any]
"""``messages`` (asked as a chat) or ``prompt`` (text or token ids), ``request`` fields, ``stream`` where chunks are kept."""

DEFAULT_CTX = 4096
OPTIONS: Options = declared(
    first=Option(POSITIVE),
    ctx=Option(POSITIVE),
    threads=Option(POSITIVE, 3),
    cache_type=Option(choice("f16", "q8_0"), "f16"),
    cache_ram=Option(POSITIVE),
)
"""Of every kind that records a script: how many of its steps are asked, and what the server is started with."""


def record_script(script: list[Step], model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
    """Ask every step of the script of one fresh llama-server, or the first ones; ``options`` are those of OPTIONS.

    Raises:
        Refusal: no model was named.
    """
    if model is None:
        raise Refusal("oracle.model", "this kind of oracle needs a model")
    ctx, threads, cache_type, cache_ram = (
        options["ctx"] or DEFAULT_CTX,
        options["threads"],
        options["cache_type"],
        options["cache_ram"],
    )
    extra = cache_arguments(cache_type)
    if cache_ram is not None:
        extra += ["--cache-ram", str(cache_ram)]
    with reference.server(model, ctx=ctx, threads=threads, extra=extra) as server:
        return {
            "ctx": ctx,
            "threads": threads,
            "cache_type": cache_type,
            **({} if cache_ram is None else {"cache_ram": cache_ram}),
            "steps": [{**step, "answer": _ask(server, step)} for step in script[: options["first"]]],
        }


def cache_arguments(cache_type: str) -> list[str]:
    """What tells llama-server of the cache's type."""
    return ["--cache-type-k", cache_type, "--cache-type-v", cache_type]


def compare_script(body: dict[str, Any], model: Path | None) -> Tally:
    """Put the same script to one engine and count what is identical, quantity by quantity.

    Raises:
        Refusal: no model with the recorded sha256 is at hand.
    """
    if model is None:
        raise Refusal("oracle.model", "the recorded model is not on this machine", hint="`bankml pull` fetches the default one")
    from bankml.core.engine import Engine, EngineOptions
    from bankml.core.engine.prompt_cache import DEFAULT_MIB

    tally = Tally()
    cache_type = body.get("cache_type", "f16")
    cache_ram = body.get("cache_ram", DEFAULT_MIB)
    engine = Engine.open(
        model, EngineOptions(n_ctx=body["ctx"], llama_threads=body["threads"], cache_type=cache_type, cache_ram=cache_ram)
    )
    try:
        for number, step in enumerate(body["steps"]):
            _hold(engine, step, f"step {number}", tally)
    finally:
        engine.close()
    return tally


def _ask(server: ReferenceServer, step: Step) -> dict[str, Any]:
    if "messages" in step:
        prompt = _ok(server.post("/apply-template", {"messages": step["messages"]}))["prompt"]
    else:
        prompt = step["prompt"]
    tokens = prompt
    if isinstance(prompt, str):
        tokens = _ok(server.post("/tokenize", {"content": prompt, "add_special": True, "parse_special": True}))["tokens"]
    if step.get("stream"):
        return {"prompt_tokens": tokens, **_asked_stream(server, prompt, step["request"])}
    if "messages" in step:
        status, said = server.post(
            "/v1/chat/completions",
            {"messages": step["messages"], **step["request"], "return_tokens": True, "verbose": True},
        )
    else:
        status, said = server.post("/completion", {"prompt": prompt, **step["request"], "return_tokens": True})
    if status != 200:
        return {"prompt_tokens": tokens, "status": status, "error": said["error"]}
    whole = said.get("__verbose", said)
    answer = {"prompt_tokens": tokens, "tokens": whole["tokens"], "raw_text": whole["content"], **_ending(whole)}
    if "messages" in step:
        choice = said["choices"][0]
        answer |= {"text": choice["message"]["content"], "finish_reason": choice["finish_reason"]}
    return answer


def _asked_stream(server: ReferenceServer, prompt: str | list[int], request: dict[str, Any]) -> dict[str, Any]:
    import json

    events = [json.loads(event) for event in server.stream("/completion", {"prompt": prompt, **request, "stream": True})]
    chunks = [event["content"] for event in events if event["content"]]
    return {"chunks": chunks, **_ending(events[-1])}


def _ending(whole: dict[str, Any]) -> dict[str, Any]:
    return {
        "stop_type": whole["stop_type"],
        "stop_word": whole["stopping_word"],
        "truncated": whole["truncated"],
        "cache_n": whole["timings"]["cache_n"],
        "prompt_n": whole["timings"]["prompt_n"],
        "predicted_n": whole["timings"]["predicted_n"],
    }


def _ok(answer: tuple[int, Any]) -> Any:
    status, said = answer
    if status != 200:
        raise Refusal("reference.answer", "the reference refused a step of the script", found=str(said)[:300])
    return said


def _hold(engine: Engine, step: Step, where: str, tally: Tally) -> None:
    from bankml.core.sampling import resolve_params

    answer = step["answer"]
    prompt = _prompt_tokens(engine, step)
    tally.count(prompt == answer["prompt_tokens"], f"{where}: prompt tokens differ")
    try:
        request = step["request"]
        completion = engine.complete(
            answer["prompt_tokens"],
            resolve_params(request, engine.defaults, engine.tokenizer),
            max_tokens=request.get("n_predict", request.get("max_tokens")),
            stop=_stop_list(request),
            cache_prompt=request.get("cache_prompt", True),
            grammar=_grammar(request),
        )
        chunks = [each.text for each in completion if each.text]
    except Refusal as refusal:
        tally.count(refusal.http_body()["error"] == answer.get("error"), f"{where}: refused with {refusal.http_body()}")
        return
    if "error" in answer:
        tally.count(False, f"{where}: answered what the reference refused: {answer['error']}")
        return
    derived = _derived(completion, chunks)
    for name, recorded in answer.items():
        if name != "prompt_tokens":
            found = derived[name]
            tally.count(found == recorded, f"{where}: {name} is {_short(found)}, recorded {_short(recorded)}")


def _derived(completion: Completion, chunks: list[str]) -> dict[str, Any]:
    return {
        "tokens": completion.tokens,
        "raw_text": completion.raw_text,
        "text": completion.text,
        "chunks": chunks,
        "finish_reason": completion.finish_reason,
        "stop_type": completion.stop_type,
        "stop_word": completion.stop_word or "",
        "truncated": completion.truncated,
        "cache_n": completion.cached_tokens,
        "prompt_n": completion.prompt_tokens - completion.cached_tokens,
        "predicted_n": completion.completion_tokens,
    }


def _prompt_tokens(engine: Engine, step: Step) -> list[int]:
    prompt = engine.template.render(step["messages"]) if "messages" in step else step["prompt"]
    return engine.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)


def _grammar(request: dict[str, Any]) -> str | None:
    """The grammar that binds the answer: the request's own, or that of its schema."""
    if "json_schema" in request:
        import json

        from bankml.core.constrain.schema import grammar_of_text

        return grammar_of_text(json.dumps(request["json_schema"]).encode()).text.decode()
    grammar: str | None = request.get("grammar")
    return grammar


def _stop_list(request: dict[str, Any]) -> list[str]:
    stop = request.get("stop", [])
    return [stop] if isinstance(stop, str) else stop


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:80]} … {text[-76:]}"
