# SPDX-License-Identifier: MIT OR Apache-2.0
"""A small program against the reference's own headers that answers questions; its source lies in testing/."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bankml.reference.build import Reference
from bankml.refusal import EXIT_OTHER, Refusal

TESTING: Final = Path(__file__).resolve().parents[2] / "testing"


class Probe:
    """The program in a process of its own, started again when a question ends it.

    A question is its size in a line and its bytes; an answer is a line, whose last word is a size, and the bytes.
    """

    def __init__(self, program: str, environment: dict[str, str]) -> None:
        self.program = program
        self.environment = environment
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, data: bytes) -> tuple[list[bytes], bytes] | None:
        """The words of the line and the bytes, or None where the question ends the program."""
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(  # noqa: S603 - the program that the user named
                [self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self.environment
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(b"%d\n%b" % (len(data), data))
        self.process.stdin.flush()
        head = self.process.stdout.readline().split()
        if not head:
            self.process.wait()
            return None
        return head, self.process.stdout.read(int(head[-1]))

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@contextmanager
def open_probe(source: str, reference: Reference, program: str | None) -> Iterator[Probe]:
    """The probe of a source in testing/, compiled unless the program is named.

    Raises:
        Refusal: ``oracle.probe``, it cannot be compiled here.
    """
    with tempfile.TemporaryDirectory() as folder:
        probe = Probe(program or str(build_probe(TESTING / source, reference, Path(folder))), reference.environment())
        try:
            yield probe
        finally:
            probe.close()


def build_probe(source: Path, reference: Reference, folder: Path) -> Path:
    """The probe of a source, compiled in the folder against the reference's own source, which lies beside its build.

    Raises:
        Refusal: ``oracle.probe``, it cannot be compiled here.
    """
    theirs = reference.source()
    compiler = shutil.which("g++")
    if theirs is None or not compiler or not source.is_file():
        raise Refusal(
            "oracle.probe",
            "this kind needs a probe that is compiled with g++ against the reference's source",
            found=f"source: {theirs is not None}, g++: {bool(compiler)}, {source.name}: {source.is_file()}",
            allowed="--set probe=PROGRAM",
            exit_code=EXIT_OTHER,
        )
    program = folder / "probe"
    paths = [f"-I{theirs / each}" for each in ("common", "include", "ggml/include", "vendor")]
    libraries = [f"-L{reference.bin}", "-lllama-common", "-lllama", "-lggml", "-lggml-base", f"-Wl,-rpath,{reference.bin}"]
    subprocess.run(  # noqa: S603 - the compiler found above, on a file of the repository
        [compiler, "-std=c++17", "-O1", *paths, str(source), "-o", str(program), *libraries], check=True
    )
    return program
