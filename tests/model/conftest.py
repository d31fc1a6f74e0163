# SPDX-License-Identifier: MIT OR Apache-2.0
"""Small models made from a stream, some of them changed."""

import dataclasses

import pytest

from bankml.core.gguf.reader import GgufFile
from bankml.core.gguf.writer import write_gguf
from bankml.oracle.cases import small_models

SHAPES = {shape.name: shape for shape in small_models.SHAPES}
TINY = dataclasses.replace(
    SHAPES["llama"], types=("F32",), embd=32, ff=32, heads=1, kv_heads=1, head_dim=32, layers=1, vocabulary=16
)


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """An open small model by name."""
    folder = tmp_path_factory.mktemp("small")
    opened = {}

    def get(name):
        if name not in opened:
            small_models.write(SHAPES[name], folder / f"{name}.gguf")
            opened[name] = GgufFile.open(folder / f"{name}.gguf")
        return opened[name]

    yield get
    for gguf in opened.values():
        gguf.close()


@pytest.fixture
def changed(tmp_path):
    """A tiny model with other keys or tensors: ``changed(keys={name: (type, value) or None}, tensors={name: dims or None})``."""

    def make(keys=None, tensors=None, arch="llama", extra=()):
        shape = dataclasses.replace(TINY, arch=arch)
        pairs = {key: (kind, value) for key, kind, value in small_models._keys(shape)} | (keys or {})
        wanted = {}
        for number, (name, usual) in enumerate([*small_models._tensors(shape), *extra]):
            dims = (tensors or {}).get(name, usual)
            if dims is not None:
                wanted[name] = small_models._tensor(shape, number, name, dims)
        path = tmp_path / "changed.gguf"
        write_gguf(path, [(key, *pair) for key, pair in pairs.items() if pair is not None], list(wanted.values()))
        return GgufFile.open(path)

    return make
