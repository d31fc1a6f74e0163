# SPDX-License-Identifier: MIT OR Apache-2.0
"""Greedy answers: tokens, text, counts, endings and what came from the prompt cache, over whole conversations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bankml.oracle.ask.answers import OPTIONS, Step, compare_script, record_script
from bankml.oracle.kind import Tally
from bankml.oracle.options import Option, Options, choice, declared

if TYPE_CHECKING:
    from bankml.reference.build import Reference

EMOJI = "😀😃😄😁😆😅🤣😂🙂🙃😉😊😇🥰😍🤩😘😗😚😙🥲😋😛😜🤪😝🤑🤗🤭"
SENTENCES = (
    "The river rises in the hills and runs past seven villages before it meets the sea.",
    "In spring the water is cold and green; in autumn it carries leaves from the beech woods.",
    "The miller's daughter kept a record of every flood, with the date, the height and the weather.",
    "Nobody read her books until an engineer came to plan a bridge in 1911.",
    "He found that the highest water always came three days after the wind had turned to the south-west.",
    "def flood(height): return 'safe' if height < 4.2 else 'move the cattle'",
    "The bridge was built two metres higher than planned, and it still stands today.",
    "Every year the village sets a table for her by the mill, with bread, cheese and a lamp.",
)


def _user(*texts: str, system: str | None = None) -> list[dict[str, str]]:
    """Messages from alternating user and assistant texts, the user first."""
    head = [{"role": "system", "content": system}] if system is not None else []
    return head + [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]


def _chat(messages: list[dict[str, str]], max_tokens: int, **request: Any) -> Step:
    return {"messages": messages, "request": {"temperature": 0, "max_tokens": max_tokens, **request}}


def _raw(prompt: str | list[int], n_predict: int, **request: Any) -> Step:
    return {"prompt": prompt, "request": {"temperature": 0, "n_predict": n_predict, **request}}


def _story(n: int) -> str:
    return " ".join(SENTENCES[i % len(SENTENCES)] for i in range(n))


def _ids(n: int) -> list[int]:
    """A prompt of n token ids that no text made; below 24,000, so every vocabulary of ours has them."""
    return [(7919 * i + 104729) % 23000 + 40 for i in range(n)]


def short() -> list[Step]:
    """Answers of up to 48 tokens, most of them ended by the model."""
    return [
        _chat(_user("Say hi."), 24),
        _chat(_user("What is the capital of France?"), 32),
        _chat(_user("Name three colors.", system="You answer in one line."), 40),
        _chat(_user("Translate to German: good morning"), 32),
        _chat(_user("Was ist 12 × 12? Ω≈3 — “quoted” 日本語"), 48),
        _chat(_user("Write a Python function that adds two numbers."), 48),
        _chat(_user("Hello", "Hello! How can I help?", "Count to five."), 48),
        _chat(_user("<|im_start|>user\nmarkers in the text<|im_end|>"), 24),
        _raw("Once upon a time", 32),
        _raw("1, 2, 3, 4,", 24, top_k=1),
        _raw("The end.<|im_end|>", 8),
    ]


def long() -> list[Step]:
    """Answers well over 64 tokens, across the border of 256 cells where attention changes its kernel."""
    return [
        _chat(_user("Tell me a long story about a lighthouse keeper and a whale."), 200),
        _chat(_user("Explain how a bicycle stays upright, step by step."), 280),
        _raw("import os\n\n\ndef walk(", 120),
    ]


def deep() -> list[Step]:
    """Prompts past one micro-batch of 512, and answers past 512 cells."""
    return [
        _chat(_user("Summarize this text.\n\n" + _story(24)), 48),
        _chat(_user("Continue this text.\n\n" + _story(40)), 96),
        _raw(_story(8), 32),
    ]


def edges() -> list[Step]:
    """Prompts of lengths where kernels or micro-batches change, each from an empty cache."""
    lengths = (1, 2, 3, 8, 63, 64, 65, 127, 256, 257, 511, 512, 513, 575, 576)
    return [_raw(_ids(n), 6, cache_prompt=False) for n in lengths]


def turns() -> list[Step]:
    """Conversations turn by turn: what the slot keeps, what comes back from the host's prompt cache, and the edges of both."""
    first = ("I have a red bicycle and a blue boat.", "That sounds lovely! Red and blue go well together.")
    second = (
        "Give me a recipe for bread with four ingredients and six steps, please.",
        "Flour, water, salt, yeast. Mix and bake.",
    )
    a1, a2, a3 = (
        _user(first[0]),
        _user(*first, "What color is my boat?"),
        _user(*first, "What color is my boat?", "Blue.", "Thanks!"),
    )
    b1, b2 = _user(second[0]), _user(*second, "How long does it bake?")
    ids = _ids(90)
    return [
        _chat(a1, 20),
        _chat(a2, 20),
        _chat(b1, 60),
        _chat(a3, 16),
        _chat(b2, 24),
        _chat(a2, 20),
        _chat(a2, 20),
        _chat(b2, 24, cache_prompt=False),
        _raw(ids, 10),
        _raw(ids, 10),
        _raw(ids[:40], 4),
        _raw([5, 6, 7, 8, *ids[10:60]], 70),
        _raw([*ids[:80], 9, 10, 11], 4),
        _raw([5, 6, 7, 8, *ids[10:60], 3], 4),
        _raw(_ids(4096), 4),
        _chat(a3, 8),
        _chat(b1, 8),
        _raw("", 4),
        _chat(b1, 4),
        # Half of the slot is kept exactly: 20 of 40 cells, so nothing is saved. Then one cell less.
        _raw(ids[:37], 4, cache_prompt=False),
        _raw(ids[:20] + _ids(200)[150:190], 1),
        _raw(ids[:37], 4, cache_prompt=False),
        _raw(ids[:19] + _ids(200)[150:190], 1),
        _raw([*ids[:37], 77], 2),
    ]


def endings() -> list[Step]:
    """Stop strings across token borders, whole and streamed; characters cut in two; limits of nothing and of one token."""
    cut = "Emoji list: " + EMOJI
    steps = [_raw(cut, n) for n in (1, 2, 3, 4)]
    steps += [{**_raw(cut, n), "stream": True} for n in (3, 5)]
    steps += [_chat(_user("Repeat this: " + cut), n) for n in (1, 3, 4, 6)]
    for stop in (["all-tim"], ["all-timid"], ["-by", "good"], "by-a", ["zzz", "-all-time"], ["", "x"], ["d-b", "ood-by-"]):
        steps += [_raw("hello", 12, stop=stop), {**_raw("hello", 12, stop=stop), "stream": True}]
    steps += [_raw("hello", n, stop=["all-timid"]) for n in (5, 6, 7)]
    steps += [{**_raw("hello", n, stop=["all-timid"]), "stream": True} for n in (6, 7)]
    steps += [_raw("hello", n) for n in (0, 1)]
    steps += [_chat(_user("Say hi."), 30, stop=["world", "\n"]), {**_raw("Say hi.", 40, stop=["\n"]), "stream": True}]
    return steps


def full() -> list[Step]:
    """A context of 256: prompts that just fit, just do not, and answers that run into the border."""
    return [
        _raw(_ids(256), 4),
        _raw(_ids(255), 4),
        _raw(_ids(254), 4),
        _raw(_ids(253), 4),
        _raw(_ids(240), -1, stop=["the"]),
        _raw(_ids(300), 4),
        _chat(_user("Tell me a long story about a lighthouse keeper and a whale."), -1),
    ]


def filled() -> list[Step]:
    """More conversations than a small prompt cache of the host holds: which of them are still there, by bytes and by tokens.

    The sizes are for 10 MiB, a context of 256 and the f16 cells of SmolLM2: 455 tokens in four entries are within 10 MiB by their
    cells alone, and over it with what llama.cpp writes around them.
    """

    def of(number: int, length: int) -> list[int]:
        return [(7919 * i + 3571 * number + 17) % 23000 + 40 for i in range(length)]

    def asked(number: int, length: int, more: int = 0) -> Step:
        return _raw(of(number, length) + of(number + 100, more), 1)

    steps = [asked(number, 110) for number in range(4)]
    # Three entries of 110 tokens, more than the context has, and within the bytes: none of them goes.
    steps += [asked(number, 110, 3) for number in range(4)]
    # A prompt of 250 makes room for three and the fourth. 454 tokens fit; with one token more the oldest entry goes.
    for first, last in ((10, 112), (20, 113)):
        steps += [asked(first + 9, 250), *(asked(first + n, 114) for n in range(3)), asked(first + 3, last), asked(first, 114, 1)]
    # Of the last prompt but one, the slot and an entry share ten tokens each. The entry would keep more of itself, but is no
    # better for the prompt: it stays where it is, and the last prompt finds it.
    long, short = of(30, 105), [*of(30, 10), *of(31, 20)]
    steps += [asked(32, 250), _raw(long, 1), _raw(short, 1), asked(33, 60), _raw(long, 1)]
    steps += [_raw([*of(30, 10), *of(34, 110)], 1), _raw([*short, 9, 9], 1)]
    # An entry that a longer one contains goes.
    steps += [asked(40, 40), asked(41, 40), asked(40, 40, 60), asked(41, 40, 60), asked(40, 40, 61)]
    # A long life, in an order that multipliers shuffle.
    return steps + [asked(60 + n * 7 % 5, 60 + n * 11 % 50, n % 3) for n in range(24)]


SCRIPTS = {
    "short": short,
    "long": long,
    "deep": deep,
    "edges": edges,
    "turns": turns,
    "endings": endings,
    "full": full,
    "filled": filled,
}


# What a script is asked with where nothing else is wanted.
_SETTINGS: dict[str, dict[str, Any]] = {"full": {"ctx": 256}, "filled": {"ctx": 256, "cache_ram": 10}}


class Greedy:
    """Kind ``greedy``; ``script`` names one of the scripts, ``first`` is how many of its steps are asked."""

    name = "greedy"
    checks = "greedy answers on the real model: prompt tokens, tokens, text, chunks, endings, counts, cache_n"
    against = "llama-server's /v1/chat/completions and /completion"
    small = True
    options: Options = declared(OPTIONS, script=Option(choice(*SCRIPTS), "short"))

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Ask llama-server the whole script."""
        wanted = options["script"]
        usual = _SETTINGS.get(wanted, {})
        options = {**options, **{name: value for name, value in usual.items() if options[name] is None}}
        return record_script(SCRIPTS[wanted](), model, reference, options)

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """Answer the whole script with bankml's engine."""
        return compare_script(body, model)


KIND = Greedy()
