# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whatever is written as JSON is JSON. That the reference writes null there too is in the record ``completion.json.gz``."""

import json

import pytest

from bankml.core.http import sse
from bankml.core.json.writer import dump, dumps
from bankml.core.sampling import SamplingParams, resolve_params
from bankml.core.serve.llama.verbose import settings, short_settings


def strict(text):
    def refuse(constant):
        raise ValueError(constant)

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
def test_numbers_that_json_lacks_are_null(number):
    value = {"a": [number, {"b": number}, (1.5, number)], "c": "NaN", "d": 1e308}
    nulls = {"a": [None, {"b": None}, [1.5, None]], "c": "NaN", "d": 1e308}
    assert strict(dump(value)) == nulls
    assert strict(dumps(value, indent=2)) == nulls
    assert strict(sse.event(value).removeprefix(b"data: ")) == nulls


def test_every_float_of_the_settings_may_be_infinite():
    names = {name for name, value in vars(SamplingParams()).items() if isinstance(value, float)}
    params = SamplingParams(**dict.fromkeys(names, float("inf")), logit_bias=((5, float("-inf")),))
    for shown in (settings(params), short_settings(params)):
        read = strict(dump(shown))
        assert {name for name, value in read.items() if value is None} == names
    assert read["top_k"] == 40


def test_a_number_past_single_precision_reads_and_writes_as_null():
    shown = settings(resolve_params({"temperature": 1e39, "dry_base": 1e39}, {}))
    assert strict(dump(shown)) | {"temperature": None, "dry_base": None} == strict(dump(shown))
