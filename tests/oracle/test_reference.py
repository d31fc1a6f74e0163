# SPDX-License-Identifier: MIT OR Apache-2.0
import hashlib
import sys

import pytest

from bankml.reference.build import LIBRARIES, SOURCE, Reference, default_dir
from bankml.refusal import Refusal

# Speaks as much of llama-server as the framework listens to.
PROGRAM = """#!{python}
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
if "--version" in sys.argv:
    sys.stderr.write("version: 0.5.0-dev (build {build}, commit unknown)\\nbuilt with GNU 12.2.0 for Linux x86_64\\n")
    raise SystemExit(0)
if "missing.gguf" in sys.argv:
    sys.stderr.write("error: no such model\\n")
    raise SystemExit(1)
class Handler(BaseHTTPRequestHandler):
    def do_GET(self): self.answer(200, {{"status": "ok"}})
    def do_POST(self):
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/stream":
            self.send_response(200); self.end_headers()
            self.wfile.write(b"data: {{}}\\n\\ndata: [DONE]\\n\\n")
            return
        try: self.answer(200, json.loads(data))
        except ValueError: self.answer(400, {{"error": "no JSON"}})
    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


@pytest.fixture
def build(tmp_path):
    def make(build=11192, flags=("GGML_NATIVE:BOOL=ON",)):
        folder = tmp_path / "build"
        (folder / "bin").mkdir(parents=True)
        program = folder / "bin" / "llama-server"
        program.write_text(PROGRAM.format(python=sys.executable, build=build))
        program.chmod(0o755)
        for name in LIBRARIES:
            (folder / "bin" / f"lib{name}.so").write_bytes(name.encode())
        (folder / "CMakeCache.txt").write_text("# comment\n" + "\n".join(flags) + "\nCMAKE_BUILD_TYPE:STRING=Release\n")
        return folder

    return make


def test_facts_name_version_compiler_libraries_and_flags(build):
    facts = Reference(build()).facts()
    assert (facts["version"], facts["variant"], facts["compiler"]) == ("b11192", "native", "GNU 12.2.0")
    assert facts["libraries"]["libllama.so"] == hashlib.sha256(b"llama").hexdigest()
    assert facts["flags"] == {"CMAKE_BUILD_TYPE": "Release", "GGML_NATIVE": "ON"}


def test_the_haswell_flags_are_told_as_such(build):
    on = ("SSE42", "AVX", "AVX2", "FMA", "F16C", "BMI2")
    assert Reference(build(flags=[f"GGML_{flag}:BOOL=ON" for flag in on])).facts()["variant"] == "haswell"


def test_another_version_is_refused(build):
    with pytest.raises(Refusal, match="not the reference") as refused:
        Reference(build(build=11193)).facts()
    assert "b11193" in refused.value.line()


@pytest.mark.parametrize("name", ["nothing", "build"])
def test_a_directory_without_a_build_is_refused(tmp_path, name):
    (tmp_path / "build").mkdir()
    with pytest.raises(Refusal, match="no build") as refused:
        Reference(tmp_path / name)
    assert "make reference" in refused.value.line()


def test_the_bin_directory_and_a_folder_of_variants_are_found_too(build):
    folder = build()
    assert Reference(folder / "bin").bin == Reference(folder).bin == folder / "bin"
    folder.rename(folder.parent / "haswell")
    assert Reference(folder.parent).bin == folder.parent / "haswell" / "bin"


def test_the_environment_names_the_default(monkeypatch, tmp_path):
    monkeypatch.setenv("BANKML_REFERENCE", str(tmp_path))
    assert default_dir() == tmp_path


def test_the_server_is_asked_and_ended(build):
    with Reference(build()).server("model.gguf", ctx=64, threads=1) as server:
        assert server.get("/health") == (200, {"status": "ok"})
        assert server.post("/echo", {"é": 1}) == (200, {"é": 1})
        assert server.post("/echo", b"{nope") == (400, {"error": "no JSON"})
        assert list(server.stream("/stream", {})) == ["{}", "[DONE]"]
        assert server.arguments == ["-np", "1", "--jinja", "--reasoning", "off", "-c", "64", "-t", "1"]
        process = server._process
    assert process.poll() is not None


def test_a_server_that_does_not_start_says_why(build):
    with pytest.raises(Refusal, match="did not start") as refused, Reference(build()).server("missing.gguf"):
        pass
    assert "no such model" in refused.value.line()


def test_the_source_is_found_beside_a_build_and_beside_a_link_to_one(build, tmp_path):
    folder = build()
    assert Reference(folder).source() is None
    link = tmp_path / "tree" / ".reference" / "haswell"
    link.parent.mkdir(parents=True)
    link.symlink_to(folder)
    (link.parent / SOURCE).mkdir(parents=True)
    assert Reference(link).source() == link.parent / SOURCE
    (folder.parent / SOURCE).mkdir(parents=True)
    assert Reference(folder).source() == folder.parent / SOURCE
