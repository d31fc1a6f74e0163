# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes a small model with weights from a fixed stream: any shape of the architectures that bankml plays.

The tokenizer's keys come from a given GGUF file. The same arguments give the same bytes on every machine. Rows of 256 and
multiples of it let ``llama-quantize`` make every type of it, for example::

    python testing/make_model.py small.gguf --tokenizer SmolLM2-135M-Instruct.Q4_1.gguf --arch qwen3
    llama-quantize small.gguf small-Q4_K_M.gguf Q4_K_M
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bankml.core.gguf import types
from bankml.core.gguf.header import Array
from bankml.core.gguf.reader import GgufFile
from bankml.core.gguf.writer import Pair, Tensor, write_gguf
from bankml.core.model.architectures import ARCHITECTURES

TYPE_IDS = {"F32": 0, "F16": 1, "Q1_0": 41, "Q2_0": 42}
_NAME_PREFIX = "tokenizer."


def words(seed: int, name: str, count: int) -> npt.NDArray[np.uint64]:
    """`count` words of SplitMix64 that depend on the seed and the tensor's name alone."""
    step = np.uint64(0x9E3779B97F4A7C15)
    start = np.uint64((seed << 32 | zlib.crc32(name.encode())) & (1 << 64) - 1)
    with np.errstate(over="ignore"):
        z = start + np.arange(1, count + 1, dtype=np.uint64) * step
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return z


def stream(seed: int, name: str, count: int) -> npt.NDArray[np.float64]:
    """`count` numbers of mean 0 and variance 1, bell-shaped: each the sum of four 16-bit uniforms from one word, scaled."""
    total = words(seed, name, count).view(np.uint16).reshape(count, 4).astype(np.float64).sum(axis=1)
    variance = 4 * ((1 << 32) - 1) / 12
    values: npt.NDArray[np.float64] = (total - 2 * 65535) / np.sqrt(variance)
    return values


def shapes(arguments: argparse.Namespace, vocab: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and dimensions, row length first."""
    a, e, ff = ARCHITECTURES[arguments.arch], arguments.embd, arguments.ff
    q, kv = arguments.heads * arguments.head_dim, arguments.kv_heads * arguments.head_dim
    yield "token_embd.weight", (e, vocab)
    yield "output_norm.weight", (e,)
    if arguments.untied:
        yield "output.weight", (e, vocab)
        if arguments.biases and a.output_bias:
            yield "output.bias", (vocab,)
    if arguments.rope_factors:
        yield "rope_freqs.weight", (arguments.head_dim // 2,)
    for i in range(arguments.layers):
        p = f"blk.{i}."
        yield p + "attn_norm.weight", (e,)
        for part, rows in (("q", q), ("k", kv), ("v", kv)):
            yield f"{p}attn_{part}.weight", (e, rows)
            if arguments.arch == "qwen2" or arguments.biases:
                yield f"{p}attn_{part}.bias", (rows,)
            if a.qk_norm and part != "v":
                yield f"{p}attn_{part}_norm.weight", (arguments.head_dim,)
        yield p + "attn_output.weight", (q, e)
        if arguments.biases and a.output_projection_bias:
            yield p + "attn_output.bias", (e,)
        if arguments.biases and a.feed_forward_bias:
            yield p + "ffn_gate.bias", (ff,)
            yield p + "ffn_up.bias", (ff,)
            yield p + "ffn_down.bias", (e,)
        yield p + "ffn_norm.weight", (e,)
        yield p + "ffn_gate.weight", (e, ff)
        yield p + "ffn_up.weight", (e, ff)
        yield p + "ffn_down.weight", (ff, e)


def tensor(name: str, dims: tuple[int, ...], type_id: int, seed: int) -> Tensor:
    """A tensor of the stream: matrices of variance about 1/k, norms about 1, biases about 0."""
    if len(dims) == 2 and type_id in (TYPE_IDS["Q1_0"], TYPE_IDS["Q2_0"]):
        return Tensor(name, dims, type_id, blocks(name, dims, types.TYPES[type_id], seed))
    values = stream(seed, name, int(np.prod(dims)))
    if len(dims) == 2:
        element = np.float32 if type_id == TYPE_IDS["F32"] else np.float16
        return Tensor(name, dims, type_id, (values / np.sqrt(dims[0])).astype(element))
    if name == "rope_freqs.weight":
        return Tensor(name, dims, TYPE_IDS["F32"], (1 + np.abs(values)).astype(np.float32))
    return Tensor(name, dims, TYPE_IDS["F32"], (0.1 * values + name.endswith("norm.weight")).astype(np.float32))


def blocks(name: str, dims: tuple[int, ...], kind: types.GgmlType, seed: int) -> npt.NDArray[np.uint8]:
    """Rows of Q1_0 or Q2_0: any codes, under scales from a half to one and a half times 1/sqrt(k)."""
    count = int(np.prod(dims)) // kind.block
    drawn = words(seed, name, 3 * count).view(np.uint8).reshape(count, 24)
    spread = drawn[:, 16:18].copy().view("<u2").reshape(count) / 65536
    scales = ((0.5 + spread) / np.sqrt(dims[0])).astype("<f2").view(np.uint8).reshape(count, 2)
    return np.concatenate([scales, drawn[:, :16]], axis=1).reshape(-1)


def tokenizer_keys(gguf: GgufFile) -> list[Pair]:
    """The tokenizer's keys as they are in the file."""
    pairs: list[Pair] = []
    for key, entry in gguf.header.entries.items():
        if not key.startswith(_NAME_PREFIX):
            continue
        if isinstance(entry.value, Array):
            element = entry.value.type
            value = gguf.raw_strings(key) if element == types.STRING else gguf.kv[key]
            pairs.append((key, (types.ARRAY, element), value))
        else:
            pairs.append((key, entry.type, gguf.kv[key]))
    return pairs


def model_keys(arguments: argparse.Namespace) -> list[Pair]:
    """The architecture's keys."""
    arch = arguments.arch
    integers = {
        "block_count": arguments.layers,
        "context_length": arguments.ctx,
        "embedding_length": arguments.embd,
        "feed_forward_length": arguments.ff,
        "attention.head_count": arguments.heads,
        "attention.head_count_kv": arguments.kv_heads,
        "attention.key_length": arguments.head_dim,
        "attention.value_length": arguments.head_dim,
        "rope.dimension_count": arguments.head_dim,
    }
    reals = {"attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": arguments.freq_base}
    return [
        ("general.architecture", types.STRING, arch),
        ("general.name", types.STRING, f"stream {arguments.seed} {arch} {arguments.layers}x{arguments.embd}"),
        ("general.file_type", types.U32, TYPE_IDS[arguments.type]),
        *((f"{arch}.{key}", types.U32, value) for key, value in integers.items()),
        *((f"{arch}.{key}", types.F32, value) for key, value in reals.items()),
        *(_setting(arch, text) for text in arguments.set),
    ]


def _setting(arch: str, text: str) -> Pair:
    """`key=value` under the architecture's name: an integer, a number or a string by its look."""
    key, _, value = text.partition("=")
    if value.isdigit():
        return f"{arch}.{key}", types.U32, int(value)
    try:
        return f"{arch}.{key}", types.F32, float(value)
    except ValueError:
        return f"{arch}.{key}", types.STRING, value


def argument_parser() -> argparse.ArgumentParser:
    """What a model is described by."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True, help="GGUF file whose tokenizer the model gets")
    parser.add_argument("--arch", choices=sorted(ARCHITECTURES), default="llama")
    parser.add_argument("--type", choices=sorted(TYPE_IDS), default="F16", help="type of the matrices")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--embd", type=int, default=512)
    parser.add_argument("--ff", type=int, default=768)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--ctx", type=int, default=4096)
    parser.add_argument("--freq-base", type=float, default=10000.0)
    parser.add_argument("--untied", action="store_true", help="an output matrix of its own")
    parser.add_argument("--biases", action="store_true", help="every bias that b11192 looks for")
    parser.add_argument("--rope-factors", action="store_true", help="Llama-3's frequency factors")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key under the architecture's name")
    parser.add_argument("--gain", type=float, default=1.0, help="factor of the last norm, and so of the logits")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def write_model(arguments: argparse.Namespace) -> None:
    """Write one model."""
    with GgufFile.open(arguments.tokenizer) as source:
        keys = model_keys(arguments) + tokenizer_keys(source)
        vocab = len(source.raw_strings("tokenizer.ggml.tokens"))
    type_id = TYPE_IDS[arguments.type]
    tensors = [tensor(name, dims, type_id, arguments.seed) for name, dims in shapes(arguments, vocab)]
    for each in tensors:
        if each.name == "output_norm.weight":
            each.data[:] *= np.float32(arguments.gain)
    write_gguf(arguments.out, keys, tensors)


if __name__ == "__main__":
    write_model(argument_parser().parse_args())
