# SPDX-License-Identifier: MIT OR Apache-2.0
"""Processes that are measured from outside, and the machine they ran on."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bankml.refusal import EXIT_OTHER, Refusal


@dataclass(frozen=True)
class Finished:
    """A process that ended well: what it wrote, when its first byte came, and the most memory it held."""

    stdout: bytes
    first_byte_seconds: float
    resident_bytes: int


def run_measured(command: Sequence[str], environment: Mapping[str, str], purpose: str) -> Finished:
    """Run a command to its end.

    Raises:
        Refusal: it ended with another exit code than 0.
    """
    with tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(  # noqa: S603 - our own command line, or a program of the reference
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=dict(environment)
        )
        assert process.stdout is not None
        with _Watch(process.pid) as watch, process.stdout:
            first = process.stdout.read(1)
            first_byte = time.perf_counter() - start
            output = first + process.stdout.read()
            process.wait()
        if process.returncode != 0:
            errors.seek(0)
            last = errors.read().decode("utf-8", "replace").strip().splitlines()[-1:]
            raise Refusal(
                "bench.process",
                f"{purpose} failed",
                found=f"exit code {process.returncode}{': ' if last else ''}{''.join(last)}",
                exit_code=EXIT_OTHER,
            )
    return Finished(output, first_byte, watch.peak)


class _Watch:
    """Follows the peak of a process while it runs.

    The peak that ``wait4`` gives will not do: it is at least the memory of the process that started this one.
    """

    def __init__(self, pid: int) -> None:
        self.peak = 0
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._over.is_set():
            self.peak = max(self.peak, peak_resident_bytes(self._pid) or 0)
            self._over.wait(0.005)


def peak_resident_bytes(pid: int | str = "self") -> int | None:
    """The most memory that a running process ever held, mapped files included; None where the kernel does not tell."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    match = re.search(r"^VmHWM:\s+(\d+) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def machine_facts() -> dict[str, object]:
    """What a number was measured on: processor, processors, memory, load, system, Python."""
    return {
        "processor": _first(r"^model name\s*:\s*(.+)$", "/proc/cpuinfo") or platform.processor(),
        "processors": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": int(_first(r"^MemTotal:\s+(\d+) kB", "/proc/meminfo") or 0) * 1024,
        "load": list(os.getloadavg()),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _first(pattern: str, file: str) -> str | None:
    try:
        match = re.search(pattern, Path(file).read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    except OSError:
        return None
    return match[1].strip() if match else None
