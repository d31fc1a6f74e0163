# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sampler chains over made-up logits: the candidates that libllama's samplers leave, their order, bits and the choice."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bankml.core.exact.stream import uniform_bits
from bankml.oracle.cases.dry import dry_cases
from bankml.oracle.kind import Tally
from bankml.oracle.options import POSITIVE, Option, Options, declared
from bankml.reference.vocabulary import ReferenceVocab
from bankml.refusal import Refusal

if TYPE_CHECKING:
    from bankml.core.sampling.samplers import Step
    from bankml.core.tokenizer.tokenizer import Tokenizer
    from bankml.reference.build import Reference

Floats = npt.NDArray[np.float32]
Case = dict[str, Any]
"""``shape``, ``n`` and ``seed`` of the logits, ``chain`` of [name, number...], ``draws``, and the ``tokens`` that the chain has
accepted where they are not made up; then ``answer``, one for each draw."""

SHAPES = ("plain", "peaked", "ties", "equal", "holes", "wild", "steps")  # and "fringe", of edges() alone
FRINGE = 3.0
SIZES = (1, 2, 3, 5, 16, 17, 40, 41, 128, 129, 300, 1024, 1025, 1500, 4096)
LARGE = 49152
_TENS = np.array([float(f"1e{exponent}") for exponent in range(-12, 13)], np.float32)


def logits_of(shape: str, n: int, seed: int) -> Floats:
    """Logits that any machine makes the same: only integer steps, literals, divisions by powers of two and roundings."""
    bits = uniform_bits(n, seed)
    low = (bits >> np.uint64(40)).astype(np.float64) / 2**24
    high = (bits & np.uint64(0xFFFFFF)).astype(np.float64) / 2**24
    plain = ((low + high - 1.0) * 16.0).astype(np.float32)
    if shape == "peaked":
        return (plain * np.float32(0.25) + (low > 0.999).astype(np.float32) * np.float32(9)).astype(np.float32)
    if shape == "ties":
        return np.floor(plain).astype(np.float32)
    if shape == "equal":
        return np.full(n, np.float32(0.5))
    if shape == "holes":
        return np.where(low < 0.5, np.float32(-np.inf), plain).astype(np.float32)
    if shape == "wild":
        return (plain * _TENS[12 + (high * 24 - 12).astype(np.int64)]).astype(np.float32)
    if shape == "steps":
        return (np.arange(n, dtype=np.int64)[:: 1 if seed % 2 else -1] // 3).astype(np.float32) / np.float32(8)
    if shape == "fringe":
        # The second half are neighbouring floats around one: a limit that falls among them is seen to its last bit.
        plain[n // 2 :] = np.float32(FRINGE) + np.arange(-(n // 4), n - n // 2 - n // 4).astype(np.float32) * np.float32(2.0**-22)
    return plain


def cases(count: int) -> Iterator[Case]:
    """Cases of all shapes, sizes and chains; a few over a whole vocabulary."""
    for i in range(count):
        roll = [int(word) for word in uniform_bits(24, 7_000_000 + i) >> np.uint64(33)]
        large = i % 40 == 39
        n = LARGE if large else SIZES[roll[0] % len(SIZES)]
        shape = SHAPES[roll[1] % len(SHAPES)]
        if shape == "wild" and i % 3:
            shape = "plain"
        chain = _usual(roll) if i % 2 == 0 else _any(roll, n)
        yield {"shape": shape, "n": n, "seed": i, "chain": chain, "draws": 2 if large else 3}


def edges() -> Iterator[Case]:
    """Cases at the very limits: as many kept as must be, a deviation's last bit, two candidates of half each."""
    for seed in range(40):
        keep, n = 3 * (1 + seed % 5), SIZES[6 + seed % 8]
        limit = float(np.exp(-(keep // 3 - 0.5) / 8))
        ending: list[list[Any]] = [["temperature", 0.8, 0.0, 1.0], ["dist", seed]]
        for least in (keep - 1, keep, keep + 1):
            yield {"shape": "steps", "n": n - n % 3 or 3, "seed": seed, "chain": [["min_p", limit, least], *ending], "draws": 1}
        logits = logits_of("fringe", 4096, seed * 8).astype(np.float64)
        deviations = float((logits.max() - FRINGE) / logits.std())
        chain = [["top_n_sigma", deviations], ["dist", seed]]
        yield {"shape": "fringe", "n": 4096, "seed": seed, "chain": chain, "draws": 1}
        chain = [["xtc", 1.0, (0.5, 0.49999997, 0.50000006)[seed % 3], 0, seed], ["dist", seed]]
        yield {"shape": "equal", "n": 2, "seed": seed, "chain": chain, "draws": 1}


def _usual(roll: list[int]) -> list[list[Any]]:
    """top-k, top-p, min-p, temperature, dist with numbers of all kinds."""
    keep = (0, 0, 1, 3, 50)[roll[2] % 5]
    return [
        ["top_k", (0, 1, 2, 5, 40, 40, 64, 128, 129, 200, 1000)[roll[3] % 11]],
        ["top_p", (0.0, 0.1, 0.5, 0.9, 0.95, 0.95, 0.999, 1.0)[roll[4] % 8], keep],
        ["min_p", (0.0, 0.001, 0.05, 0.05, 0.3, 1.0)[roll[5] % 6], keep],
        ["temperature", (0.0, 0.1, 0.5, 0.8, 1.0, 1.7, 5.0)[roll[6] % 7], 0.0, 1.0],
        ["dist", roll[7]],
    ]


def _any(roll: list[int], n: int) -> list[list[Any]]:
    """Several samplers in any order, then a selection; penalties see tokens first."""
    keep = (0, 0, 1, 3, 20)[roll[2] % 5]
    choices: list[list[Any]] = [
        ["top_k", (1, 5, 40, 128, 129, 500)[roll[3] % 6]],
        ["top_p", (0.1, 0.5, 0.9, 0.99)[roll[4] % 4], keep],
        ["min_p", (0.01, 0.05, 0.5)[roll[5] % 3], keep],
        ["typ_p", (0.1, 0.5, 0.9, 0.99)[roll[6] % 4], keep],
        ["top_n_sigma", (0.5, 1.0, 3.0)[roll[7] % 3]],
        ["xtc", (0.3, 1.0)[roll[8] % 2], (0.05, 0.1, 0.5)[roll[9] % 3], keep, roll[10]],
        ["temperature", 0.9, (0.2, 0.9, 2.0)[roll[11] % 3], (0.5, 1.0, 2.0)[roll[12] % 3]],
        ["temperature", (0.0, 0.7, 1.3)[roll[13] % 3], 0.0, 1.0],
        ["logit_bias", [[roll[14] % n, 2.5], [roll[15] % n, None], [roll[14] % n, -1.0], [n + 3, 4.0]]],
        [
            "penalties",
            n,
            (1, 3, 8, 64)[roll[16] % 4],
            (1.1, 1.3, 0.8)[roll[17] % 3],
            (0.0, 0.5)[roll[18] % 2],
            (0.0, 0.25)[roll[19] % 2],
        ],
    ]
    order = sorted(range(len(choices)), key=lambda k: uniform_bits(len(choices), roll[20])[k])
    chain = [choices[k] for k in order[: 1 + roll[21] % 5]]
    ending = roll[22] % 5
    if ending == 4:
        return [*chain, ["adaptive_p", n, (-1.0, 0.0, 0.3, 0.9, 1.0)[roll[23] % 5], (0.0, 0.5, 0.99)[roll[14] % 3], roll[7]]]
    if ending == 1:
        return [*chain, ["mirostat", 1, n, (1.0, 5.0)[roll[23] % 2], 0.1, roll[7]]]
    if ending == 2:
        return [*chain, ["mirostat", 2, n, (1.0, 5.0)[roll[23] % 2], 0.1, roll[7]]]
    return [*chain, ["dist", roll[7]]]


def accepted_before(case: Case) -> list[int]:
    """Tokens that the chain learns of before its first draw."""
    if "tokens" in case:
        return [int(token) for token in case["tokens"]]
    return [int(word % np.uint64(case["n"])) for word in uniform_bits(12, 9_000_000 + case["seed"])]


def _described(ids: npt.NDArray[Any], logit: Floats, p: Floats | None, selected: int) -> list[Any]:
    """[how many, the selected place, 16 digits of sha256 over ids and logits, and over p where all of it was written]."""
    first = hashlib.sha256(ids.astype("<i4").tobytes() + logit.astype("<f4").tobytes()).hexdigest()[:16]
    second = "" if p is None else hashlib.sha256(p.astype("<f4").tobytes()).hexdigest()[:16]
    return [len(ids), selected, first, second]


class Sampler:
    """Kind ``sampler``; with a model its cases are of DRY over its vocabulary. The option ``count`` is how many cases."""

    name = "sampler"
    checks = "candidates, order, float bits and choices of sampler chains over made-up logits"
    against = "libllama's llama_sampler_* through ctypes"
    small = True
    options: Options = declared(count=Option(POSITIVE, 1200))

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Run every case through libllama."""
        library, count = _Library(reference.library("llama")), options["count"]
        if model is None:
            return {"cases": [{**case, "answer": library.run(case)} for case in (*cases(count), *edges())]}
        with ReferenceVocab(reference, model) as vocab:
            return {"cases": [{**case, "answer": library.run(case, vocab)} for case in dry_cases(vocab, count)]}

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """Run every case through bankml's chain; each draw counts."""
        tally = Tally()
        tokenizer = _tokenizer(model) if any("tokens" in case for case in body["cases"]) else None
        for number, case in enumerate(body["cases"]):
            for draw, (found, recorded) in enumerate(zip(run(case, tokenizer), case["answer"], strict=True)):
                where = f"case {number} draw {draw}: {case['shape']} {case['n']} {case['chain']}"
                tally.count(found == recorded, f"{where}: {found}, recorded {recorded}")
        return tally


def _tokenizer(model: Path | None) -> Tokenizer:
    from bankml.core.gguf.reader import GgufFile
    from bankml.core.tokenizer.tokenizer import Tokenizer

    if model is None:
        raise Refusal("oracle.model", "DRY needs the recorded model's vocabulary", hint="`bankml pull` fetches it")
    with GgufFile.open(model) as gguf:
        return Tokenizer.from_gguf(gguf)


def run(case: Case, tokenizer: Tokenizer | None = None) -> list[list[Any]]:
    """What bankml's chain leaves after each draw of a case."""
    from bankml.core.sampling.chain import Chain

    chain = Chain([_step(tokenizer, *each) for each in case["chain"]], case["n"])
    for token in accepted_before(case):
        chain.accept(token)
    found = []
    for draw in range(case["draws"]):
        c = chain.apply(logits_of(case["shape"], case["n"], case["seed"] * 8 + draw))
        found.append(_described(c.ids[: c.size], c.logit[: c.size], c.p[: c.size], c.selected))
        chain.accept(int(c.ids[c.selected]))
    return found


def _step(tokenizer: Tokenizer | None, name: str, *numbers: Any) -> Step:
    """bankml's sampler of that name."""
    from bankml.core.sampling import samplers
    from bankml.core.sampling.candidates import generator

    if name == "dry":
        from bankml.core.sampling.dry import Breakers, Dry

        assert tokenizer is not None
        multiplier, base, allowed, last_n, breakers = numbers
        return Dry(multiplier, base, allowed, last_n, Breakers(breakers, tokenizer).tails)

    if name == "logit_bias":
        return samplers.LogitBias([(token, -np.inf if bias is None else bias) for token, bias in numbers[0]])
    if name == "dist":
        return samplers.Dist(generator(*numbers))
    if name == "xtc":
        probability, threshold, min_keep, seed = numbers
        return samplers.Xtc(probability, threshold, min_keep, generator(seed))
    if name == "mirostat":
        version, n_vocab, tau, eta, seed = numbers
        return samplers.Mirostat(version, n_vocab, tau, eta, generator(seed))
    if name == "adaptive_p":
        n_vocab, target, decay, seed = numbers
        return samplers.AdaptiveP(n_vocab, target, decay, generator(seed))
    plain: dict[str, Callable[..., Step]] = {
        "top_k": samplers.TopK,
        "top_p": samplers.TopP,
        "min_p": samplers.MinP,
        "typ_p": samplers.Typical,
        "top_n_sigma": samplers.TopNSigma,
        "temperature": samplers.Temperature,
        "penalties": samplers.Penalties,
    }
    return plain[name](*numbers)


class _Data(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int32), ("logit", ctypes.c_float), ("p", ctypes.c_float))


class _Array(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("selected", ctypes.c_int64),
        ("sorted", ctypes.c_bool),
    )


class _Bias(ctypes.Structure):
    _fields_ = (("token", ctypes.c_int32), ("bias", ctypes.c_float))


class _ChainParams(ctypes.Structure):
    _fields_ = (("no_perf", ctypes.c_bool),)


_DATA = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])


_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "top_k": (ctypes.c_int32,),
    "top_p": (ctypes.c_float, ctypes.c_size_t),
    "min_p": (ctypes.c_float, ctypes.c_size_t),
    "typical": (ctypes.c_float, ctypes.c_size_t),
    "top_n_sigma": (ctypes.c_float,),
    "temp_ext": (ctypes.c_float, ctypes.c_float, ctypes.c_float),
    "xtc": (ctypes.c_float, ctypes.c_float, ctypes.c_size_t, ctypes.c_uint32),
    "dist": (ctypes.c_uint32,),
    "penalties": (ctypes.c_int32, ctypes.c_int32, ctypes.c_float, ctypes.c_float, ctypes.c_float),
    "logit_bias": (ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p),
    "adaptive_p": (ctypes.c_float, ctypes.c_float, ctypes.c_uint32),
    "mirostat": (ctypes.c_int32, ctypes.c_uint32, ctypes.c_float, ctypes.c_float, ctypes.c_int32),
    "mirostat_v2": (ctypes.c_uint32, ctypes.c_float, ctypes.c_float),
    "dry": (
        *(ctypes.c_void_p, ctypes.c_float, ctypes.c_float, ctypes.c_int32, ctypes.c_int32),
        *(ctypes.POINTER(ctypes.c_char_p), ctypes.c_size_t),
    ),
}


class _Library:
    """libllama's samplers by the names of the cases. Source: include/llama.h."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        for name, arguments in _SIGNATURES.items():
            maker = getattr(library, f"llama_sampler_init_{name}")
            maker.restype, maker.argtypes = ctypes.c_void_p, arguments
        library.llama_sampler_chain_init.restype = ctypes.c_void_p
        library.llama_sampler_chain_init.argtypes = (_ChainParams,)
        library.llama_sampler_chain_add.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
        library.llama_sampler_apply.argtypes = (ctypes.c_void_p, ctypes.POINTER(_Array))
        library.llama_sampler_accept.argtypes = (ctypes.c_void_p, ctypes.c_int32)
        library.llama_sampler_free.argtypes = (ctypes.c_void_p,)

    def run(self, case: Case, vocab: ReferenceVocab | None = None) -> list[list[Any]]:
        """What libllama's chain leaves after each draw of a case."""
        chain = self._library.llama_sampler_chain_init(_ChainParams(True))
        for name, *numbers in case["chain"]:
            self._library.llama_sampler_chain_add(chain, self._made(name, numbers, case["n"], vocab))
        for token in accepted_before(case):
            self._library.llama_sampler_accept(chain, token)
        found = []
        for draw in range(case["draws"]):
            data = np.zeros(case["n"], _DATA)
            data["id"] = np.arange(case["n"])
            data["logit"] = logits_of(case["shape"], case["n"], case["seed"] * 8 + draw)
            array = _Array(data.ctypes.data, case["n"], -1, False)
            self._library.llama_sampler_apply(chain, ctypes.byref(array))
            left = self._left(data, array)
            found.append(_described(left["id"].copy(), left["logit"].copy(), left["p"].copy(), array.selected))
            self._library.llama_sampler_accept(chain, int(left["id"][array.selected]))
        self._library.llama_sampler_free(chain)
        return found

    @staticmethod
    def _left(data: npt.NDArray[Any], array: _Array) -> npt.NDArray[Any]:
        start = (array.data - data.ctypes.data) // _DATA.itemsize
        return data[start : start + array.size]

    def _made(self, name: str, numbers: list[Any], n: int, vocab: ReferenceVocab | None) -> int:
        if name == "dry":
            assert vocab is not None
            breakers = [each.encode() for each in numbers[4]]
            listed = (ctypes.c_char_p * len(breakers))(*breakers)
            return int(self._library.llama_sampler_init_dry(vocab.pointer, *numbers[:4], listed, len(breakers)))
        if name == "logit_bias":
            pairs = numbers[0]
            biases = (_Bias * len(pairs))(*[_Bias(token, -np.inf if bias is None else bias) for token, bias in pairs])
            return int(self._library.llama_sampler_init_logit_bias(n, len(pairs), ctypes.addressof(biases)))
        if name == "mirostat":
            version, size, tau, eta, seed = numbers
            if version == 1:
                return int(self._library.llama_sampler_init_mirostat(size, seed, tau, eta, 100))
            return int(self._library.llama_sampler_init_mirostat_v2(seed, tau, eta))
        if name == "adaptive_p":
            return int(self._library.llama_sampler_init_adaptive_p(*numbers[1:]))
        named = {"typ_p": "typical", "temperature": "temp_ext"}.get(name, name)
        return int(getattr(self._library, f"llama_sampler_init_{named}")(*numbers))


KIND = Sampler()
