# SPDX-License-Identifier: MIT OR Apache-2.0
"""Random and mutated bytes: never an exception, never a hang, never a span outside the file."""

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from testing.fuzz_guard import corpus, hold, mutate

FILES = corpus()


def test_a_few_thousand_mutations():
    rng = random.Random(11192)
    seen = set()
    for _ in range(6000):
        seen.add(hold(mutate(rng, rng.choice(FILES), rng.choice(FILES)), rng.choice(("mainline", "prism"))))
    assert len(seen) > 35


@given(st.binary(max_size=400))
@example(b"")
@example(b"G")
@example(b"GGUF")
def test_any_bytes(data):
    hold(data)


@given(st.binary(max_size=400), st.integers(0, 5), st.integers(0, 5))
def test_any_bytes_behind_a_good_preamble(data, tensors, keys):
    hold(b"GGUF\3\0\0\0" + tensors.to_bytes(8, "little") + keys.to_bytes(8, "little") + data)


@settings(max_examples=200)
@given(st.sampled_from(FILES), st.data())
def test_any_byte_changed(file, data):
    place = data.draw(st.integers(0, max(0, len(file) - 1)))
    hold(file[:place] + bytes([data.draw(st.integers(0, 255))]) + file[place + 1 :])


@given(st.sampled_from(FILES), st.data())
def test_any_cut(file, data):
    hold(file[: data.draw(st.integers(0, len(file)))])
