# SPDX-License-Identifier: MIT OR Apache-2.0
"""A llama-server of the reference that runs while it is asked."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Self

import requests

from bankml.refusal import EXIT_OTHER, Refusal

START_SECONDS = 180.0
ANSWER_SECONDS = 600.0
POLL_SECONDS = 0.005
"""Between two questions whether it is ready: little beside the shortest start, for starts are measured by it."""


def free_port() -> int:
    """A TCP port of the loopback interface that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class ReferenceServer:
    """llama-server on one model, started on entry and ended on exit; speaks JSON.

    Attributes:
        base: its address, for clients of other kinds.
        pid: its process.
        log: what it wrote so far.
    """

    def __init__(
        self,
        program: Path,
        environment: dict[str, str],
        model: Path,
        ctx: int,
        threads: int,
        extra: list[str],
        port: int | None,
    ) -> None:
        self._port = port if port is not None else free_port()
        self.base = f"http://127.0.0.1:{self._port}"
        self.arguments = ["-np", "1", "--jinja", "--reasoning", "off", "-c", str(ctx), "-t", str(threads), *extra]
        self._command = [str(program), "-m", str(model), *self.arguments, "--host", "127.0.0.1", "--port", str(self._port)]
        self._environment = {name: value for name, value in environment.items() if not name.startswith("LLAMA_ARG_")}
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._session = requests.Session()
        # A proxy of the environment must not stand between us and the loopback interface.
        self._session.trust_env = False
        # llama-server drops a kept connection after 100 requests, and the next request would be lost on it.
        self._session.headers["Connection"] = "close"

    def __enter__(self) -> Self:
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(  # noqa: S603 - the program that the user named
            self._command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT, env=self._environment
        )
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None
        self._session.close()

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """What the server wrote so far."""
        assert self._log is not None
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace")

    def get(self, path: str) -> tuple[int, Any]:
        """GET; returns the status and the JSON value of the answer, or its text where it is no JSON."""
        return _answer(self._session.get(self.base + path, timeout=ANSWER_SECONDS))

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        """POST a JSON value, or raw bytes as they are; returns the status and the JSON value of the answer, or its text."""
        return _answer(self._session.post(self.base + path, **_payload(body), timeout=ANSWER_SECONDS))

    def stream(self, path: str, body: Any) -> Iterator[str]:
        """POST and yield the data of each server-sent event as it comes, ``[DONE]`` included; other lines as they are."""
        with self._session.post(self.base + path, **_payload(body), timeout=ANSWER_SECONDS, stream=True) as answer:
            for line in answer.iter_lines():
                text = line.decode("utf-8", "replace")
                if text:
                    yield text.removeprefix("data: ")

    def events(self, path: str, body: Any) -> tuple[int, Any]:
        """POST for a stream; returns the status and the data of all its events, or what was answered instead of a stream."""
        answer = self._session.post(self.base + path, **_payload(body), timeout=ANSWER_SECONDS)
        if answer.status_code != 200:
            return _answer(answer)
        lines = (line.removeprefix("data: ") for line in answer.content.decode("utf-8", "replace").splitlines())
        return 200, [line if line == "[DONE]" else json.loads(line) for line in lines if line and not line.startswith(":")]

    def _wait(self) -> None:
        assert self._process is not None
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise self._failed(f"exit code {self._process.returncode}")
            if self._is_ready():
                return
            time.sleep(POLL_SECONDS)
        raise self._failed(f"not ready after {START_SECONDS:.0f} s")

    def _is_ready(self) -> bool:
        """Whether it answers; asked so often while it loads that the question must cost little."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _failed(self, found: str) -> Refusal:
        last = self.log.strip().splitlines()[-3:]
        return Refusal(
            "reference.server", "llama-server did not start", found=f"{found}: {' / '.join(last)}", exit_code=EXIT_OTHER
        )


def _payload(body: Any) -> dict[str, Any]:
    if isinstance(body, bytes):
        return {"data": body, "headers": {"Content-Type": "application/json"}}
    return {"data": json.dumps(body).encode(), "headers": {"Content-Type": "application/json"}}


def _answer(response: requests.Response) -> tuple[int, Any]:
    try:
        return response.status_code, response.json()
    except ValueError:
        return response.status_code, response.text
