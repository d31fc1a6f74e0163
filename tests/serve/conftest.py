# SPDX-License-Identifier: MIT OR Apache-2.0
"""A real server process on the real model, started once for all tests that only ask."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.conftest import empty_home


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Served:
    """One ``bankml serve`` process and a client for it; `program` is what Python runs."""

    def __init__(self, model: Path, log: Path, *options: str, program: tuple[str, str] = ("-m", "bankml")) -> None:
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.log = log
        self.session = requests.Session()
        self.session.trust_env = False
        command = [sys.executable, *program, "serve", str(model), "--listen", f"127.0.0.1:{self.port}", *options]
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr)
        try:
            self._wait()
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def _wait(self) -> None:
        end = time.monotonic() + 240
        while time.monotonic() < end:
            if self.process.poll() is not None:
                break
            try:
                if self.get("/health").status_code == 200:
                    return
            except requests.ConnectionError:
                time.sleep(0.1)
        raise AssertionError(f"the server did not start: {self.rows()}")

    def rows(self) -> str:
        return self.log.read_text("utf-8", "replace")

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
        if self.process.poll() is None:
            self.process.send_signal(sent)
        try:
            return self.process.wait(timeout=20)
        finally:
            self.process.kill()
            self.session.close()


@pytest.fixture(scope="session")
def served(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    server = Served(smollm2, tmp_path_factory.mktemp("serve") / "log", "--allow-origin", "https://allowed.example")
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
        server = Served(copy, folder / "log", "--quiet")
    yield server, copy
    assert server.stop() == 0, server.rows()
    assert "Traceback" not in server.rows()
