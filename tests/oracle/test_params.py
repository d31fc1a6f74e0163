# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the oracle ``params`` notices: any part of a setting or of a refusal that is not the recorded one, or is missing."""

import copy
from pathlib import Path

import pytest

from bankml.oracle.kinds.params import KIND
from bankml.oracle.record import read_record

RECORD = Path(__file__).parent.parent / "records" / "params.json.gz"


@pytest.fixture(scope="module")
def body():
    """A few answers, a few refusals and one file of the committed record."""
    whole = read_record(RECORD).body
    answered = [each for each in whole["requests"] if each["status"] == 200][::60]
    refused = [each for each in whole["requests"] if each["status"] != 200][::30]
    return {"requests": answered + refused, "files": whole["files"][:1]}


def _short_of_identical(body, smollm2):
    tally = KIND.compare(body, smollm2)
    return tally.total - tally.identical


def test_the_record_has_answers_and_refusals(body, smollm2):
    assert {each["status"] for each in body["requests"]} == {200, 400}
    assert _short_of_identical(body, smollm2) == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda request: request.update(status=500),
        lambda request: request["answer"].pop(next(iter(request["answer"]))),
        lambda request: request["answer"].update(another=1),
        lambda request: request.update(answer=dict(reversed(request["answer"].items()))),
        lambda request: request.update(answer={}),
    ],
    ids=["status", "name missing here", "name missing there", "order", "nothing"],
)
def test_every_change_of_an_answer_or_a_refusal_is_a_difference(body, smollm2, change):
    changed = copy.deepcopy(body)
    for request in changed["requests"]:
        change(request)
    assert _short_of_identical(changed, smollm2) == len(changed["requests"])


def test_a_refusal_in_other_words_or_an_answer_instead_is_a_difference(body, smollm2):
    changed = copy.deepcopy(body)
    refused = [request for request in changed["requests"] if request["status"] != 200]
    for request in refused:
        request["answer"]["message"] += "."
    assert _short_of_identical(changed, smollm2) == len(refused)
    for request in refused:
        request.update(status=200, answer=changed["requests"][0]["answer"])
    assert _short_of_identical(changed, smollm2) == len(refused)


def test_a_default_of_a_file_that_differs_is_a_difference(body, smollm2):
    changed = copy.deepcopy(body)
    del changed["files"][0]["answer"]["top_k"]
    assert _short_of_identical(changed, smollm2) == 1
