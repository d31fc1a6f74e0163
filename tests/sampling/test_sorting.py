# SPDX-License-Identifier: MIT OR Apache-2.0
"""The orders of libstdc++: sorted in any case, and against a compiled libstdc++ where g++ is at hand."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bankml.core.sampling.candidates  # noqa: F401 - fixes the place of compiled code
from bankml.kernels.sampling import sorting

PROGRAM = """
#include <algorithm>
#include <cstdint>
struct item { float key; int32_t index; };
static bool more(const item & a, const item & b) { return a.key > b.key; }
extern "C" void sort_all(item * a, long n) { std::sort(a, a + n, more); }
extern "C" void sort_part(item * a, long k, long n) { std::partial_sort(a, a + k, a + n, more); }
"""
ITEM = np.dtype([("key", "<f4"), ("index", "<i4")])


def arrays(keys):
    return np.array(keys, np.float32), np.arange(len(keys), dtype=np.int32)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False), max_size=200))
def test_sort_orders_and_keeps_all(keys):
    key, index = arrays(keys)
    sorting.sort(key, index, 0, len(key))
    assert key.tolist() == sorted(np.array(keys, np.float32).tolist(), reverse=True)
    assert sorted(index.tolist()) == list(range(len(keys)))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=1, max_size=100), st.data())
def test_partial_sort_takes_the_largest(keys, data):
    k = data.draw(st.integers(0, len(keys)))
    key, index = arrays(keys)
    sorting.partial_sort(key, index, 0, k, len(key))
    assert key[:k].tolist() == sorted(keys, reverse=True)[:k]
    assert sorted(index.tolist()) == list(range(len(keys)))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from([float("nan"), 1.0, 2.0, 3.0, float("inf")]), max_size=150))
def test_nan_loses_nothing(keys):
    key, index = arrays(keys)
    sorting.sort(key, index, 0, len(key))
    assert sorted(index.tolist()) == list(range(len(keys)))


@pytest.fixture(scope="module")
def libstdcxx(tmp_path_factory):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ here")
    folder = tmp_path_factory.mktemp("libstdcxx")
    (folder / "orders.cpp").write_text(PROGRAM)
    library = folder / "orders.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, folder / "orders.cpp"], check=True)
    return ctypes.CDLL(str(library))


def inputs():
    rng = np.random.default_rng(5)
    for n in (1, 2, 15, 16, 17, 33, 100, 1000, 20000):
        yield rng.standard_normal(n).astype(np.float32)
        yield rng.integers(0, max(2, n // 20), n).astype(np.float32)
        yield np.full(n, np.float32(1.5))
        yield np.arange(n, dtype=np.float32) // 3
        yield -np.arange(n, dtype=np.float32)
        # An order that drives the median of three to its depth limit, so that the heap sort is reached.
        yield np.concatenate([np.arange(n // 2), np.arange(n - n // 2)]).astype(np.float32)
        yield np.array([(i if i % 2 else n - i) for i in range(n)], np.float32)
        yield np.array(killer(n), np.float32)


def killer(n):
    """McIlroy's antiqsort for the median of three: quadratic without a depth limit."""
    n -= n % 2
    k = n // 2
    out = [0.0] * n
    for i in range(1, k + 1):
        if i % 2:
            out[i - 1] = i
            if i < n:
                out[i] = k + i
        out[k + i - 1] = 2 * i
    return [-each for each in out]


def test_sort_is_libstdcxx(libstdcxx):
    for keys in inputs():
        key, index = keys.copy(), np.arange(len(keys), dtype=np.int32)
        items = np.zeros(len(keys), ITEM)
        items["key"], items["index"] = key, index
        libstdcxx.sort_all(ctypes.c_void_p(items.ctypes.data), ctypes.c_long(len(keys)))
        sorting.sort(key, index, 0, len(key))
        assert (items["index"] == index).all()


def test_partial_sort_is_libstdcxx(libstdcxx):
    for keys in inputs():
        for k in {1, 2, 5, 40, 41, len(keys) // 2, len(keys)}:
            if not 1 <= k <= len(keys):
                continue
            key, index = keys.copy(), np.arange(len(keys), dtype=np.int32)
            items = np.zeros(len(keys), ITEM)
            items["key"], items["index"] = key, index
            libstdcxx.sort_part(ctypes.c_void_p(items.ctypes.data), ctypes.c_long(k), ctypes.c_long(len(keys)))
            sorting.partial_sort(key, index, 0, k, len(key))
            # The tail too: token probabilities are summed in that order.
            assert (items["index"] == index).all()
