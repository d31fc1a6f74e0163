# SPDX-License-Identifier: MIT OR Apache-2.0
"""A real server process on the real model, started once for all tests that only ask."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.conftest import empty_home


class Served:
    """One ``bankml serve`` process on a port that the system chose, and a client for it.

    Args:
        program: what Python runs.
    """

    def __init__(self, model: Path, *options: str, program: tuple[str, str] = ("-m", "bankml")) -> None:
        self.session = requests.Session()
        self.session.trust_env = False
        self._rows: list[str] = []
        self._row = threading.Condition()
        self._ended = False
        command = [sys.executable, *program, "serve", str(model), "--listen", "127.0.0.1:0", *options]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
        )
        threading.Thread(target=self._read, daemon=True).start()
        listening = self.row(lambda row: "listening on http://" in row)
        self.base = listening.rpartition("listening on ")[2].strip()
        self.port = int(self.base.rpartition(":")[2])

    def _read(self) -> None:
        assert self.process.stderr is not None
        for row in self.process.stderr:
            with self._row:
                self._rows.append(row)
                self._row.notify_all()
        with self._row:
            self._ended = True
            self._row.notify_all()

    def row(self, wanted: Callable[[str], bool], number: int = 1) -> str:
        """Wait for the first row of the log that is wanted, or another one of them."""

        def found() -> list[str]:
            return [row for row in self._rows if wanted(row)]

        with self._row:
            self._row.wait_for(lambda: len(found()) >= number or self._ended)
            assert len(found()) >= number, "".join(self._rows)
            return found()[number - 1]

    def rows(self) -> str:
        """The log up to now."""
        with self._row:
            return "".join(self._rows)

    def get(self, path: str, **options: Any) -> requests.Response:
        return self.session.get(self.base + path, timeout=60, **options)

    def post(self, path: str, body: Any, **options: Any) -> requests.Response:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **options.pop("headers", {})}
        return self.session.post(self.base + path, data=data, headers=headers, timeout=120, **options)

    def chat(self, text: str = "Hi", **members: Any) -> requests.Response:
        return self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": text}], **members})

    def events(self, body: Any) -> list[Any]:
        """The events of a streamed answer, the last one the word [DONE]."""
        with self.post("/v1/chat/completions", body, stream=True) as answer:
            assert answer.status_code == 200, answer.text
            data = [line[6:] for line in answer.iter_lines() if line.startswith(b"data: ")]
        return [each.decode() if each == b"[DONE]" else json.loads(each) for each in data]

    def raw(self, sent: bytes, wait: float = 10.0) -> bytes:
        """Send bytes on a connection of their own; returns all that comes back until the server closes it."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait) as connection:
            connection.sendall(sent)
            received = b""
            while chunk := connection.recv(1 << 16):
                received += chunk
        return received

    def stop(self, sent: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the end; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(sent)
        code = self.process.wait()
        with self._row:
            self._row.wait_for(lambda: self._ended)
        if self.process.stderr is not None:
            self.process.stderr.close()
        self.session.close()
        return code


@pytest.fixture(scope="session")
def served(smollm2: Path) -> Iterator[Served]:
    server = Served(smollm2, "--allow-origin", "https://allowed.example")
    yield server
    assert server.stop() == 0, server.rows()
    assert "Traceback" not in server.rows()


@pytest.fixture(scope="module")
def of_a_copy(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    """A server of a copy of the model, pinned in a home of its own, and the copy, which tests change and change back."""
    folder = tmp_path_factory.mktemp("copy")
    with pytest.MonkeyPatch.context() as patch:
        home = empty_home(folder / "home", patch)
        copy = home / "models" / smollm2.name
        pin = home / "forks" / f"{copy.name}.FORK.json"
        for path in (copy, pin):
            path.parent.mkdir()
        shutil.copyfile(smollm2, copy)
        command = [sys.executable, "-m", "bankml", "pin", str(copy), "--fork", str(pin), "--write"]
        subprocess.run(command, check=True, capture_output=True)
        server = Served(copy, "--quiet")
    yield server, copy
    assert server.stop() == 0, server.rows()
    assert "Traceback" not in server.rows()
