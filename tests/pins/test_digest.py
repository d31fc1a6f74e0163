# SPDX-License-Identifier: MIT OR Apache-2.0
"""sha256_file against the standard's vectors and the system's sha256sum; files that change under it."""

import hashlib
import os
import subprocess

import pytest

from bankml.core.pins import Identity, sha256_file
from bankml.core.pins.digest import PIECE
from bankml.core.refusal import Refusal

# FIPS 180-4 and its example values.
VECTORS = [
    (b"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    (
        b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
    ),
    (b"a" * 1_000_000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
]


@pytest.mark.parametrize(("data", "digest"), VECTORS)
def test_the_vectors_of_the_standard(tmp_path, data, digest):
    path = tmp_path / "f"
    path.write_bytes(data)
    assert sha256_file(path) == digest


def test_lengths_around_blocks_and_pieces_agree_with_sha256sum(tmp_path):
    stream = hashlib.shake_128(b"bankml").digest(3 * PIECE)
    paths = []
    for size in [*range(0, 200), *range(955, 1001), 4095, 4096, 4097, 65536, 69999, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE]:
        paths.append(tmp_path / str(size))
        paths[-1].write_bytes(stream[:size])
    told = subprocess.run(["sha256sum", *map(str, paths)], capture_output=True, text=True, check=True).stdout
    assert [f"{sha256_file(path)}  {path}" for path in paths] == told.splitlines()


def test_progress_ends_at_the_size(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(bytes(40 * PIECE))
    told = []
    sha256_file(path, lambda *words: told.append(words))
    assert told[-1] == ("hash f", 40 * PIECE, 40 * PIECE)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert len(told) > 1


@pytest.mark.parametrize("change", ["append", "touch", "replace", "remove"])
def test_a_file_that_changes_meanwhile_is_refused(tmp_path, change):
    path = tmp_path / "f"
    path.write_bytes(bytes(20 * PIECE))
    done = []

    def meddle(*_):
        if done:
            return
        done.append(True)
        if change == "append":
            with path.open("ab") as file:
                file.write(b"x")
        elif change == "touch":
            os.utime(path, ns=(1, 1))
        elif change == "replace":
            other = tmp_path / "other"
            other.write_bytes(bytes(20 * PIECE))
            other.replace(path)
        else:
            path.unlink()

    with pytest.raises(Refusal, match="f changed while it was being hashed: refused") as caught:
        sha256_file(path, meddle)
    assert (caught.value.code, caught.value.exit_code, caught.value.status) == ("pin.changed", 2, 503)


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, why in [("nothing", "No such file"), (".", "is a directory"), ("pipe", "is not a regular file")]:
        with pytest.raises(Refusal, match=why) as caught:
            sha256_file(tmp_path / name)
        assert caught.value.exit_code == 1
        assert caught.value.message.startswith("cannot hash ")


def later(path):
    """Let the clock of change times pass on: what is done to the file from now on has another one."""
    before = path.stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_identity_is_device_inode_size_and_times(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"one")
    first = Identity.of(path)
    assert not first.changed()
    link = tmp_path / "link"
    link.symlink_to(path)
    assert Identity.of(link) == first
    os.utime(path, ns=(first.mtime_ns, first.mtime_ns + 1))
    assert first.changed()
    path.unlink()
    assert first.changed()
    path.write_bytes(b"one")
    link.unlink()
    path.rename(link)
    (tmp_path / "f").write_bytes(b"one")
    os.utime(path, ns=(first.mtime_ns, first.mtime_ns))
    assert Identity.of(path) != Identity.of(link)


def test_a_write_whose_time_was_put_back_is_seen(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"one")
    first = Identity.of(path)
    later(path)
    path.write_bytes(b"two")
    os.utime(path, ns=(first.mtime_ns, first.mtime_ns))
    found = path.stat()
    assert (found.st_ino, found.st_size, found.st_mtime_ns) == (first.inode, first.size, first.mtime_ns)
    assert first.changed()
