# SPDX-License-Identifier: MIT OR Apache-2.0
"""Opening a model reads exactly the keys of the table."""

import pytest

from bankml.core.engine import Engine, EngineOptions
from bankml.core.gguf import reader
from bankml.core.gguf.keys import ARCHITECTURES, KEYS, Here
from bankml.core.model import architectures
from bankml.core.serve.llama.props import model_info, props
from bankml.oracle.cases import keys_models

ABSENT = {"general.tensor_extra.name"}
"""Read by the guard alone, and only where it is there."""


def test_the_table_is_of_the_architectures_that_play():
    assert set(ARCHITECTURES) == set(architectures.ARCHITECTURES)


class Watched(dict):
    """Metadata pairs that note what they are asked for."""

    def __init__(self, pairs, asked):
        super().__init__(pairs)
        self.asked = asked

    def __getitem__(self, key):
        self.asked.add(key)
        return super().__getitem__(key)

    def get(self, key, default=None):
        self.asked.add(key)
        return super().get(key, default)

    def __contains__(self, key):
        self.asked.add(key)
        return super().__contains__(key)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_an_engine_reads_every_key_that_is_read_and_no_other(arch, tmp_path, monkeypatch):
    asked = set()
    opened = reader.GgufFile.__init__

    def watching(self, path, header, data):
        header.entries = Watched(header.entries, asked)
        opened(self, path, header, data)

    monkeypatch.setattr(reader.GgufFile, "__init__", watching)
    keys_models.write(arch, {}, tmp_path / "m.gguf")
    with Engine.open(tmp_path / "m.gguf", EngineOptions(n_ctx=64, threads=1)) as engine:
        props(engine)
        model_info(engine)
        engine.template.source  # noqa: B018 - made when it is first asked for
    table = {key.for_arch(arch): key.use(arch) for key in KEYS}
    read = {name for name, here in table.items() if here is not Here.PASSED}
    assert asked - set(table) == set()
    assert read - asked == {"general.alignment"}
