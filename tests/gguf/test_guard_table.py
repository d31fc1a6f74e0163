# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every file of the table gets its verdict, its code and its offset, at once."""

import re
import time

import pytest

from bankml.core.gguf.guard import judge, judge_bytes
from bankml.oracle.kinds.guard import all_cases

CASES = all_cases()


def best_of_three(data):
    spent = []
    for _ in range(3):
        started = time.process_time()
        verdict = judge_bytes(data, size=len(data))
        spent.append(time.process_time() - started)
    return min(spent), verdict


def test_names_are_one_each():
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_verdict(case):
    spent, verdict = best_of_three(case.data)
    assert [reason.code for reason in verdict.reasons][:1] == ([case.code] if case.code else [])
    assert verdict.verdict == ("play" if not case.code else "need_more" if case.code == "gguf.truncated" else "refuse")
    assert verdict.exit_code == {"play": 0, "refuse": 2, "need_more": 3}[verdict.verdict]
    assert spent < 0.05
    for reason in verdict.reasons:
        assert reason.found
        assert reason.allowed
        assert re.match(r"offset \d+", reason.where)
    if case.offset is not None:
        assert int(re.match(r"offset (\d+)", verdict.reasons[0].where)[1]) == case.offset


@pytest.mark.parametrize("case", CASES[::7], ids=lambda case: case.name)
def test_a_file_on_disk_gets_the_same_verdict(case, tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(case.data)
    assert judge(path).as_dict() == judge_bytes(case.data, size=len(case.data)).as_dict()


def test_every_cut_of_a_file_has_a_verdict():
    """A header that is cut wants more, and says no more than there is; cut data are refused."""
    whole = next(case.data for case in CASES if case.name == "two tensors")
    full = judge_bytes(whole, size=len(whole))
    for size in range(1, len(whole)):
        verdict = judge_bytes(whole[:size], size=size)
        if size < full.header.header_end:
            assert verdict.verdict == "need_more"
            assert size < verdict.need_bytes <= full.header.header_end
        else:
            assert verdict.reasons[0].code in ("gguf.data-short", "gguf.tensor-outside")


def test_a_growing_prefix_ends_in_the_verdict():
    whole = next(case.data for case in CASES if case.name == "tiny model")
    need, steps = 1, 0
    while (verdict := judge_bytes(whole[:need])).verdict == "need_more":
        assert verdict.need_bytes > need
        need = verdict.need_bytes
        steps += 1
    assert verdict.verdict == "play"
    assert need == verdict.header.header_end
    assert steps < 500
