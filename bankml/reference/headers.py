# SPDX-License-Identifier: MIT OR Apache-2.0
"""Asks the reference to open GGUF files, each in a process of its own, since a bad file may abort it.

Run as a program by the guard's oracle: the directory of the reference as argument, one JSON list
``[reads, path]`` a line on stdin, one JSON object ``{"verdict", "says"}`` a line on stdout.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bankml.reference.build import Reference

LOADS, REFUSES, ABORTS = "loads", "refuses", "aborts"
_ERROR_LEVEL = 4
_LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class _Params(ctypes.Structure):
    """gguf_init_params. Source: ggml/include/gguf.h."""

    _fields_ = (("no_alloc", ctypes.c_bool), ("ctx", ctypes.POINTER(ctypes.c_void_p)))


class _ModelParams(ctypes.Structure):
    """Room for llama_model_params, which travels through memory and is only handed on."""

    _fields_ = (("bytes", ctypes.c_char * 1024),)


def _errors(level: int, text: bytes, _: Any) -> None:
    if level == _ERROR_LEVEL:
        os.write(2, text)


_log = _LOG(_errors)


def _open_form(library: ctypes.CDLL, path: str, no_alloc: bool) -> bool:
    tensors = ctypes.c_void_p()
    library.gguf_init_from_file.restype = ctypes.c_void_p
    library.gguf_init_from_file.argtypes = (ctypes.c_char_p, _Params)
    params = _Params(no_alloc, ctypes.pointer(tensors))
    return library.gguf_init_from_file(os.fsencode(path), params) is not None


def _open_model(library: ctypes.CDLL, path: str) -> bool:
    library.llama_model_default_params.restype = _ModelParams
    library.llama_model_load_from_file.restype = ctypes.c_void_p
    library.llama_model_load_from_file.argtypes = (ctypes.c_char_p, _ModelParams)
    return library.llama_model_load_from_file(os.fsencode(path), library.llama_model_default_params()) is not None


def _ask(opens: Callable[[], bool]) -> dict[str, str]:
    """Let a forked child open the file: exit status 0 it loads, 1 it refuses, a signal it aborts."""
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 2)
            code = 3
            try:
                code = 0 if opens() else 1
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        said.seek(0)
        lines = [line.strip() for line in said.read().decode("utf-8", "replace").splitlines() if line.strip()]
    verdict = ABORTS if os.WIFSIGNALED(status) else (LOADS, REFUSES)[os.WEXITSTATUS(status)]
    text = re.sub(r"/\S*/", "", next(iter(lines), ""))[:160]
    return {"verdict": verdict, "says": text if verdict != LOADS else ""}


def main(directory: str) -> None:
    """Answer the lines of stdin."""
    reference = Reference(Path(directory))
    base, llama = reference.library("ggml-base"), reference.library("llama")
    llama.llama_backend_init()
    llama.llama_log_set(_log, None)
    base.ggml_log_set(_log, None)
    for line in sys.stdin:
        reads, path = json.loads(line)
        if reads == "model":
            answer = _ask(lambda path=path: _open_model(llama, path))  # type: ignore[misc]
        else:
            answer = _ask(lambda path=path, bare=reads == "header": _open_form(base, path, bare))  # type: ignore[misc]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
