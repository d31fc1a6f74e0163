# SPDX-License-Identifier: MIT OR Apache-2.0
"""An architecture's keys of an open file, read through the table of keys: a key that is not in the table cannot be read."""

from __future__ import annotations

from typing import Any

from bankml.core.gguf.key_types import allowed_types
from bankml.core.gguf.keys import ARCH, BY_NAME, KEYS, Here, Key
from bankml.core.gguf.reader import GgufFile
from bankml.core.refusal import Refusal

_HARMLESS: dict[str, object] = {"{arch}.attention.causal": True}
"""What a refused key may say, where that is not 0."""


class ArchitectureKeys:
    """Typed access to the keys of one architecture. The guard has held their types to the table."""

    def __init__(self, gguf: GgufFile, arch: str) -> None:
        self.gguf, self.arch = gguf, arch

    def where(self, name: str) -> str:
        """The key's place, as refusals name it."""
        return f"key {self.arch}.{name}"

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer; without a default the key is required."""
        return int(self._value(name, default))

    def real(self, name: str, default: float | None = None) -> float:
        """A single-precision number; without a default the key is required."""
        return float(self._value(name, default))

    def text(self, name: str, default: str) -> str:
        """A string."""
        return str(self._value(name, default))

    def layers(self, name: str, count: int) -> list[int]:
        """One integer for each of ``count`` layers, given as one for all or as a list."""
        value = self._value(name, None)
        return [int(each) for each in value] if isinstance(value, list) else [int(value)] * count

    def has(self, name: str) -> bool:
        """Whether the file has the key."""
        return self._key(name).for_arch(self.arch) in self.gguf.kv

    def refuse_what_is_not_built(self) -> None:
        """Refuse the first key that changes b11192's graph and has no counterpart here.

        Raises:
            Refusal: ``model.not-built``.
        """
        for key in KEYS:
            if not key.name.startswith(ARCH) or key.use(self.arch) is not Here.REFUSED:
                continue
            name, harmless = key.for_arch(self.arch), _HARMLESS.get(key.name, 0)
            value = self.gguf.get(name)
            if value is not None and value != harmless:
                raise Refusal(
                    "model.not-built",
                    f"bankml has no graph for this value of {name} ({key.meaning})",
                    where=f"key {name}",
                    found=f"{value!r:.60}",
                    allowed=f"{harmless} or absent",
                )

    def out_of_range(self, name: str, found: object, allowed: str) -> Refusal:
        """The refusal of a value with which b11192 stops or computes no number."""
        return Refusal(
            "model.key-value",
            f"{self.arch}.{name} has a value with which the model computes no numbers",
            where=self.where(name),
            found=str(found),
            allowed=allowed,
        )

    def _key(self, name: str) -> Key:
        return BY_NAME[ARCH + name]

    def _value(self, name: str, default: Any) -> Any:
        key = self._key(name)
        value = self.gguf.get(key.for_arch(self.arch), default)
        if value is None:
            full = key.for_arch(self.arch)
            raise Refusal("model.key-missing", f"the header has no {full}", where=f"key {full}", allowed=allowed_types(key))
        return value
