# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fields of a request. The values and refusals themselves are held to llama-server by the record ``params.json.gz``."""

import pytest

from bankml.core.sampling import SamplingParams, gguf_defaults, resolve_params
from bankml.core.sampling.request import MAX_BREAKERS
from bankml.core.serve.llama.fields import SAMPLING
from bankml.core.serve.llama.verbose import settings
from bankml.refusal import Refusal


def test_request_over_file_over_defaults():
    params = resolve_params({"top_k": 7, "top_p": None}, {"top_k": 20, "top_p": 0.5})
    assert (params.top_k, params.top_p, params.min_p) == (7, 0.5, SamplingParams().min_p)


def test_other_fields_are_left_alone():
    assert resolve_params({"messages": 5, "stream": "x"}, {}) == SamplingParams()


def test_what_is_not_reproduced_is_refused_by_name():
    with pytest.raises(Refusal) as caught:
        resolve_params({"samplers": ["top_k", "infill"]}, {})
    assert caught.value.status == 501
    assert "infill" in caught.value.message
    assert caught.value.http_body()["error"]["type"] == "not_supported_error"


def test_file_that_asks_for_what_is_not_reproduced():
    with pytest.raises(Refusal, match="infill"):
        resolve_params({}, gguf_defaults({"general.sampling.sequence": "infill"}))


def test_biases_need_a_vocabulary():
    with pytest.raises(Refusal) as caught:
        resolve_params({"logit_bias": {"1": 2}}, {})
    assert caught.value.status == 501


def test_settings_name_what_the_request_may_name():
    shown = settings(SamplingParams())
    assert resolve_params({name: shown[name] for name in SAMPLING - {"logit_bias"}}, {}) == SamplingParams()


def test_too_many_breakers():
    asked = [f"breaker {number}" for number in range(MAX_BREAKERS)]
    assert resolve_params({"dry_sequence_breakers": asked}, {}).dry_sequence_breakers == tuple(asked)
    with pytest.raises(Refusal, match=f"{MAX_BREAKERS + 1} breakers"):
        resolve_params({"dry_sequence_breakers": [*asked, "a"]}, {})
