# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which tokens are special: the attributes of each token, what b11192 overrides by text, and what ends a generation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bankml.core.tokenizer.vocab_order import hash_order
from bankml.refusal import Refusal

UNKNOWN: Final = 1
UNUSED: Final = 2
NORMAL: Final = 4
CONTROL: Final = 8
USER_DEFINED: Final = 16
BYTE: Final = 32
LSTRIP: Final = 128
RSTRIP: Final = 256

# Attribute of each value of tokenizer.ggml.token_type; any other value means none.
TYPE_ATTRIBUTES: Final = {1: NORMAL, 2: UNKNOWN, 3: CONTROL, 4: USER_DEFINED, 5: UNUSED, 6: BYTE}

SPECIAL_IDS: Final = {
    "bos": "bos_token_id",
    "eos": "eos_token_id",
    "eot": "eot_token_id",
    "eom": "eom_token_id",
    "unk": "unknown_token_id",
    "sep": "seperator_token_id",
    "pad": "padding_token_id",
    "mask": "mask_token_id",
    "fim_pre": "fim_pre_token_id",
    "fim_suf": "fim_suf_token_id",
    "fim_mid": "fim_mid_token_id",
    "fim_pad": "fim_pad_token_id",
    "fim_rep": "fim_rep_token_id",
    "fim_sep": "fim_sep_token_id",
}
DEPRECATED_IDS: Final = {"fim_pre": "prefix_token_id", "fim_suf": "suffix_token_id", "fim_mid": "middle_token_id"}

_FIM_TEXTS: Final = {
    "fim_pre": "<|fim_prefix|> <fim-prefix> <fim_prefix> <｜fim▁begin｜> <PRE> ▁<PRE> <|code_prefix|> <|prefix|>",
    "fim_suf": "<|fim_suffix|> <fim-suffix> <fim_suffix> <｜fim▁hole｜> <SUF> ▁<SUF> <|code_suffix|> <|suffix|>",
    "fim_mid": "<|fim_middle|> <fim-middle> <fim_middle> <｜fim▁end｜> <MID> ▁<MID> <|code_middle|> <|middle|>",
    "fim_pad": "<|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD]",
    "fim_rep": "<|fim_repo|> <|repo_name|> <fim-repo> <REPO> <reponame>",
    "fim_sep": "<|file_sep|>",
}
_EOG_TEXTS: Final = (
    "<|eot_id|> <|im_end|> <|end|> <|return|> <|call|> <|flush|> <|calls|> <end_of_turn> <|endoftext|> </s> <|eom_id|> <EOT> "
    "_<EOT> [EOT] [EOS] <|end_of_text|> <end_of_utterance> <eos> <turn|> <|tool_response> <｜end▁of▁sentence｜> [e~["
)
_USER_DEFINED_TEXTS: Final = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")


class Specials:
    """The special tokens of one vocabulary; ``attributes`` is changed in place as b11192 changes it.

    Args:
        tokens: texts by id.
        ids: ids by text.
        attributes: bits by id.
        defaults: special ids of this kind of vocabulary, by role.
        read: gives the value of a ``tokenizer.ggml.*_token_id`` key, or None.

    Source: llama_vocab::impl::load, src/llama-vocab.cpp.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        ids: Mapping[str, int],
        attributes: list[int],
        defaults: Mapping[str, int],
        read: Callable[[str], int | None],
    ) -> None:
        self._tokens = tokens
        self._ids = ids
        self._attributes = attributes
        self.roles: dict[str, int] = dict(defaults)
        self._read_ids(read)
        self._find_fim()
        self.eog = self._find_eog()

    def _read_ids(self, read: Callable[[str], int | None]) -> None:
        """Ids that the file gives; one outside the vocabulary is ignored, and so is a default that lies outside."""
        for role, key in [*SPECIAL_IDS.items(), *DEPRECATED_IDS.items()]:
            if self.roles.get(role, 0) >= len(self._tokens):
                del self.roles[role]
            given = read(key)
            if given is not None and given < len(self._tokens):
                self.roles[role] = given

    def _find_fim(self) -> None:
        """Roles that the file leaves open go to the first token with such a text, in the reference's hash order."""
        order: dict[int, int] = {}
        for role, texts in _FIM_TEXTS.items():
            if role in self.roles:
                continue
            candidates = [self._ids[text] for text in texts.split() if text in self._ids]
            if len(candidates) > 1:
                order = order or {index: place for place, index in enumerate(hash_order(self._tokens))}
                candidates.sort(key=order.__getitem__)
            if candidates:
                self.roles[role] = candidates[0]
                self._attributes[candidates[0]] |= CONTROL

    def _find_eog(self) -> frozenset[int]:
        named = {text: self._ids[text] for text in _EOG_TEXTS.split() if text in self._ids}
        for index in named.values():
            self._attributes[index] |= CONTROL
        for text in _USER_DEFINED_TEXTS:
            if text in self._ids:
                self._attributes[self._ids[text]] = USER_DEFINED
        eog = set(named.values())
        eog.update(self.roles[role] for role in ("fim_pad", "fim_rep", "fim_sep", "eos", "eot", "eom") if role in self.roles)
        ends = {self._tokens[index] for index in eog}
        calls = ends & {"<|call|>", "<|calls|>"}
        if "<|end|>" in ends and calls and ends & {"<|return|>", "<|flush|>"}:
            eog.remove(self._ids["<|end|>"])
            self._attributes[self._ids["<|end|>"]] = USER_DEFINED
        if {"<|tool_response>", "</s>"} <= ends:
            eog.remove(self._ids["</s>"])
            self._attributes[self._ids["</s>"]] = NORMAL
        return frozenset(eog)


def strip_attributes(
    ids: Mapping[str, int], attributes: list[int], specials: Sequence[int], pre: str, name: str, arch: str
) -> None:
    """Set which special tokens take the white space beside them along: b11192 knows it by the names of models.

    Raises:
        Refusal: a Phi-3 vocabulary lacks a token that b11192 relies on; it does not load such a file.

    Source: llama_vocab::impl::load, src/llama-vocab.cpp.
    """
    lower = name.lower()
    if any(part in pre for part in ("jina-v2-de", "jina-v2-es", "jina-v2-code")) or any(
        part in arch for part in ("nomic-bert-moe", "jina-bert-v3")
    ):
        if "<mask>" in ids:
            attributes[ids["<mask>"]] |= LSTRIP
    elif "phi-3" in lower or "phi3" in lower:
        for text in ("</s>", "<unk>", "<s>", "<|endoftext|>"):
            if text not in ids:
                raise Refusal(
                    "text.phi3",
                    "a model named Phi-3 whose vocabulary lacks a token that llama.cpp relies on",
                    where="tokenizer.ggml.tokens",
                    found=f"no {text}",
                    allowed="</s>, <unk>, <s> and <|endoftext|>",
                )
        for index in (*specials, ids["</s>"]):
            attributes[index] |= RSTRIP
        for text in ("<unk>", "<s>", "<|endoftext|>"):
            attributes[ids[text]] &= ~RSTRIP
    elif "modern-bert" in lower and "[MASK]" in ids:
        attributes[ids["[MASK]"]] |= LSTRIP
