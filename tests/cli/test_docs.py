# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every command in README and docs is run."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from tests.cli.doc_blocks import LANGUAGES, ROOT, all_blocks, blocks_of

BLOCKS = all_blocks()
RUN = [block for block in BLOCKS if block.language == "sh" and not block.shown_only]
FILES = Path(__file__).parent / "doc_files"
ADDRESS = "127.0.0.1:18093"
# What a page may use besides bankml and the shell's own commands; a machine without one of them skips those blocks.
TOOLS = ("curl", "jq", "openssl", "sha256sum")


@pytest.fixture
def environment(home_with_smollm2):
    return os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "BANKML_HOME": str(home_with_smollm2)}


@pytest.fixture
def folder(tmp_path, smollm2):
    place = tmp_path / "here"
    shutil.copytree(FILES, place)
    (place / "model.gguf").symlink_to(smollm2)
    (place / "tests").mkdir()
    (place / "tests" / "records").symlink_to(ROOT / "tests" / "records")
    return place


@contextlib.contextmanager
def server(environment, log):
    """A server on a port that the system chose; it says when it listens."""
    process = subprocess.Popen(["bankml", "serve", "--listen", "127.0.0.1:0"], env=environment, stderr=subprocess.PIPE)
    reader = None
    try:
        for line in process.stderr:
            log.write(line)
            if b"; listening on " in line:
                break
        else:
            raise AssertionError("bankml serve ended")
        reader = threading.Thread(target=shutil.copyfileobj, args=(process.stderr, log))
        reader.start()
        (port,) = {each.laddr.port for each in psutil.Process(process.pid).net_connections() if each.status == psutil.CONN_LISTEN}
        yield f"127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
        if reader is not None:
            reader.join()
        process.stderr.close()


@pytest.mark.parametrize("block", RUN, ids=str)
def test_block_runs(block, environment, folder):
    missing = [tool for tool in TOOLS if re.search(rf"\b{tool}\b", block.script) and not shutil.which(tool)]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    with contextlib.ExitStack() as stack:
        script = block.script
        log = folder.parent / "server.log"
        if block.with_server:
            script = script.replace(ADDRESS, stack.enter_context(server(environment, stack.enter_context(log.open("wb")))))
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", script],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.returncode == 0, f"{block}:\n{block.script}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def test_every_block_says_what_language_it_is_in():
    assert [f"{block}: {block.language!r}" for block in BLOCKS if block.language not in LANGUAGES] == []


def test_marks_are_understood():
    assert [str(block) for block in BLOCKS if block.mark and not (block.with_server or block.shown_only)] == []


def test_no_command_hides_in_a_block_that_is_not_run():
    hidden = [
        str(block)
        for block in BLOCKS
        if block.language != "sh"
        and re.search(r"^\$? ?(bankml|make|curl) ", block.script, re.MULTILINE)
        and block.page != "docs/commands.md"
    ]
    assert hidden == []


def test_links_between_pages_lead_somewhere():
    broken = []
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        broken += [f"{page.relative_to(ROOT)}: {target}" for target in targets if not (page.parent / target).exists()]
    assert broken == []


def test_blocks_are_found_with_their_marks():
    page = "x\n<!-- shown only: it never ends -->\n```sh\nbankml serve\n```\n\n"
    page += "<!-- with a server -->\n\n```sh\ncurl x\n```\n```text\nt\n```\n"
    found = blocks_of("p.md", page)
    assert [(block.language, block.shown_only, block.with_server, block.line) for block in found] == [
        ("sh", "it never ends", False, 3),
        ("sh", None, True, 9),
        ("text", None, False, 12),
    ]
