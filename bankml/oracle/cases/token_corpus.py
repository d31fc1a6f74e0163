# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the tokenizer oracle asks: written texts, byte strings, and an endless supply of drawn ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

_T = TypeVar("_T")
_MASK: Final = (1 << 64) - 1

RANGES: Final = (
    (0x20, 0x7E),
    (0x30, 0x39),
    (0x00, 0x1F),
    (0x80, 0xFF),
    (0x100, 0x24F),
    (0x300, 0x36F),
    (0x370, 0x52F),
    (0x590, 0x6FF),
    (0x900, 0xEFF),
    (0x1100, 0x11FF),
    (0x2000, 0x206F),
    (0x2070, 0x2BFF),
    (0x3000, 0x30FF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xE000, 0xFFFF),
    (0x10000, 0x1FAFF),
)
"""The 17 ranges of code points that drawn texts come from."""

WORDS: Final = (
    *(" ", "  ", "   ", "     ", "\n", "\n\n", " \n", "\r\n", "\t", "\v", "\f", "\0", "\x1c", "\x7f", "\x85", "\xa0"),
    *("\u1680", "\u200b", "\u200d", "\u2028", "\u3000", "\ufeff", "\ufffd", "a", "Z", "the", " The", "HELLO", "wOrD", "naïve"),
    *("'", "’", "'s", "'S", "'t", "'re", "'RE", "'ll", "'lL", "'ve", "'d", "'M", "''s", "1", "12", "123", "1234", "1234567"),
    *("٣", "½", "²", "Ⅳ", "〇", "à", "a\u0301", "\u0301", "\u0308", "ß", "ſ", "İ", "K", "ǅ", "你好", "日本", "ひら", "カタ"),
    *(
        "한국",
        "ㄱ",
        "Привет",
        "שלום",
        "مرحبا",
        "नमस्ते",
        "ไทย",
        "\u0e33",
        "😀",
        "👩‍👩‍👧",
        "🇩🇪",
        "✊🏽",
        "豈",
        "々",
        "𝔘",
        "\U0001f979",
    ),
    *(
        ".",
        ",",
        "!",
        "?",
        "...",
        "…",
        "—",
        "“",
        "”",
        "、",
        "。",
        "！",
        "$",
        "+",
        "<=",
        "^",
        "`",
        "|",
        "~",
        "/",
        "//",
        "\\",
        "_",
        "--",
    ),
    *(
        "#",
        "@",
        "%",
        "&",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        "=",
        "*",
        ":",
        ";",
        "<|im_start|>",
        "<|im_end|>",
        "<|endoftext|>",
    ),
    *("<|", "|>", "<s>", "</s>", "<unk>", "<think>", "</think>", "<tool_call>", "<|fim_prefix|>", "<repo_name>", "<|eot_id|>"),
)

_TEXTS: Final = (
    "",
    "The quick brown fox jumps over the lazy dog. It's 3.14159, isn't it? They'll say WE'RE done; I'd've SAID so.",
    "In 1984 there were 1,234,567 of them (about 12 %), at $0.99 each – or 0x1F600, or 1e-9, or 10²⁴.",
    "Der Übermut der Straßenfüchse kostete zwölf Euro; »Größe« ist nicht alles.",
    "L'été dernier, on s'est promené jusqu'à l'île où naquit l'œuvre — « déjà vu » ?",
    "El niño preguntó: ¿cuándo llegará la primavera? ¡Mañana!",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. Объём — 12 литров.",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία, είπε ο Αλέξανδρος.",
    "今天天气很好，我们一起去公园散步吧！第３章有１２０页。",
    "吾輩は猫である。名前はまだ無い。コンピューターの前で、３回くり返した。",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "जो पढ़ता है, वह बढ़ता है। कुल १२३ पन्ने हैं।",
    "כל בני אדם נולדו בני חורין ושווים בערכם ובזכויותיהם. שָׁלוֹם",
    "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق، والعدد ١٢٣٤.",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน น้ำ ๔๕",
    "Zażółć gęślą jaźń; çok güzel, İstanbul'da ışık; Đặng Thùy Trâm đã viết.",
    "e\u0301 versus é, A\u030a versus Å, ﬁ versus fi, Ⅻ versus XII, ㎏ versus kg",
    "👩‍🚀🚀 🏳️‍🌈 🇫🇷🇯🇵 👍🏽 ✨✨✨ ❤️‍🔥 1️⃣2️⃣ ©®™",
    "def fib(n):\n    a, b = 0, 1\n    while n > 0:\n\ta, b = b, a+b  # tab\n        n -= 1\n    return a\n\n\nprint(fib(10))\n",
    '#include <stdio.h>\r\nint main(void) {\r\n\tprintf("%d\\n", 0xff & ~3);\r\n\treturn 0;\r\n}\r\n',
    "SELECT * FROM \"t\" WHERE a >= 10 AND b LIKE '%x_%' -- comment\n;",
    '{"key": [1, 2.5, null, true], "nested": {"a\\u00e9": "\\n"}}',
    "<html>\n  <body class='x'>&nbsp;&lt;b&gt;</body>\n</html>",
    "$x = \\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a}$ and ∑∫∂√∞ ≤≥≠ ⟨ψ|φ⟩ ℝ³",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n* item\n  * sub\n\n> quote\n\n```sh\necho $HOME\n```\n",
    "<|im_start|>system\nYou are terse.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|><|im_end|><|im_end|> <|im_start|>x<|endoftext|>\n<|endoftext|>",
    "<|im_start|<|im_start|>|im_start|> <|IM_END|> < |im_end|> <|im_end |>",
    "<s>[INST] <<SYS>>\nx\n<</SYS>>\n\ny [/INST] z </s><unk><pad><mask>[MASK]",
    '<think>\nstep 1\n</think>\n\n<tool_call>\n{"name": "f"}\n</tool_call><|vision_start|><|image_pad|>',
    " leading",
    "trailing ",
    "  two  spaces  ",
    "\n\n\n",
    " \n \n ",
    "\t\t\tx",
    "x\r\ry\n\rz",
    "a\u2028b\u2029c\x85d\xa0e\u3000f",
    "no\u200bbreak\u200dhere\ufeff",
    "\0null\0byte\0",
    "\x01\x02\x1b[31mred\x1b[0m\x7f\x80\x9f",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "ThisIsAVeryLongCamelCaseIdentifierWithoutAnySpacesThatGoesOnAndOnUntilItIsLongerThanTheShortMergeAndThenALittleMore99",
    "================================================================================================================ x",
    "𠀀𠀁𪚥𫝀 𝒜𝓑 𐍈 \U000e0041\U000e007f \U0010ffff \ue000\uf8ff",
)


class Draw:
    """A generator of numbers that will never change (splitmix64)."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def below(self, limit: int) -> int:
        """A number from 0 to ``limit`` - 1."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
        return (mixed ^ mixed >> 31) % limit

    def one(self, items: Sequence[_T]) -> _T:
        """One of the items."""
        return items[self.below(len(items))]


def written() -> list[str]:
    """The texts that are recorded in full: prose, code, markers, and every word in four surroundings."""
    around = (form.replace("@", word) for word in WORDS for form in ("@", "x@y", " @@ ", "1@2"))
    return list(dict.fromkeys((*_TEXTS, *around)))


def drawn(seed: int, count: int) -> Iterator[str]:
    """Texts of words and of characters from the 17 ranges, always the same for a seed."""
    draw = Draw(seed)
    for _ in range(count):
        parts = []
        for _ in range(1 + draw.below(16)):
            if draw.below(2):
                parts.append(draw.one(WORDS))
            else:
                low, high = draw.one(RANGES)
                parts.append("".join(chr(low + draw.below(high - low + 1)) for _ in range(1 + draw.below(4))))
        yield "".join(parts)


def broken(seed: int, count: int) -> Iterator[bytes]:
    """Byte strings that are mostly not UTF-8: lone, missing and over-long bytes, surrogates; none past U+10FFFF."""
    draw = Draw(seed)
    pieces = (
        *(b"a", b" ", b"1", b"'s", b"<|im_end|>", b"\n", b"\xc3\xa9", b"\xe2\x82\xac", b"\xf0\x9f\x98\x80"),
        *(b"\xc3", b"\xa9", b"\xe2\x82", b"\xf0\x9f\x98", b"\xff", b"\xfe", b"\xc0\x80", b"\xc1\x81", b"\xe0\x80\xaf"),
        *(b"\xed\xa0\x80", b"\xed\xb0\x80", b"\x80", b"\xbf", b"\xf8\x88\x80\x80\x80"),
    )
    for _ in range(count):
        yield b"".join(draw.one(pieces) for _ in range(1 + draw.below(10)))


def neighbours(first: int, count: int) -> str:
    """Every code point from ``first`` on beside a letter, a digit, a space, an apostrophe and itself."""
    return "".join(f"a{c}1{c} {c}'{c}{c}\n" for c in map(chr, range(first, first + count)))
