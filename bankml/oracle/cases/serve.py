# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the oracle of the server asks, in this order: the slot's cache makes each answer depend on those before it.

Only what bankml honours stands here; what it refuses and llama-server does not is tested in tests/serve.
"""

from __future__ import annotations

import random
from typing import Any

CHAT = "/v1/chat/completions"
HI = [{"role": "user", "content": "Hi"}]
STORY = [
    {"role": "system", "content": "You answer briefly."},
    {"role": "user", "content": "Name three colours of the rainbow and say why you like each of them."},
]
LEFT_OPEN = [{"role": "user", "content": "Count to five."}, {"role": "assistant", "content": "One, two,"}]

_SEED_BODIES = (
    '{"a":[1,-2.5e3,true,null,"x\\n\\u00e9\\ud83c\\udf55é🍕"],"b":{"c":false,"d":""}}',
    '[1e5,0,-0,{"k":[]},[[{}]]]',
    '{"a":\n 12\n,"b":[1 ,2\n]}',
    '"\\ud83c\\udf55"',
    *("tru", "nul", "-", "1.", "1e", "1e+", "0.5", "[", "{", '{"a"', '{"a":', "[1,", '"abc', '"\\u12', '"\\ud800\\u0041"'),
    *('"\\udc00"', "\ufeff[1]", "12\n x", "[1\n2]", "[-\n]", "[1e400]", '{"a":1}\n\n{', "", "nan", "[NaN]", "[Infinity]"),
    *("{'a':1}", '{"a":1,}', "/*x*/1", "\ufeff", "hello", "\t"),
)
_LETTERS = b'{}[]:,"\\u0d8123eE+-.tfn \n\t\x01\xff\xe0\xc3a'


def json_bodies(count: int = 1600) -> list[bytes]:
    """JSON texts and what is left of them after a few random edits: always the same ones."""
    draw = random.Random(11192)  # noqa: S311 - edits, not secrets
    found = dict.fromkeys(body.encode() for body in _SEED_BODIES)
    while len(found) < count:
        body = bytearray(draw.choice(_SEED_BODIES).encode())
        for _ in range(draw.choice((1, 1, 2, 3))):
            place = draw.randrange(len(body) + 1)
            edit = draw.randrange(3)
            if edit == 0:
                body[place:place] = bytes([draw.choice(_LETTERS)])
            elif edit == 1 and body:
                del body[min(place, len(body) - 1)]
            else:
                del body[place:]
        found[bytes(body)] = None
    return list(found)


def exchanges() -> list[dict[str, Any]]:
    """Requests: ``path``, and ``body`` where it is a POST; ``stream`` where the answer is a stream."""
    return [*_texts(), *_answers(), *_refusals(), *_bad_fields(), *_routes()]


def _post(path: str, *bodies: Any) -> list[dict[str, Any]]:
    return [{"path": path, "body": body} for body in bodies]


def _chat(*members: dict[str, Any], messages: list[Any] | None = None) -> list[dict[str, Any]]:
    base = {"messages": messages or HI, "temperature": 0, "max_tokens": 6}
    return [{"path": CHAT, "body": {**base, **each}, "stream": each.get("stream") is True} for each in members]


def _texts() -> list[dict[str, Any]]:
    text = "Héllo <|im_start|>user\n 🍕 don't 1234  \n\n"
    return [
        *_post(
            "/tokenize",
            {"content": text},
            {"content": text, "parse_special": False},
            {"content": text, "add_special": True, "with_pieces": True},
            {"content": ["a", 5, "b <|im_end|>", 7]},
            {"content": "", "parse_special": None},
            {},
            [],
            {"content": 5},
            {"content": None},
            {"content": {}},
            {"content": [1.5, True]},
            {"content": [99999999, -1], "with_pieces": True},
        ),
        *_post(
            "/detokenize",
            {"tokens": [19556, 17, 1073]},
            {"tokens": [0, 1, 2, 3]},
            {"tokens": [10813]},
            {"tokens": [10813, 231, 239]},
            {"tokens": [1.9, True]},
            {},
            [],
            {"tokens": "x"},
            {"tokens": [1, "a"]},
            {"tokens": [[1]]},
            {"tokens": None},
            {"tokens": [99999]},
            {"tokens": [-1]},
        ),
        *_post(
            "/apply-template",
            {"messages": HI},
            {"messages": STORY},
            {"messages": LEFT_OPEN},
            {"messages": []},
            {"messages": HI, "add_generation_prompt": False},
            {"messages": HI, "temperature": "hot"},
            {"messages": HI, "top_logprobs": 2},
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]},
        ),
    ]


def _answers() -> list[dict[str, Any]]:
    long_text = "The quick brown fox jumps over the lazy dog. " * 40
    return [
        *_chat({}, {"max_tokens": 1}, {"max_tokens": 0}, {"max_tokens": 1.9}, {"max_tokens": True}),
        *_chat(
            {"n_predict": 3, "max_tokens": 1}, {"max_completion_tokens": 2, "max_tokens": 4}, {"max_tokens": None, "n_predict": 2}
        ),
        *_chat({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}, {"stream": None}),
        *_chat({"max_tokens": 60}, {"max_tokens": 60, "stream": True}, messages=STORY),
        *_chat(
            {"stop": ["How"]}, {"stop": "assist"}, {"stop": ["!", "How"]}, {"stop": []}, {"stop": [""]}, {"stop": [None, [], {}]}
        ),
        *_chat({"stop": ["How can"], "stream": True}, {"stop": ["xyz"], "stream": True}, {"stop": ["How you"], "stream": True}),
        *_chat({"cache_prompt": False}, {"cache_prompt": True}, {"cache_prompt": None}),
        *_chat({"max_tokens": 4}, {"max_tokens": 4, "stream": True}, {"max_tokens": 4, "echo": True}, messages=LEFT_OPEN),
        *_chat({"continue_final_message": True, "add_generation_prompt": False}, messages=LEFT_OPEN),
        *_chat({"continue_final_message": True, "add_generation_prompt": False, "stream": True}, messages=LEFT_OPEN),
        *_chat({"add_generation_prompt": False}, {"continue_final_message": True, "add_generation_prompt": False}),
        *(
            request
            for content in (" One,  ", "", "\n\n", "🍕 é", [{"type": "text", "text": "One"}, {"type": "text", "text": "two"}])
            for request in _chat(
                {"max_tokens": 3}, {"max_tokens": 3, "stream": True}, messages=[*HI, {"role": "assistant", "content": content}]
            )
        ),
        *_chat(
            {"verbose": True, "return_tokens": True}, {"verbose": True}, {"verbose": True, "return_tokens": True, "stream": True}
        ),
        *_chat({"max_tokens": 24}, {"max_tokens": 24, "stream": True}, messages=[{"role": "user", "content": "Repeat: 🍕🍕🍕"}]),
        *_chat({"max_tokens": 12}, {"max_tokens": 12, "cache_prompt": False}, messages=[{"role": "user", "content": long_text}]),
        *_chat(
            *({"temperature": 0.8, "seed": seed, "max_tokens": 24} for seed in (1, 2, 42)),
            {"temperature": 1.2, "seed": 7, "top_k": 5, "top_p": 0.9, "min_p": 0.1, "max_tokens": 24, "stream": True},
            {
                "temperature": 0.9,
                "seed": 3,
                "repeat_penalty": 1.1,
                "frequency_penalty": 0.2,
                "presence_penalty": 0.1,
                "max_tokens": 24,
            },
            messages=STORY,
        ),
        *_chat(
            {"user": "x", "metadata": {}, "store": False, "id_slot": 0, "n_keep": 4, "n": 1, "tools": [], "tool_choice": "none"}
        ),
        *_chat({"response_format": {"type": "text"}, "grammar": "", "logprobs": False, "chat_template_kwargs": {"a": 1}}),
        *_chat({"reasoning_effort": "low", "reasoning_format": "none", "timings_per_token": True}),
        *_chat({}, messages=[{"role": "user", "content": None}]),
        *_chat({}, messages=[{"role": "user", "content": []}]),
        *_chat({}, messages=[{"role": "", "content": "hi"}, {"role": "tool", "content": "x"}, {"role": "weird", "content": "y"}]),
        *_chat({"max_tokens": 3}, {"max_tokens": 3, "stream": True}, messages=[{"role": "user", "content": "Hi", "name": "bob"}]),
    ]


def _refusals() -> list[dict[str, Any]]:
    parts = ("image_url", "input_audio", "input_video", "video_url", "foo")
    return [
        *_post(CHAT, {}, [], 5, "x", None, {"messages": "x"}, {"messages": {}}, {"messages": None}),
        *_post(
            CHAT,
            *({"messages": [message]} for message in (1, "x", {}, {"role": "user"}, {"content": "x"}, {"role": "assistant"})),
        ),
        *_post(CHAT, {"messages": [{"role": "user", "content": 5}]}, {"messages": [{"role": "user", "content": {}}]}),
        *_post(CHAT, {"messages": [{"role": 1, "content": "x"}]}, {"messages": [{"role": "user", "content": ["x"]}]}),
        *_post(CHAT, *({"messages": [{"role": "user", "content": [{"type": part}]}]} for part in parts)),
        *_post(CHAT, {"messages": [{"role": "user", "content": [{"type": "text"}]}]}),
        *_post(CHAT, {"messages": [*LEFT_OPEN, {"role": "assistant", "content": "x"}]}),
        *_post(CHAT, {"messages": HI, "continue_final_message": True}),
        *_post(CHAT, *({"messages": [{"role": "user", "content": "x " * 5000}], "stream": stream} for stream in (False, True))),
    ]


def _bad_fields() -> list[dict[str, Any]]:
    max_tokens: tuple[Any, ...] = ("5", [], {}, -2, "")
    fields: list[tuple[str, Any]] = [
        *(("max_tokens", value) for value in max_tokens),
        *(("n_predict", value) for value in ("x", -3)),
        *(("n", value) for value in (0, 2, "x")),
        *(("stream", value) for value in ("yes", 1)),
        ("stream_options", {"include_usage": "x"}),
        ("echo", "x"),
        ("stop", [5]),
        ("stop", ["a", True]),
        ("cache_prompt", "x"),
        ("timings_per_token", 1),
        ("return_tokens", "x"),
        ("verbose", 0),
        ("sse_ping_interval", -5),
        ("top_logprobs", 2),
        ("tool_choice", "x"),
        ("response_format", {"type": "x"}),
        ("chat_template_kwargs", {"enable_thinking": "x"}),
        ("reasoning_format", "x"),
        ("reasoning_format", 5),
        *(
            (name, "x")
            for name in ("temperature", "top_k", "top_p", "min_p", "seed", "repeat_penalty", "frequency_penalty", "mirostat")
        ),
        ("min_keep", -1),
        ("repeat_last_n", -1),
        ("repeat_penalty", 0),
        ("dry_sequence_breakers", []),
        ("ignore_eos", "x"),
        ("adaptive_decay", 1.0),
    ]
    return [
        *_chat(*({name: value} for name, value in fields)),
        *_chat({"json_schema": {"type": "object"}, "grammar": 'root ::= "a"'}),
    ]


def odd_fields() -> list[dict[str, Any]]:
    """Each known member with values of every type; only what llama-server refuses of it is recorded.

    Grammars and schemas are left out: bankml refuses them whatever they say.
    """
    from bankml.core.serve.llama import fields

    values: tuple[Any, ...] = ("x", [], {}, True, 1.5, -7, 2**31)
    return [
        {"path": CHAT, "body": {"messages": HI, "max_tokens": 1, name: value}}
        for name in sorted(fields.known_names(fields.CHAT) - {"messages", "grammar", "json_schema"})
        for value in values
        if not (name in ("max_tokens", "max_completion_tokens", "n_predict", "stream") and value in (True, 1.5))
    ]


def _routes() -> list[dict[str, Any]]:
    return [
        *(
            {"path": path}
            for path in ("/health", "/v1/health", "/v1/models", "/models", "/props", "/metrics", "/nope", "/health/")
        ),
        *({"path": path} for path in (CHAT, "/tokenize", "/v1")),
        *_post("/health", {}),
        *_post("/props", {}),
        *_post("/nope", {}),
        *_post("/v1/chat/completions/x", {}),
    ]
