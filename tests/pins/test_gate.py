# SPDX-License-Identifier: MIT OR Apache-2.0
"""verify: guard, then pin, then hash, then identity; every way to fail, in that order."""

import json
import os

import pytest

from bankml.core.gguf import guard
from bankml.core.gguf.types import STRING
from bankml.core.gguf.writer import write_gguf
from bankml.core.pins import measure, sha256_file, verify
from bankml.core.pins.record import Provenance, write_pin
from bankml.core.refusal import Refusal
from tests.pins.conftest import near


def pin(path, sha256=None):
    fork = path.with_name(f"{path.name}.FORK.json")
    write_pin(fork, path.name, path.stat().st_size, sha256 or sha256_file(path), Provenance("a test"))
    return fork


def refused(path, **options):
    with pytest.raises(Refusal) as caught:
        verify(path, **options)
    return caught.value


def test_a_pinned_file_passes(tiny):
    fork = pin(tiny)
    for verified in (verify(tiny), verify(str(tiny), str(fork))):
        assert (verified.path, verified.pinned, verified.fork) == (tiny, True, fork)
        assert verified.sha256 == sha256_file(tiny)
        assert not verified.identity.changed()
        assert verified.guard.verdict == "play"
        assert verified.as_dict() == {
            "verdict": "verified",
            "guard": "play",
            "engine": "mainline",
            "model_sha256": verified.sha256,
            "bankml": verified.as_dict()["bankml"],
            "arch": "llama",
            "name": "tiny",
            "types": {"F32": 1},
        }


def test_a_header_without_names_gives_nulls(tmp_path):
    path = tmp_path / "bare.gguf"
    write_gguf(path, [], [])
    pin(path)
    record = verify(path).as_dict()
    assert (record["arch"], record["name"], record["types"]) == (None, None, {})


def test_a_hostile_name_stays_inside_its_json_string(tmp_path):
    path = tmp_path / "hostile.gguf"
    name = 'a"b\\c\nd\x01e\x1b[2J\u2028'
    write_gguf(path, [("general.name", STRING, name)], [])
    pin(path)
    text = json.dumps(verify(path).as_dict())
    assert json.loads(text)["name"] == name
    assert text.isprintable()


def test_an_unpinned_file_is_called_unpinned(tiny):
    refusal = refused(tiny)
    assert refusal.message == "Tiny-F32.gguf has no sha256 record in FORK.json: unpinned, refused"
    assert (refusal.code, refusal.exit_code) == ("pin.unpinned", 2)
    measured = measure(tiny)
    assert (measured.pinned, measured.as_dict()["verdict"]) == (False, "unpinned")


@pytest.mark.parametrize("offset", [-1, -4000, 70])
def test_one_flipped_bit_is_found(tiny, offset):
    want = sha256_file(tiny)
    pin(tiny)
    data = bytearray(tiny.read_bytes())
    data[offset] ^= 1
    tiny.write_bytes(data)
    got = sha256_file(tiny)
    refusal = refused(tiny)
    assert refusal.exit_code == 2
    if offset < 0:
        assert refusal.message == f"Tiny-F32.gguf sha256 {got} != pinned {want}: refused"


def test_a_sha256_that_differs_in_one_digit_is_another(tiny):
    got = sha256_file(tiny)
    for want in near(got):
        pin(tiny, want)
        assert refused(tiny).message == f"Tiny-F32.gguf sha256 {got} != pinned {want}: refused"
        tiny.with_name(f"{tiny.name}.FORK.json").unlink()


def test_the_guard_speaks_before_the_pin(tmp_path):
    path = tmp_path / "junk.gguf"
    path.write_bytes(b"JUNK" + bytes(100))
    pin(path, "0" * 64)
    refusal = refused(path)
    assert refusal.message.startswith("guard refused: not a GGUF file")
    assert refusal.exit_code == 2
    assert refused(path, fork=tmp_path / "nothing").exit_code == 2


def test_a_truncated_header_is_exit_3(tiny):
    pin(tiny)
    tiny.write_bytes(tiny.read_bytes()[:60])
    refusal = refused(tiny)
    assert refusal.exit_code == 3
    assert refusal.message.startswith("guard needs ")
    assert refusal.message.endswith(" header bytes: file truncated")


def test_an_unreadable_pin_is_exit_1(tiny, tmp_path):
    for fork in (tmp_path / "nothing", tmp_path):
        refusal = refused(tiny, fork=fork)
        assert (refusal.exit_code, refusal.message[:11]) == (1, "cannot read")


def test_an_unreadable_file_is_exit_1(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    for name in ("nothing", ".", "loop", "pipe"):
        refusal = refused(tmp_path / name)
        assert (refusal.exit_code, refusal.message[:11]) == (1, "cannot read")


def test_a_link_is_pinned_by_its_own_name_and_hashed_behind_it(tiny, tmp_path):
    link = tmp_path / "alias.gguf"
    link.symlink_to(tiny)
    fork = pin(link)
    verified = verify(link)
    assert (verified.path, verified.fork) == (tiny, fork)
    tiny.touch()
    assert verified.identity.changed()


def test_a_file_swapped_between_guard_and_hash_is_refused(tiny, monkeypatch):
    pin(tiny)
    data = tiny.read_bytes()
    real = guard.judge

    def judge_and_swap(path, engine="mainline"):
        verdict = real(path, engine)
        path.unlink()
        path.write_bytes(data)
        return verdict

    monkeypatch.setattr(guard, "judge", judge_and_swap)
    refusal = refused(tiny)
    assert refusal.message == "Tiny-F32.gguf changed while it was being hashed: refused"
    assert (refusal.exit_code, refusal.status) == (2, 503)


def test_the_real_file_passes(home_with_smollm2):
    verified = verify(home_with_smollm2 / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf")
    assert verified.sha256 == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    assert verified.as_dict()["types"] == {"F32": 61, "Q4_1": 210, "Q8_0": 1}
