# SPDX-License-Identifier: MIT OR Apache-2.0
"""Vocabularies that are refused, each by name: what b11192 does not load, aborts on, or cannot read."""

import pytest

from bankml.core.gguf.reader import GgufFile
from bankml.core.gguf.types import ARRAY, BOOL, F32, I32, STRING, U16, U32
from bankml.core.gguf.writer import write_gguf
from bankml.core.tokenizer.tokenizer import Tokenizer
from bankml.refusal import Refusal

TOKENS = ["a", "b", "ab", "<s>", "</s>", "Ġ", "c", "d", "e", "f", "g", "h", "i"]
KV = {
    "general.architecture": (STRING, "llama"),
    "tokenizer.ggml.model": (STRING, "gpt2"),
    "tokenizer.ggml.pre": (STRING, "gpt-2"),
    "tokenizer.ggml.tokens": ((ARRAY, STRING), TOKENS),
    "tokenizer.ggml.token_type": ((ARRAY, I32), [1, 1, 1, 3, 3] + [1] * 8),
    "tokenizer.ggml.merges": ((ARRAY, STRING), ["a b"]),
}


@pytest.fixture
def make(tmp_path):
    def build(**changes):
        kv = KV | {("general." if key == "name" else "tokenizer.ggml.") + key: value for key, value in changes.items()}
        write_gguf(tmp_path / "v.gguf", [(key, *value) for key, value in kv.items() if value is not None], [])
        with GgufFile.open(tmp_path / "v.gguf") as gguf:
            return Tokenizer.from_gguf(gguf)

    return build


def test_plain(make):
    ours = make(bos_token_id=(U32, 3), eos_token_id=(U32, 4), add_bos_token=(BOOL, True))
    assert ours.encode("ab a") == [3, 2, 5, 0]
    assert ours.encode("ab", add_special=False) == [2]
    assert ours.encode("<s>ab</s>", add_special=False) == [3, 2, 4]
    assert ours.encode("<s>ab", add_special=False, parse_special=False) == [2]
    assert (ours.bos, ours.eos, ours.eog, ours.n_vocab, ours.piece(5)) == (3, 4, {4}, 13, b" ")
    assert ours.encode("") == [3]
    assert ours.encode("", add_special=False) == []
    assert ours.decode([3, 2, 5, 0], special=True) == b"<s>ab a"
    assert ours.decode([3, 2, 5, 0], special=True, remove=True) == b"ab a"
    assert (ours.piece(3), ours.piece(3, special=True), ours.is_control(3)) == (b"", b"<s>", True)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"model": (STRING, "llama")}, "text.model"),
        ({"model": (STRING, "bert")}, "text.model"),
        ({"model": (STRING, "gemma4")}, "text.model"),
        ({"model": None}, "text.model"),
        ({"model": (U32, 2)}, "gguf.key-type"),
        ({"pre": None}, "text.pre"),
        ({"pre": (STRING, "")}, "text.pre"),
        ({"pre": (STRING, "no-such")}, "text.pre"),
        ({"pre": (STRING, "GPT-2")}, "text.pre"),
        ({"pre": (STRING, "sarvam-moe")}, "text.pre"),
        ({"merges": None}, "text.merges"),
        ({"merges": ((ARRAY, I32), [1])}, "gguf.key-type"),
        ({"merges": (STRING, "a b")}, "gguf.key-type"),
        ({"tokens": None}, "text.tokens"),
        ({"tokens": ((ARRAY, STRING), [])}, "text.tokens"),
        ({"tokens": ((ARRAY, I32), [1] * 13)}, "gguf.key-type"),
        ({"tokens": ((ARRAY, STRING), [*TOKENS[:12], "a"])}, "text.duplicate"),
        ({"tokens": ((ARRAY, STRING), [*TOKENS[:11], "", "[EMPTY_11]"])}, "text.duplicate"),
        ({"tokens": ((ARRAY, STRING), [b"\xff", *TOKENS[1:]])}, "gguf.string-utf8"),
        ({"token_type": ((ARRAY, I32), [1] * 12)}, "gguf.vocabulary"),
        ({"token_type": ((ARRAY, U32), [1] * 13)}, "gguf.key-type"),
        ({"token_type": ((ARRAY, I32), [6] + [1] * 12)}, "text.byte-token"),
        ({"scores": ((ARRAY, F32), [0.0] * 12)}, "gguf.vocabulary"),
        ({"scores": ((ARRAY, U32), [0] * 13)}, "gguf.key-type"),
        ({"bos_token_id": (I32, 3)}, "gguf.key-type"),
        ({"fim_pre_token_id": (STRING, "3")}, "gguf.key-type"),
        ({"add_bos_token": (U32, 1)}, "gguf.key-type"),
        ({"add_sep_token": (U32, 1)}, "gguf.key-type"),
        ({"suppress_tokens": ((ARRAY, U32), [1])}, "gguf.key-type"),
        ({"name": (STRING, "My Phi-3")}, "text.phi3"),
    ],
    ids=str,
)
def test_refused(make, changes, code):
    with pytest.raises(Refusal) as refusal:
        make(**changes)
    assert refusal.value.code == code
    assert refusal.value.where


def test_longer_arrays_are_read(make):
    assert make(token_type=((ARRAY, I32), [1] * 20), scores=((ARRAY, I32), [0] * 14)).encode("ab") == [2]


def test_defaults_and_ids_out_of_range(make):
    assert make().bos == 11
    assert make(bos_token_id=(U32, 99)).bos == 11
    assert make(tokens=((ARRAY, STRING), TOKENS[:5])).bos is None
    assert make(pre=(STRING, "glm4")).bos is None


def test_a_token_that_is_not_there_cannot_be_added(make):
    ours = make(tokens=((ARRAY, STRING), TOKENS[:5]), add_bos_token=(BOOL, True))
    assert ours.encode("ab", add_special=False) == [2]
    with pytest.raises(Refusal, match="bos token"):
        ours.encode("ab")
    with pytest.raises(Refusal, match="bos token"):
        ours.require_ends()
    with pytest.raises(Refusal, match="eos token"):
        make(tokens=((ARRAY, STRING), TOKENS[:5]), add_eos_token=(BOOL, True)).require_ends()
    make(tokens=((ARRAY, STRING), TOKENS[:5])).require_ends()


def test_an_id_as_large_as_the_vocabulary_is_outside_of_it(make):
    assert make(bos_token_id=(U32, len(TOKENS) - 1)).bos == 12
    assert make(bos_token_id=(U32, len(TOKENS))).bos == 11
    # The default itself is 11.
    assert make(tokens=((ARRAY, STRING), TOKENS[:12])).bos == 11
    assert make(tokens=((ARRAY, STRING), TOKENS[:11])).bos is None
    assert make(eot_token_id=(U32, len(TOKENS))).eog == make().eog


@pytest.mark.parametrize(
    ("mask", "changes"), [("<mask>", {"pre": (STRING, "jina-v2-code")}), ("[MASK]", {"name": (STRING, "A Modern-BERT")})]
)
def test_a_mask_takes_the_blanks_before_it_along(make, mask, changes):
    tokens = {"tokens": ((ARRAY, STRING), [mask, *TOKENS[1:]]), "token_type": ((ARRAY, I32), [3] + [1] * 12)}
    text = f"b \t {mask} b"
    assert make(**tokens, **changes).encode(text, add_special=False) == [1, 0, 5, 1]
    assert make(**tokens).encode(text, add_special=False) != [1, 0, 5, 1]


def test_a_part_of_a_split_model_says_which_it_is(tmp_path):
    write_gguf(tmp_path / "p.gguf", [("split.no", U16, 1), ("split.count", U16, 3)], [])
    with GgufFile.open(tmp_path / "p.gguf") as gguf, pytest.raises(Refusal) as refusal:
        Tokenizer.from_gguf(gguf)
    assert refusal.value.code == "model.split"
    assert "part 2 of 3" in refusal.value.message


@pytest.mark.parametrize("token", [-1, 13, 1 << 40])
def test_no_such_token(make, token):
    ours = make()
    for ask in (ours.piece, ours.is_control, lambda token: ours.decode([token])):
        with pytest.raises(Refusal, match="no such token"):
            ask(token)
