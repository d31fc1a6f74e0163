# SPDX-License-Identifier: MIT OR Apache-2.0
"""The samplers of b11192 that no request uses by default; arguments and float widths as in ``sampling``.

Source: src/llama-sampler.cpp.
"""

from __future__ import annotations

import numpy as np

from bankml.kernels.compiler import types
from bankml.kernels.compiler.native import compiled, entry
from bankml.kernels.compiler.simd import sqrt32
from bankml.kernels.libm.functions import exp, log2f, logf, pow, powf
from bankml.kernels.sampling.samplers import (
    _F,
    _I,
    _INF,
    _INT_END,
    _INT_MIN,
    _MT,
    _ONE,
    _S,
    _ZERO,
    SELECTED,
    SIZE,
    SORTED,
    _take,
    softmax,
    sorted_softmax,
    temperature,
    top_k,
    uniform,
    uniform_float,
)
from bankml.kernels.sampling.sorting import START, sort

_MIROSTAT_TOKENS = 100
_TWO = np.float32(2)
_INVERSE_WIDTH = _ONE / np.float32(0.3)
_PEAK = np.float32(5)
_SHARPNESS = np.float32(10)


@entry(types.void(_I, _F, _S, _I, _F, _I))
def add_bias(ids, logit, state, tokens, biases, sought):
    """Add to the logit of each named token; a token that is not at the place of its id is searched, its first entry counts.

    ``sought`` is room for as many.

    Source: llama_sampler_logit_bias_apply.
    """
    size = state[SIZE]
    n = 0
    for b in range(tokens.shape[0]):
        token = tokens[b]
        if 0 <= token < size and ids[token] == token:
            logit[token] += biases[b]
        else:
            sought[n] = b
            n += 1
    if n == 0:
        return
    for i in range(size):
        for s in range(n):
            if ids[i] == tokens[sought[s]]:
                logit[i] += biases[sought[s]]
                break


@entry(types.void(_I, _F, _S, _I, types.float32, types.float32, types.float32))
def penalties(ids, logit, state, counts, repeat, frequency, presence):
    """Push down tokens of the window: x or / ``repeat`` by sign, then less count x ``frequency`` + ``presence``.

    ``counts`` says per token how often it stands in the window.

    Source: llama_sampler_penalties_apply.
    """
    for i in range(state[SIZE]):
        count = counts[ids[i]]
        if count == 0:
            continue
        if logit[i] <= _ZERO:
            logit[i] *= repeat
        else:
            logit[i] /= repeat
        logit[i] -= np.float32(count) * frequency + presence
    state[SORTED] = 0


@entry(types.void(_F, _S, types.float32))
def top_n_sigma(logit, state, n):
    """Logits below max - n x deviation become -inf. The sums are single; a square is double and added to its sum as such.

    Source: llama_sampler_top_n_sigma_apply.
    """
    size = state[SIZE]
    if n <= _ZERO or size <= 1:
        return
    top = logit[0]
    total = _ZERO
    valid = 0
    for i in range(size):
        if logit[i] != -_INF:
            top = logit[i] if top < logit[i] else top
            total += logit[i]
            valid += 1
    mean = total / np.float32(valid) if valid > 0 else _ZERO
    squares = _ZERO
    for i in range(size):
        if logit[i] != -_INF:
            away = np.float64(np.float32(logit[i] - mean))
            squares = np.float32(np.float64(squares) + away * away)
    deviation = sqrt32(np.float32(squares / np.float32(valid))) if valid > 0 else _ZERO
    floor = top - n * deviation
    for i in range(size):
        if logit[i] < floor:
            logit[i] = -_INF


@entry(types.void(_I, _F, _F, _S, types.float32, types.int64, _F, _I))
def typical(ids, logit, p, state, limit, min_keep, key, index):
    """Keep the candidates whose surprise is nearest to the entropy, up to a total probability above ``limit``.

    They stay in the order of that distance, so the set is unsorted afterwards.

    Source: llama_sampler_typical_apply.
    """
    if limit >= _ONE:
        return
    sorted_softmax(ids, logit, p, state, key, index)
    size = state[SIZE]
    entropy = _ZERO
    for i in range(size):
        entropy += -p[i] * logf(p[i])
    for i in range(size):
        # The smallest distance comes first; libstdc++'s order of a < b is that of -a > -b.
        key[i] = -abs(-logf(p[i]) - entropy)
        index[i] = i
    sort(key, index, START, size)
    total = _ZERO
    last = size
    for i in range(size):
        total += p[index[i]]
        if total > limit and (min_keep == 0 or i >= min_keep - 1):
            last = i + 1
            break
    for i in range(last):
        key[i] = logit[index[i]]
    _take(ids, logit, p, last, key, index)
    state[SIZE], state[SORTED] = last, 0


@entry(types.void(_I, _F, _F, _S, types.float32, types.float32, types.float32, _F, _I))
def dynamic_temperature(ids, logit, p, state, t, delta, exponent, key, index):
    """A temperature in [t - delta, t + delta] by the entropy of the candidates, for delta > 0.

    Source: llama_sampler_temp_ext_apply.
    """
    size = state[SIZE]
    if size <= 1:
        return
    low = t - delta if t - delta > _ZERO else _ZERO
    high = t + delta
    most = -logf(_ONE / np.float32(size))
    sorted_softmax(ids, logit, p, state, key, index)
    entropy = _ZERO
    for i in range(size):
        if p[i] > _ZERO:
            entropy -= p[i] * logf(p[i])
    temperature(logit, state, low + (high - low) * powf(entropy / most, exponent))
    top = np.float64(logit[0])
    total = np.float64(0)
    for i in range(size):
        each = exp(np.float64(logit[i]) - top)
        p[i] = np.float32(each)
        total += each
    for i in range(size):
        p[i] = np.float32(np.float64(p[i]) / total)


@entry(types.void(_I, _F, _F, _S, types.float32, types.float32, types.int64, _MT, _F, _I))
def xtc(ids, logit, p, state, probability, threshold, min_keep, mt, key, index):
    """With ``probability``, drop all candidates of at least ``threshold`` but the least probable of them.

    Source: llama_sample_xtc_apply.
    """
    size = state[SIZE]
    if probability <= _ZERO or threshold > np.float32(0.5) or size < 2:
        return
    if uniform_float(mt) > probability:
        return
    sorted_softmax(ids, logit, p, state, key, index)
    last = 0
    for i in range(size):
        if not p[i] >= threshold:
            break
        last = i
    if size - last >= min_keep and last > 0:
        for i in range(size - last):
            ids[i], logit[i], p[i] = ids[i + last], logit[i + last], p[i + last]
        state[SIZE] = size - last


@compiled
def _discrete(p, size, mt):
    """A place drawn by weight. Source: libstdc++'s discrete_distribution, as llama_sample_dist uses it."""
    if size < 2:
        return 0
    total = np.float64(0)
    for i in range(size):
        total += np.float64(p[i])
    drawn = uniform(mt)
    running = np.float64(0)
    for i in range(size - 1):
        running += np.float64(p[i]) / total
        if not running < drawn:
            return i
    return size - 1


@compiled
def _learn(mu, p, at, tau, eta):
    mu[0] = mu[0] - eta * (-log2f(p[at]) - tau)


@entry(types.int64(_I, _F, _F, _S, types.int64, types.float32, types.float32, _F, _MT, _F, _I))
def mirostat(ids, logit, p, state, n_vocab, tau, eta, mu, mt, key, index):
    """Select with a top-k that steers the surprise towards ``tau``; ``mu`` learns.

    Source: llama_sampler_mirostat_apply.
    """
    sorted_softmax(ids, logit, p, state, key, index)
    products = _ZERO
    squares = _ZERO
    for i in range(min(_MIROSTAT_TOKENS - 1, state[SIZE] - 1)):
        t = logf(np.float32(i + 2) / np.float32(i + 1))
        products += t * logf(p[i] / p[i + 1])
        squares += t * t
    s = products / squares
    epsilon = s - _ONE
    k = powf((epsilon * powf(_TWO, mu[0])) / (_ONE - powf(np.float32(n_vocab), -epsilon)), _ONE / s)
    whole = np.int64(k) if k >= _INT_MIN and k < _INT_END else np.int64(-1)
    top_k(ids, logit, p, state, max(whole, 1), key, index)
    softmax(logit, p, state)
    at = _discrete(p, state[SIZE], mt)
    state[SELECTED] = at
    _learn(mu, p, at, tau, eta)
    return ids[at]


@entry(types.int64(_I, _F, _F, _S, types.float32, types.float32, _F, _MT, _F, _I))
def mirostat_v2(ids, logit, p, state, tau, eta, mu, mt, key, index):
    """Select among the candidates whose surprise is at most ``mu``, which learns towards ``tau``.

    Source: llama_sampler_mirostat_v2_apply.
    """
    sorted_softmax(ids, logit, p, state, key, index)
    kept = 0
    while kept < state[SIZE] and not -log2f(p[kept]) > mu[0]:
        kept += 1
    state[SIZE] = max(kept, 1)
    softmax(logit, p, state)
    at = _discrete(p, state[SIZE], mt)
    state[SELECTED] = at
    _learn(mu, p, at, tau, eta)
    return ids[at]


@entry(types.void(_I, types.int64, types.int64, _I))
def repeat_lengths(recent, n, limit, lengths):
    """How long the end of the window is repeated before each of its places, at most ``limit``.

    ``recent[0]`` is the newest token. ``lengths[j]`` belongs to the j-th oldest token: it is the length of the common run
    that ends there and at the end of the window. A Z-function, read from the end.

    Source: llama_sampler_dry_apply, step 2.
    """
    for i in range(n):
        lengths[i] = 0
    last = n - 1
    left = 0
    right = 0
    for k in range(1, n):
        if k > right:
            m = 0
            while m + k < n and recent[m] == recent[m + k]:
                m += 1
            lengths[last - k] = min(m, limit)
            if m > 0:
                left = k
                right = k + m - 1
        elif lengths[last - (k - left)] < right - k + 1:
            lengths[last - k] = min(lengths[last - (k - left)], limit)
        else:
            i = right + 1
            while i < n and recent[i] == recent[i - k]:
                i += 1
            lengths[last - k] = min(i - k, limit)
            left = k
            right = i - 1


@entry(types.float32(types.float32))
def single_log(x):
    """libm.logf."""
    return logf(x)


@entry(types.float64(types.float64, types.float64))
def double_power(x, y):
    """libm.pow, for x from 1 and y from 0."""
    return pow(x, y)


@entry(types.int64(_I, _F, _F, _S, types.float32, _F, _F, _MT))
def adaptive_p(ids, logit, p, state, target, average, original, mt):
    """Select with a preference for candidates whose probability is near to what brings the running average to ``target``.

    ``average`` holds the weighted sum of what was selected, and the weights; ``original`` takes the probabilities as they were.
    A negative target only selects.

    Source: llama_sampler_adaptive_p_apply.
    """
    size = state[SIZE]
    softmax(logit, p, state)
    if target >= _ZERO:
        wanted = min(target, _ONE)
        if average[1] != _ZERO:
            wanted = _TWO * wanted - average[0] / average[1]
            wanted = min(max(wanted, _ZERO), _ONE)
        for i in range(size):
            original[i] = p[i]
            if logit[i] != -_INF:
                away = abs((p[i] - wanted) * _INVERSE_WIDTH)
                logit[i] = _PEAK - _SHARPNESS * away * away / (_ONE + away)
        softmax(logit, p, state)
    at = _discrete(p, size, mt)
    state[SELECTED] = at
    return ids[at]
