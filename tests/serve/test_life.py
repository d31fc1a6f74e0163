# SPDX-License-Identifier: MIT OR Apache-2.0
"""A server's life: the port, the signals, a client that leaves, a file that changes under it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from testing.hostile_bodies import Gauge

from .conftest import Served

LONG = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3000, "ignore_eos": True, "stream": True}


@pytest.fixture
def start() -> Iterator[Callable[..., Served]]:
    running: list[Served] = []

    def begin(model: Path, *options: str, **more: Any) -> Served:
        running.append(Served(model, *options, **more))
        return running[-1]

    yield begin
    for each in running:
        each.stop(signal.SIGKILL)


def serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bankml", "serve", "--listen", "127.0.0.1:0", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_it_says_when_it_listens(served: Served) -> None:
    assert re.search(
        r"verified \(sha256 b179c9523d0e.*\).*llama-threads 3.*listening on http://127\.0\.0\.1:\d+\n", served.rows()
    )


def test_a_port_in_use_is_named(served: Served, smollm2: Path) -> None:
    done = serve(str(smollm2), "--listen", f"127.0.0.1:{served.port}")
    assert done.returncode == 2
    assert done.stderr.startswith(f"bankml: cannot listen on 127.0.0.1:{served.port}: another program does")
    assert done.stdout == ""
    # Before anything is hashed or compiled.
    assert "verifying" not in done.stderr


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_quickly_in_the_middle_of_an_answer(start: Callable[..., Served], smollm2: Path, sent: signal.Signals) -> None:
    server = start(smollm2, "--quiet")
    with server.post("/v1/chat/completions", LONG, stream=True) as answer:
        lines = answer.iter_lines()
        next(lines)
        assert server.stop(sent) == 0
        rest = b"\n".join(lines)
    assert b"[DONE]" not in rest
    assert b"bankml serve is stopping" in rest
    assert "Traceback" not in server.rows()


def test_those_who_wait_hear_that_it_stops(start: Callable[..., Served], smollm2: Path) -> None:
    server = start(smollm2)
    body = json.dumps({**LONG, "stream": False}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with server.post("/v1/chat/completions", LONG, stream=True) as answer:
        next(answer.iter_lines())
        waiting = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(8)]
        for each in waiting:
            each.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        # Its request is read behind theirs.
        assert server.get("/health").status_code == 200
        assert server.stop() == 0
    for each in waiting:
        with each:
            received = b""
            while chunk := each.recv(1 << 16):
                received += chunk
        assert received.startswith(b"HTTP/1.1 503"), received
        assert b"bankml serve is stopping" in received


def test_a_log_that_nobody_reads_stops_nothing(smollm2: Path) -> None:
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    command = [sys.executable, "-m", "bankml", "serve", str(smollm2), "--listen", "127.0.0.1:0", "--ctx", "256"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=write)
    os.close(write)
    said = b""
    while b"listening on http://" not in said or not said.endswith(b"\n"):
        said += os.read(read, 4096)
    port = int(said.rpartition(b":")[2])
    with requests.Session() as session:
        session.trust_env = False
        for _ in range(1500):
            assert session.get(f"http://127.0.0.1:{port}/health").status_code == 200
    process.terminate()
    assert process.wait() == 0
    os.close(read)


def test_what_waits_for_its_turn_keeps_no_body(start: Callable[..., Served], smollm2: Path) -> None:
    server = start(smollm2)
    gauge = Gauge(server.process.pid)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    body = json.dumps({**LONG, "stream": False, "user": "x" * (8 << 20)}).encode()
    with server.post("/v1/chat/completions", LONG, stream=True) as answer:
        next(answer.iter_lines())
        held = gauge.resident()
        waiting = []
        for _ in range(20):
            waiting.append(socket.create_connection(("127.0.0.1", server.port)))
            waiting[-1].sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        # A large request is read after them, so all of them have been.
        assert server.post("/detokenize", b'{"tokens":[' + b"1," * (1 << 20) + b"1]}").status_code == 200
        assert gauge.resident() - held < 64 << 20
        for number, each in enumerate(waiting, 1):
            each.close()
            server.row(lambda row: " 499 " in row, number)
    assert server.chat(max_tokens=1).status_code == 200


def test_a_client_that_leaves_stops_its_answer(served: Served) -> None:
    for number, stream in enumerate((True, False), 1):
        connection = socket.create_connection(("127.0.0.1", served.port))
        body = json.dumps({**LONG, "stream": stream}).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        if stream:
            assert connection.recv(12) == b"HTTP/1.1 200"
        connection.close()
        served.row(lambda row: "the client went away" in row, number)
        assert served.chat(max_tokens=1).status_code == 200


def test_a_swapped_file_is_not_answered_from(of_a_copy: tuple[Served, Path]) -> None:
    server, pinned_copy = of_a_copy
    ask = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2, "temperature": 0}
    assert server.post("/v1/chat/completions", ask).status_code == 200
    good = pinned_copy.with_suffix(".good")
    pinned_copy.rename(good)
    changed = bytearray(good.read_bytes())
    changed[-1] ^= 1
    pinned_copy.write_bytes(changed)

    answer = server.post("/v1/chat/completions", ask)
    assert answer.status_code == 503
    assert answer.json()["error"]["type"] == "unavailable_error"
    assert "changed" in answer.json()["error"]["message"]
    assert "bankml_receipt" not in answer.text

    answer = server.post("/v1/chat/completions", {**ask, "stream": True})
    assert answer.status_code == 503
    assert "bankml_receipt" not in answer.text
    assert server.get("/bankml").json()["resident"] is False
    assert server.get("/health").status_code == 200

    good.replace(pinned_copy)
    answer = server.post("/v1/chat/completions", ask)
    assert answer.status_code == 200
    assert answer.json()["bankml_receipt"]["model_sha256"].startswith("b179c9523d0e")


def test_a_file_written_over_in_place_is_not_answered_from(of_a_copy: tuple[Served, Path]) -> None:
    server, pinned_copy = of_a_copy
    good = pinned_copy.read_bytes()
    with server.post("/v1/chat/completions", {**LONG, "max_tokens": 100}, stream=True) as answer:
        lines = answer.iter_lines()
        next(lines)
        pinned_copy.write_bytes(good[:4096])
        next(lines)
        pinned_copy.write_bytes(good)
        rest = b"\n".join(lines)
    assert b"bankml_receipt" not in rest
    assert server.process.poll() is None
    assert server.chat(max_tokens=1).status_code == 200


def test_a_file_swapped_during_an_answer_takes_its_receipt(of_a_copy: tuple[Served, Path]) -> None:
    server, pinned_copy = of_a_copy
    with server.post("/v1/chat/completions", {**LONG, "max_tokens": 150}, stream=True) as answer:
        lines = answer.iter_lines()
        next(lines)
        os.utime(pinned_copy)
        rest = b"\n".join(lines)
    assert b"changed" in rest
    assert b"bankml_receipt" not in rest
    assert b"[DONE]" not in rest
    assert server.chat(max_tokens=1).status_code == 200


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["/nowhere/model.gguf"], 1, "model.gguf"),
        (["no-such-model"], 1, "no-such-model"),
        (["/"], 1, "/"),
        (["--listen", "0.0.0.0:1"], 1, "loopback"),
        (["--ctx", "-1"], 1, "--ctx"),
    ],
)
def test_bad_starts(arguments: list[str], code: int, said: str) -> None:
    done = serve(*arguments)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_unpinned_and_truncated_files_are_not_served(own_home: Path, smollm2: Path, tmp_path: Path) -> None:
    unpinned = tmp_path / "unpinned.gguf"
    unpinned.write_bytes(smollm2.read_bytes())
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(smollm2.read_bytes()[: 1 << 20])
    for path, code, said in ((unpinned, 2, "unpinned, refused"), (cut, 3, "truncated")):
        done = serve(str(path))
        assert done.returncode == code
        assert said in done.stderr, done.stderr
        assert "Traceback" not in done.stderr


def test_a_server_whose_answers_are_not_exact_says_so(
    start: Callable[..., Served], smollm2: Path, another_machines_libm: Path
) -> None:
    code = f"""
import runpy
from pathlib import Path
from bankml.core.exact import check
check.RECORD = Path({str(another_machines_libm)!r})
runpy.run_module("bankml", run_name="__main__")
"""
    server = start(smollm2, "--inexact", "--ctx", "512", program=("-c", code))
    record = server.get("/bankml").json()
    receipt = server.chat(max_tokens=1).json()["bankml_receipt"]
    assert record["exact"] is receipt["exact"] is False
    assert record["inexact"] == receipt["inexact"]
    assert record["inexact"].startswith("expf differs from the reference machine's at expf(")
    assert f"answers are not exact: {record['inexact']}" in server.rows()


def test_threads_come_from_the_environment(start: Callable[..., Served], smollm2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANKML_THREADS", "1")
    monkeypatch.setenv("BANKML_LLAMA_THREADS", "2")
    server = start(smollm2, "--ctx", "512")
    settings = server.get("/bankml").json()["settings"]
    assert (settings["threads"], settings["llama_threads"], settings["ctx"]) == (1, 2, 512)
    assert server.chat(max_tokens=1).json()["bankml_receipt"]["llama_threads"] == 2
    assert requests.get(server.base + "/props", timeout=10).json()["default_generation_settings"]["n_ctx"] == 512
