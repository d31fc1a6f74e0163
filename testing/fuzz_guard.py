# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fuzzes the guard's entry point with mutated GGUF files: never an exception, never a hang, never a span outside the file.

    python testing/fuzz_guard.py [--seconds 600] [--seed 1] [--keep DIR]

Inputs that break a promise are written to --keep (default: the current directory) and named on stderr; exit code 1.
"""

from __future__ import annotations

import argparse
import json
import random
import struct
import sys
import time
from collections import Counter
from pathlib import Path

from bankml.core.gguf.guard import NEED_MORE, PLAY, REFUSE, judge_bytes
from bankml.core.gguf.reader import GgufFile
from bankml.core.gguf.types import TYPES
from bankml.oracle.kinds.guard import all_cases
from bankml.refusal import Refusal

NUMBERS = (0, 1, 2, 3, 7, 8, 31, 32, 33, 64, 127, 128, 255, 256, 1 << 15, 1 << 16, 1 << 31, (1 << 32) - 1)
WIDE = (*NUMBERS, 1 << 32, 1 << 53, 1 << 61, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
EXITS = {PLAY: 0, REFUSE: 2, NEED_MORE: 3}
SLOW = 0.05


def corpus() -> list[bytes]:
    """The table's files, without the few large ones."""
    return [case.data for case in all_cases() if len(case.data) < 1 << 14]


def mutate(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """``data`` with one to six changes: bits, numbers, bytes gone, bytes new, a piece of another file."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        at = rng.randrange(len(out) + 1) if rng.random() < 0.2 else min(rng.randrange(1, 1 << 12), len(out))
        kind = rng.randrange(8)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[at : at + 4] = struct.pack("<I", rng.choice(NUMBERS))
        elif kind == 2:
            out[at : at + 8] = struct.pack("<Q", rng.choice(WIDE))
        elif kind == 3:
            del out[at : at + rng.choice((1, 2, 4, 8, 100))]
        elif kind == 4:
            out[at:at] = rng.randbytes(rng.choice((1, 4, 8, 40)))
        elif kind == 5:
            del out[at:]
        elif kind == 6:
            start = rng.randrange(len(other) + 1)
            out[at : at + rng.randrange(64)] = other[start : start + rng.randrange(200)]
        else:
            out[at:at] = out[at : at + rng.randrange(200)]
    return bytes(out)


def hold(data: bytes, engine: str = "mainline") -> str:
    """Judge the bytes and hold the verdict to every promise; returns the verdict and its first code.

    Raises:
        AssertionError: a promise is broken.
    """
    started = time.process_time()
    verdict = judge_bytes(data, engine, len(data), "fuzz.gguf")
    spent = time.process_time() - started
    if spent > SLOW:
        # A busy machine is not a slow guard: the best of three counts.
        for _ in range(2):
            started = time.process_time()
            judge_bytes(data, engine, len(data))
            spent = min(spent, time.process_time() - started)
    assert spent <= SLOW + len(data) * 1e-7, f"{spent:.3f} s"
    assert verdict.exit_code == EXITS[verdict.verdict]
    assert bool(verdict.reasons) == (verdict.verdict != PLAY)
    json.dumps(verdict.as_dict(), allow_nan=False).encode("ascii")
    for reason in verdict.reasons:
        assert reason.code.startswith("gguf.")
        assert reason.line().isprintable()
        assert reason.found is not None
        assert reason.allowed is not None
        assert reason.where is not None
    if verdict.verdict == NEED_MORE:
        assert verdict.need_bytes is not None
        assert verdict.need_bytes > len(data)
    if verdict.verdict == PLAY and engine == "mainline":
        _hold_playing(data, verdict.header)
    return f"{verdict.verdict} {verdict.reasons[0].code if verdict.reasons else ''}"


def _hold_playing(data: bytes, header: object) -> None:
    file = GgufFile(Path("fuzz.gguf"), header, data)  # type: ignore[arg-type]
    end = file.header.data_start
    for tensor in file.tensors.values():
        assert tensor.type_id in TYPES
        assert tensor.offset == -(-end // file.header.alignment) * file.header.alignment
        end = tensor.offset + tensor.n_bytes
        assert tensor.n_bytes > 0
        assert end <= len(data)
        assert len(file.data(tensor.name)) == tensor.n_bytes
    for key in file.kv:
        try:
            file.get(key)
        except Refusal as refusal:
            assert refusal.code == "gguf.string-utf8"


def main() -> int:
    """Fuzz until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path())
    options = parser.parse_args()
    rng = random.Random(options.seed)
    files = corpus()
    seen: Counter[str] = Counter()
    broken = 0
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        data = mutate(rng, rng.choice(files), rng.choice(files))
        engine = rng.choice(("mainline", "mainline", "prism"))
        try:
            said = hold(data, engine)
        except Exception as error:
            broken += 1
            place = options.keep / f"fuzz-{options.seed}-{sum(seen.values())}.gguf"
            place.write_bytes(data)
            print(f"{place}: {type(error).__name__}: {error}", file=sys.stderr)
            said = "broken"
        # A file with a verdict not seen before is worth mutating further.
        if said not in seen and len(data) < 1 << 14:
            files.append(data)
        seen[said] += 1
    for said, count in seen.most_common():
        print(f"{count:9d} {said}")
    print(f"seed {options.seed}: {sum(seen.values())} files, {broken} broken promises")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
