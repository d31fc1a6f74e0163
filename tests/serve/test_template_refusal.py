# SPDX-License-Identifier: MIT OR Apache-2.0
"""A template that refuses a chat by itself, end to end: its sentence reaches the client, and the server goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bankml.core.gguf import types
from bankml.core.gguf.header import Array
from bankml.core.gguf.reader import GgufFile
from bankml.core.gguf.writer import Pair, Tensor, write_gguf

from .conftest import Served

KEY = "tokenizer.chat_template"
STRICT = (
    "{% for m in messages %}"
    "{% if loop.index0 > 0 and m.role == messages[loop.index0 - 1].role %}"
    "{{ raise_exception('Conversation roles must alternate') }}"
    "{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# What llama-server b11192 answers with this template (--chat-template-file) to a chat with two messages of one role.
SAID = (
    "Unable to generate parser for this template. Automatic parser generation failed: \n------------\n"
    "While executing CallExpression at line 1, column 111 in source:\n"
    "...op.index0 - 1].role %}{{ raise_exception('Conversation roles must alternate') }}...\n"
    "                                           ^\nError: Jinja Exception: Conversation roles must alternate"
)
TWICE = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]


def with_template(source: Path, target: Path, template: str) -> None:
    """The model with another chat template."""
    with GgufFile.open(source) as gguf:
        pairs: list[Pair] = []
        for key, entry in gguf.header.entries.items():
            if isinstance(entry.value, Array):
                strings = entry.value.type == types.STRING
                pairs.append((key, (types.ARRAY, entry.value.type), gguf.raw_strings(key) if strings else gguf.kv[key]))
            else:
                pairs.append((key, entry.type, template if key == KEY else gguf.kv[key]))
        tensors = [Tensor(each.name, each.dims, each.type_id, gguf.data(each.name)) for each in gguf.tensors.values()]
        write_gguf(target, pairs, tensors)


@pytest.fixture
def strict(own_home: Path, smollm2: Path, tmp_path: Path) -> Iterator[Served]:
    (own_home / "models").mkdir()
    (own_home / "forks").mkdir()
    model = own_home / "models" / "strict.gguf"
    with_template(smollm2, model, STRICT)
    pin = own_home / "forks" / "strict.gguf.FORK.json"
    command = [sys.executable, "-m", "bankml", "pin", str(model), "--fork", str(pin), "--write"]
    subprocess.run(command, check=True, capture_output=True)
    server = Served(model, "--ctx", "256")
    yield server
    assert server.stop() == 0, server.rows()
    assert "Traceback" not in server.rows()


def test_the_templates_own_sentence_reaches_the_client(strict: Served) -> None:
    for path in ("/v1/chat/completions", "/apply-template"):
        for stream in (False, True):
            answer = strict.post(path, {"messages": TWICE, "max_tokens": 2, "stream": stream})
            assert answer.status_code == 400
            assert answer.json() == {"error": {"code": 400, "message": SAID, "type": "invalid_request_error"}}
    answer = strict.post("/v1/chat/completions", {"messages": TWICE[:1], "max_tokens": 2})
    assert answer.status_code == 200
    assert strict.post("/completion", {"prompt": "a", "n_predict": 1}).status_code == 200
