# SPDX-License-Identifier: MIT OR Apache-2.0
"""Grammars with texts that they take, leave or break off, and grammars that the parser refuses."""

from __future__ import annotations

from typing import Final

GRAMMARS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "object": (
        'root ::= ws thing ws\nthing ::= map | list | text | number | "true" | "false" | "null"\n'
        'map ::= "{" ws (pair (ws "," ws pair)*)? ws "}"\npair ::= text ws ":" ws thing\n'
        'list ::= "[" ws (thing (ws "," ws thing)*)? ws "]"\n'
        'text ::= "\\"" ([^"\\\\\\x00-\\x1F] | "\\\\" (["\\\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\\""\n'
        'number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?\nws ::= [ \\t\\n]{0,8}\n',
        (
            '{"city": "Zürich", "at": [47.37, -8.5e0], "open": true}',
            '[{"a": {"b": {"c": []}}}, "日本語 \\u00e9", null]',
            '{"bad": 01}',
            '"ünfinished',
        ),
    ),
    "polite": (
        'root ::= ("Dear " | "Hello ") name (", " name)* "."\nname ::= [A-Z] [a-z]+\n',
        ("Dear Ada, Grace.", "Hello Bob,Carl."),
    ),
    "crlf": (
        '# a greeting\r\nroot ::= "yes" # agreed\r\n  \r\n# more\r\nnever ::= (\r\n  "no" # not here\r\n  | root\r\n)\r\n',
        ("yes", "no"),
    ),
    "dot": ("root ::= . . .* [!?]\n", ("ab!", "日本?", "x")),
    "points": (
        'root ::= ([à-ÿ] | [\\u3040-\\u30FF] | [\\U0001F300-\\U0001F6FF])+ "\\x2E"\n',
        ("éèà.", "ひらカナ.", "🌍🚀é.", "漢."),
    ),
    "not": ("root ::= [^a-zé🌍]{2,4} [^ -~]*\n", ("ABC日本", "A1é", "🚀🌍")),
    "times": (
        'root ::= "a"{3} "b"{2,} "c"{0,2} ("d" "e"?){1,3} "f"{,2}\n'.replace("{,2}", "{0,2}"),
        ("aaabbcdedeff", "aaabcd", "aabb"),
    ),
    "counted": (
        'root ::= "<" [^>]{5,60} ">" [0-9]{1,16}\n',
        ("<a longer text of some words here>42", "<abc>", "<ünïcödé wörds>7"),
    ),
    "groups": ('root ::= (("x" | "yy") ("-" | )){2} (((("z"))))? "\\n"\n', ("x-yy-z\n", "yyx\n", "xx\nz")),
    "brackets": (
        'root ::= s\ns ::= "(" s ")" s | "[" s "]" s | "" \n',
        ("([()]())[[]]", "((((((((([[[[[", "([)]"),
    ),
    "many": (
        "root ::= w (" + '" " w){0,30}\nw ::= "the" | "then" | "they" | "there" | "them" | [a-z]{1,12} | [A-Z][a-z]*\n',
        ("the then there London they xyz", "The  cat"),
    ),
    "sums": (
        'root ::= term (op term)*\nop ::= " "? [-+*/] " "?\nterm ::= [0-9]+ | "(" root ")" | name\nname ::= [a-z_] [a-z0-9_]*\n',
        ("12 + (a_1 * 3)-7", "((((1))))", "1 +* 2"),
    ),
    "escapes": (
        'root ::= "\\t\\r\\n\\\\\\"\\[\\]\\-" [\\[\\]\\-\\\\"]+ [-a] [a-] [\\x41-\\x43]\n',
        ('\t\r\n\\"[]-[]-\\"-aB', "\t\r"),
    ),
    "may-end": ('root ::= "" | "a" root | [b-c]*\n', ("aab", "", "cccd")),
    "control": (
        'root ::= "a" <|im_end|> "b" | "c" !<|im_end|> "d" | <[5]>* "e"\n',
        ("a<|im_end|>b", "a<|im_start|>", "cxd", "e"),
    ),
    "token-inside": ("root ::= [a-z] <[2]> | [A-Z] !<[300]>* [0-9]\n", ("a<|im_end|>", "A")),
    "thought": ('root ::= (!<[2]>)* <[2]> "\\n" [a-z]+\n', ("some words<|im_end|>\nhello", "never")),
    "unbounded": ('root ::= "a"{1,2001} "b"\n', ("aaab", "b")),
    "empty-classes": ('root ::= "" [] "a" ("" | []) "b"{0} "c"{0,0} [d]\n', ("ad", "abd")),
    "rare": ('root ::= "\\U0010FFFF" | [\\x00-\\x08] | "\\u00a0"+ | "߿ࠀ￿𐀀"\n', ("߿ࠀ￿𐀀", "\u00a0\u00a0", "\U0010ffff")),
}

NAMES_TOKENS: Final = frozenset({"control", "token-inside", "thought"})
"""Grammars with token terminals: after some tokens that their masks pass the library ends the process."""

REFUSED: Final = (
    "# nothing\n",
    "root\n",
    'root ::= "a',
    "root ::= [a",
    "root ::= [a-",
    'root := "a"',
    # A reason quotes the rest of the grammar; bankml's the first 80 bytes of it.
    *(f'root := "{"x" * length}"' for length in (73, 74, 75, 200)),
    *(f"root ::= [a-z] {'é' * length} at {'é' * 50}" for length in (39, 40, 41)),
    '::= "a"',
    'root ::= "a" ::= "b"',
    'root ::= ( "a" \n | "b" ',
    'root ::= "a" )',
    'root ::= "a" | \n | b "\n',
    'root ::= a b\na ::= "x"',
    'root ::= a\nb ::= "x" zz\na ::= "y"',
    'main ::= "a"',
    "root ::= *",
    'root ::= + "a"',
    'root ::= "a" | ? ',
    'root ::= ""{3}',
    'root ::= "a"{}',
    'root ::= "a"{x}',
    'root ::= "a"{,3}',
    'root ::= "a"{1;2}',
    'root ::= "a"{1,2',
    'root ::= "a"{1 2}',
    'root ::= "a"{2001}',
    'root ::= "a"{99999999999999999999}',
    'root ::= "a"{1,99999999999999999999}',
    'root ::= ("a"{100}){30}{2}',
    'root ::= ("a"? "b"?){800}',
    'root ::= "a"{50}{50}',
    'root ::= "a"{0,1000}{3}',
    'root ::= "\\q"',
    'root ::= "\\x4"',
    'root ::= "\\u12G4"',
    "root ::= [\\U0010FFF]",
    "root ::= [a\\]",
    'root ::= "\\',
    'root ::= root "a" | "b"',
    'root ::= a\na ::= b | "x"\nb ::= "" a "y"',
    'root ::= opt root\nopt ::= "z" | \n',
    'root ::= "q" x\nx ::= ("a"? x)?',
    "root ::= <[12]",
    "root ::= <[x]>",
    "root ::= <[4294967296]>",
    "root ::= <[99999999999999999999999]>",
    "root ::= <[7}>",
    "root ::= <never",
    "root ::= <two words>",
    "root ::= !x",
    'root ::= "a" & "b"',
    "root ::= é",
    'root ::= "a"\n  | "b"\n',
    'root ::= "a" // comment',
    'root_x ::= "a"',
    "root ::= $",
)
