# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the record of keys says of the table of keys: every row is asked, and is what the table calls it."""

from collections import defaultdict
from pathlib import Path

import pytest

from bankml.core.gguf.keys import ARCHITECTURES, BY_NAME, KEYS, Here
from bankml.oracle.record import read_record

BODY = read_record(Path(__file__).resolve().parent.parent / "records" / "keys.json.gz").body
ALIGNMENT = "general.alignment"
"""It moves tensors: the files that have one are in the guard's record."""
CASES = defaultdict(list)
for case in BODY["cases"]:
    for name in case["changes"]:
        CASES[case["arch"], name].append(case)


BASES = {(case["arch"], bool(case.get("serve"))): case for case in BODY["cases"] if not case["changes"] and "extra" not in case}


def base(case):
    """The answer of the unchanged file that the case is a change of."""
    return BASES[case["arch"], bool(case.get("serve"))]


def answer(case):
    return [case["verdict"], case.get("logits"), case.get("text"), case.get("answers")]


def alone(case):
    return len(case["changes"]) == 1 and not {"rows", "layers", "extra"} & set(case)


def without(case, name):
    """The answer of the same file without the key, or None where it was not asked."""
    others = {key: value for key, value in case["changes"].items() if key != name}
    shape = [case.get(part) for part in ("arch", "rows", "layers", "extra", "serve")]
    for other in BODY["cases"]:
        if other["changes"] == others and [other.get(part) for part in ("arch", "rows", "layers", "extra", "serve")] == shape:
            return answer(other)
    return None


def asked(arch, name):
    """The cases of a key; the vocabulary and what the server reads are the same for all architectures, and asked of one."""
    return [*CASES[arch, name], *([] if name.startswith(arch) else CASES["llama", name])]


ROWS = [(key, arch) for key in KEYS for arch in key.archs or ARCHITECTURES if key.name != ALIGNMENT]
PASSED = [(key, arch) for key, arch in ROWS if key.use(arch) is Here.PASSED]
DECIDING = [(key, arch) for key, arch in ROWS if key.use(arch) is not Here.PASSED]


def named(value):
    return value if isinstance(value, str) else value.name


def test_the_unchanged_files_answer():
    assert {(case["arch"], base(case)["verdict"]) for case in BODY["cases"]} == {(arch, "answers") for arch in ARCHITECTURES}


def test_every_name_of_the_library_is_asked_and_every_row_is_among_them():
    assert len(BODY["names"]) > 240
    assert set(BY_NAME) - {ALIGNMENT} <= set(BODY["names"])
    for arch in ARCHITECTURES:
        for name in BODY["names"]:
            assert len(CASES[arch, name.replace("{arch}", arch)]) >= 3, (arch, name)


def test_a_key_that_is_not_in_the_table_changes_nothing():
    for arch in ARCHITECTURES:
        table = {key.for_arch(arch) for key in KEYS if not key.archs or arch in key.archs}
        for (of, name), cases in CASES.items():
            if of == arch and name not in table:
                for case in filter(alone, cases):
                    assert answer(case) == answer(base(case)), case


@pytest.mark.parametrize(("key", "arch"), ROWS, ids=named)
def test_a_value_of_another_type_stops_the_reference_and_one_of_the_right_type_does_not(key, arch):
    for case in filter(alone, CASES[arch, key.for_arch(arch)]):
        given = case["changes"][key.for_arch(arch)]
        if given is None or key.when or case.get("serve"):
            continue
        taken = given[0][1] in key.elements if isinstance(given[0], list) else given[0] in key.types
        if not taken:
            assert case["verdict"] == "refuses", case
            assert case["says"]


@pytest.mark.parametrize(("key", "arch"), PASSED, ids=named)
def test_what_is_passed_over_changes_no_answer(key, arch):
    answered = [case for case in filter(alone, asked(arch, key.for_arch(arch))) if case["verdict"] == "answers"]
    assert all(answer(case) == answer(base(case)) for case in answered)
    assert answered or "expert" in key.name


@pytest.mark.parametrize(("key", "arch"), DECIDING, ids=named)
def test_what_is_read_or_refused_decides_something(key, arch):
    """A value of the right type, whose answer is another than that of the file without it, or that is no answer."""
    name = key.for_arch(arch)
    for case in asked(arch, name):
        kind = (case["changes"][name] or [None])[0]
        right = kind is None or (kind[1] in key.elements if isinstance(kind, list) else kind in key.types)
        if right and (key.when or without(case, name) not in (None, answer(case))):
            return
    pytest.fail(f"no case shows that {name} decides anything")


def test_what_bankml_refuses_on_purpose_is_documented():
    page = (Path(__file__).resolve().parents[2] / "docs" / "oracles" / "keys.md").read_text(encoding="utf-8")
    codes = {case["refuses"] for case in BODY["cases"] if "refuses" in case}
    assert codes
    assert all(f"| `{code}` |" in page for code in codes)


def test_the_record_sees_a_file_that_is_answered_otherwise():
    from bankml.oracle.kinds.keys import KIND

    known = next(case for case in BODY["cases"] if case["verdict"] == "answers" and case["changes"] and not case.get("serve"))
    wrong = [
        {**known, "logits": "0" * 64},
        {**known, "text": "0" * 64},
        {**known, "verdict": "aborts"},
        {**known, "refuses": "model.not-built"},
    ]
    assert KIND.compare({"cases": [known]}, None).passed
    assert [KIND.compare({"cases": [case]}, None).identical for case in wrong] == [0] * len(wrong)
