# SPDX-License-Identifier: MIT OR Apache-2.0
r"""The pre-tokenizers that a GGUF can name, and the steps that each cuts text by.

A step is a pattern, or the name of a cutter in :mod:`bankml.core.tokenizer.pretokenizer`. ``\p{L}``, ``\p{N}``, ``\p{M}``,
``\p{P}`` and ``\p{S}`` are Unicode categories and always stand inside brackets; a step that holds one runs on collapsed
text, any other on the text itself.

Source: llm_tokenizer_bpe and llama_vocab::impl::load, src/llama-vocab.cpp; the patterns are those of the models' own
tokenizer files as b11192 reads them, here in the form that cuts the same.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Pre(NamedTuple):
    """What one value of ``tokenizer.ggml.pre`` means."""

    steps: str
    """Key into :data:`STEPS`."""
    clean_spaces: bool = True
    """Whether detokenizing takes spaces away before punctuation."""
    ignore_merges: bool = False
    """Whether a word that is a token is taken whole before any merge."""
    add_bos: bool = False
    """Whether a beginning-of-text token is added when the file does not say."""
    bos: bool = True
    """Whether there is a beginning-of-text token when the file names none."""
    merges: bool = True
    """Whether the file must hold merges."""


_ENDINGS = r"'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
_SPACES = r"\s+(?!\S)|\s+"
_LINES = rf"\s*[\r\n]+|{_SPACES}"
_SIGNS = r" ?[^\s\p{L}\p{N}]+"
_WORD = r"[^\r\n\p{L}\p{N}]?[\p{L}]+"
_GPT2 = rf"'(?:[stmd]|re|ve|ll)| ?[\p{{L}}]+| ?[\p{{N}}]+|{_SIGNS}|{_SPACES}"
_LLAMA3 = rf"{_ENDINGS}|{_WORD}|[\p{{N}}]{{1,3}}|{_SIGNS}[\r\n]*|{_LINES}"
_QWEN2 = rf"{_ENDINGS}|{_WORD}|[\p{{N}}]|{_SIGNS}[\r\n]*|{_LINES}"
# Digits one by one and GPT-2's pattern between them, in one pass: white space before a digit ends a stretch.
_DIGITS_GPT2 = rf"[\p{{N}}]|'(?:[stmd]|re|ve|ll)| ?[\p{{L}}]+|{_SIGNS}|\s+(?![^\s\p{{N}}])|\s+"

# In collapsed text a letter outside ASCII is upper and lower case at once.
_CASED = r"[^\r\n\p{L}\p{N}]?[A-Z\xd2]*[a-z\xd2]+%s|[^\r\n\p{L}\p{N}]?[A-Z\xd2]+[a-z\xd2]*%s"
_CASED_MARKS = r"[^\r\n\p{L}\p{N}]?[A-Z\xd2\xd4]*[a-z\xd2\xd4]+%s|[^\r\n\p{L}\p{N}]?[A-Z\xd2\xd4]+[a-z\xd2\xd4]*%s"
_MARKED = r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+"

_CJK = "[一-龥\u3040-ヿ]+"
_CJK_AND_MORE = "[一-龥\u0800-一가-\ud7ff]+"
_DEEPSEEK3 = (
    r"[!-/:-@\x5b-\x60{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+%s",
    r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
_AFMOE_SCRIPTS = (
    "[一-\u9fff㐀-\u4dbf\u8c48-\ufaff\u3040-ヿ･-ﾟ⼀-\u2fdf\u0e40-\u0e7f\u0e80-\u0eff"
    "\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff가-\ud7af\u1100-\u11ff]+"
)
_YOUTU_SCRIPTS = "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-\u303f\ufe30-\ufe4f]+|[ㄅ-ㄯ]+|" + _CJK
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"

# DeepSeek LLM's cased letters.
_DEEPSEEK_LETTERS = (
    "A-Za-z\xb5\xc0-\xd6\xd8-\xf6\xf8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d"
    "\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5"
    "\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d"
    "\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4"
    "\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115"
    "\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184"
    "\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e"
    "\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)

STEPS: Final[dict[str, tuple[str, ...]]] = {
    "gpt2": (_GPT2,),
    "digits-gpt2": (_DIGITS_GPT2,),
    "llama3": (_LLAMA3,),
    "qwen2": (_QWEN2,),
    "qwen35": (rf"{_ENDINGS}|{_MARKED}|[\p{{N}}]| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_LINES}",),
    "default": (r"[\p{P}$+<=>^~|]+", _GPT2, r"[\p{N}]+", "[0-9][0-9][0-9]"),
    "falcon": (r"[\p{P}$+<=>^~|`]+", _GPT2, "[0-9][0-9][0-9]"),
    "jais2": (
        rf"{_ENDINGS}|{_WORD}|[\p{{N}}]{{1,3}}|{_SIGNS}[\r\n]*|\s*[\r\n]+|"
        + "".join(rf"\s{{{count}}}(?!\S)|" for count in (512, 256, 128, 64, 32, 16, 8, 4, "1,2"))
        + r"\s",
    ),
    "deepseek-llm": (
        r"[\r\n]",
        rf"\s?[{_DEEPSEEK_LETTERS}]+",
        r"\s?[!-/:-~！-／：-～‘-‟\u3000-。]+",
        r"\s+\Z",
        _CJK_AND_MORE,
        r"[\p{N}]+",
    ),
    "deepseek-coder": (r"[\r\n]", r"\s?[\p{L}]+", r"\s?[\p{P}]+", _CJK_AND_MORE, r"[\p{N}]"),
    "deepseek3": (r"[\p{N}]{1,3}", _CJK, _DEEPSEEK3[0] % _DEEPSEEK3[1]),
    "spark2_5": (r"[\p{N}]{1,3}", _CJK, _DEEPSEEK3[0] % r"|[\r\n]|\s+(?!\S)|\s+", r"[\p{N}]"),
    "youtu": (
        _YOUTU_SCRIPTS,
        rf"{_MARKED}(?:{_ENDINGS})?|[\p{{N}}]|{_SIGNS}[\r\n/]*|{_LINES}",
    ),
    "bloom": (_BLOOM,),
    "viking": (_BLOOM, r"[\p{N}]"),
    "tekken": (rf"{_CASED % ('', '')}|[\p{{N}}]|{_SIGNS}[\r\n/]*|{_LINES}",),
    "gpt4o": (rf"{_CASED % ((f'(?:{_ENDINGS})?',) * 2)}|[\p{{N}}]{{1,3}}|{_SIGNS}[\r\n/]*|{_LINES}",),
    "granite-multi": (rf"{_CASED_MARKS % ((f'(?:{_ENDINGS})?',) * 2)}|[\p{{N}}]{{1,3}}|{_SIGNS}[\r\n/]*|{_LINES}",),
    "chameleon": (
        "<sentinel:[0-9]+>",
        "IMGIMG[A-I]{1,4}Z",
        r"[\t\n]|    |  ",
        r"[\p{N}]",
        r"[\p{P}!-/:-@\[-`{-~]",
        _GPT2,
    ),
    "tiny-aya": ("#digit-groups", rf"{_MARKED}(?:{_ENDINGS})?|[\p{{N}}]{{1,3}}|{_SIGNS}[\r\n/]*|{_LINES}"),
    "kimi-k2": ("#han",),
    "superbpe": (r"[\p{N}]+", r"(?=(?:\d{3})+(?!\d))"),
    "bailingmoe": (rf"{_ENDINGS}|{_WORD}|[\p{{N}}]|{_SIGNS}[\r\n]*|\s*[\r\n]|{_SPACES}",),
    "seed-coder": (rf"{_ENDINGS}|{_WORD}|[\p{{N}}]| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_LINES}",),
    "ufakzeka": (rf"{_WORD}|[\p{{N}}]|{_SIGNS}[\r\n]*|{_LINES}",),
    "afmoe": ("#digit-groups", _AFMOE_SCRIPTS, _DEEPSEEK3[0] % _DEEPSEEK3[1]),
    "laguna": (r"[^\n]+|\n+", _QWEN2),
    "exaone-moe": (
        rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?(?:[\p{{L}}][\p{{M}}]*(?: [\p{{L}}][\p{{M}}]*)*)+|[\p{{N}}]|{_SIGNS}[\r\n/]?"
        rf"|\s*[\r\n]|{_SPACES}",
    ),
    "minicpm5": (
        r"[\p{N}]{1,3}",
        rf"{_ENDINGS}|{_WORD}|[\p{{N}}]+|{_SIGNS}[\r\n]*|{_LINES}",
    ),
}

# The pattern that only Kimi K2's cutter uses, on text in which Chinese characters have classes of their own.
HAN: Final = (
    rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}\xd6]?[\p{{L}}]+(?:{_ENDINGS})?|[\p{{N}}]{{1,3}}"
    rf"| ?[^\s\p{{L}}\p{{N}}\xd6]+[\r\n]*|{_LINES}"
)

_LLAMA3_PRE = Pre("llama3", ignore_merges=True, add_bos=True)
_PLAIN_QWEN2 = Pre("qwen2", clean_spaces=False)
_GROUPS: Final[dict[Pre, str]] = {
    Pre("default"): "default",
    _LLAMA3_PRE: "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
    Pre("llama3"): "dbrx smaug-bpe",
    Pre("llama3", bos=False): "glm4 chatglm-bpe",
    Pre("gpt2"): "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert jina-v1-en "
    "jina-v2-code roberta-bpe mpt olmo jais exaone4",
    Pre("gpt2", clean_spaces=False): "trillion granite-docling",
    Pre("digits-gpt2"): "starcoder refact codeshell exaone minerva-7b mellum2",
    Pre("digits-gpt2", clean_spaces=False): "smollm command-r",
    Pre("qwen2"): "stablelm2 megrez",
    _PLAIN_QWEN2: "qwen2 deepseek-r1-qwen kormo f2llmv2 hunyuan grok-2 solar-open",
    Pre("qwen35", clean_spaces=False): "qwen35",
    Pre("falcon"): "falcon",
    Pre("jais2"): "jais-2",
    Pre("deepseek-llm", clean_spaces=False): "deepseek-llm",
    Pre("deepseek-coder", clean_spaces=False): "deepseek-coder",
    Pre("deepseek3", clean_spaces=False): "deepseek-v3 hunyuan-dense hy_v4 joyai-llm",
    Pre("spark2_5", clean_spaces=False): "spark2_5",
    Pre("youtu", clean_spaces=False, ignore_merges=True): "youtu",
    Pre("bloom"): "bloom gpt3-finnish",
    Pre("bloom", clean_spaces=False): "poro-chat",
    Pre("viking", clean_spaces=False): "viking",
    Pre("tekken", clean_spaces=False, ignore_merges=True, add_bos=True): "tekken",
    Pre("gpt4o", clean_spaces=False): "gpt-4o llama4 kanana2 talkie minimax-m2",
    Pre("granite-multi", clean_spaces=False, ignore_merges=True): "granite-embed-multi-97m",
    Pre("chameleon", clean_spaces=False, add_bos=True): "chameleon",
    Pre("tiny-aya", clean_spaces=False): "tiny_aya cohere2moe",
    Pre("kimi-k2", clean_spaces=False, merges=False): "kimi-k2",
    Pre("superbpe", clean_spaces=False): "superbpe",
    Pre("bailingmoe", clean_spaces=False): "bailingmoe bailingmoe2 llada-moe",
    Pre("seed-coder", clean_spaces=False): "seed-coder",
    Pre("ufakzeka", clean_spaces=False): "ufakzeka",
    Pre("afmoe", clean_spaces=False): "afmoe",
    Pre("laguna", clean_spaces=False): "laguna",
    Pre("exaone-moe"): "exaone-moe",
    Pre("minicpm5", ignore_merges=True): "minicpm5",
}

PRE: Final[dict[str, Pre]] = {name: pre for pre, names in _GROUPS.items() for name in names.split()}

# b11192 knows these as well; they cut and spell words in ways of their own, which are not reproduced here.
UNPLAYED: Final = ("gemma4", "granite-embed-multi-311m", "sarvam-moe", "whitespace")
