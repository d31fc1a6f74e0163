# SPDX-License-Identifier: MIT OR Apache-2.0
"""Threads by default: no more than the quota of the process's control groups lets run at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from bankml.kernels import cpus


def process(folder: Path, groups: str, *mounts: str) -> Path:
    """A process's folder of /proc, whose hierarchies are mounted under ``folder``."""
    (folder / "cgroup").write_text(groups)
    (folder / "mountinfo").write_text("".join(f"{line.replace('HERE', str(folder))}\n" for line in mounts))
    return folder


def group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".", 1)).write_text(f"{text}\n")


V2 = "29 22 0:26 / HERE/sys rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
V1 = "32 31 0:29 {root} HERE/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct"


@pytest.mark.parametrize(
    ("limit", "found"),
    [("50000 100000", 1), ("100000 100000", 1), ("150000 100000", 2), ("400000 100000", 4), ("max 100000", None), ("bad", None)],
)
def test_version_2_rounds_up(tmp_path: Path, limit: str, found: int | None) -> None:
    group(tmp_path / "sys" / "a", cpu__max=limit)
    assert cpus.quota_cpus(process(tmp_path, "0::/a\n", V2)) == found


def test_the_least_quota_of_all_levels_counts(tmp_path: Path) -> None:
    group(tmp_path / "sys", cpu__max="900000 100000")
    group(tmp_path / "sys" / "a", cpu__max="250000 100000")
    group(tmp_path / "sys" / "a" / "b c", cpu__max="max 100000")
    assert cpus.quota_cpus(process(tmp_path, "0::/a/b c\n", V2)) == 3
    group(tmp_path / "sys" / "a" / "b c", cpu__max="200000 100000")
    assert cpus.quota_cpus(process(tmp_path, "0::/a/b c\n", V2)) == 2


@pytest.mark.parametrize(("quota", "found"), [("-1", None), ("50000", 1), ("250000", 3)])
def test_version_1(tmp_path: Path, quota: str, found: int | None) -> None:
    group(tmp_path / "cpu" / "job", cpu__cfs_quota_us=quota, cpu__cfs_period_us="100000")
    groups = "5:memory:/other\n4:cpu,cpuacct:/job\n0::/\n"
    assert cpus.quota_cpus(process(tmp_path, groups, V1.format(root="/"))) == found


def test_a_container_sees_its_group_at_the_mounts_top(tmp_path: Path) -> None:
    group(tmp_path / "cpu", cpu__cfs_quota_us="200000", cpu__cfs_period_us="100000")
    for root in ("/docker/1f2e", "/"):
        found = cpus.quota_cpus(process(tmp_path, "4:cpu:/docker/1f2e\n", V1.format(root=root)))
        assert found == 2


def test_a_path_above_the_mount_is_not_followed(tmp_path: Path) -> None:
    group(tmp_path, cpu__max="100000 100000")
    group(tmp_path / "sys")
    assert cpus.quota_cpus(process(tmp_path, "0::/../\n", V2)) is None


def test_names_with_spaces(tmp_path: Path) -> None:
    group(tmp_path / "my groups", cpu__max="100000 100000")
    assert cpus.quota_cpus(process(tmp_path, "0::/\n", V2.replace("/sys", "/my\\040groups"))) == 1


def test_without_control_groups_there_is_no_quota(tmp_path: Path) -> None:
    assert cpus.quota_cpus(tmp_path) is None
    assert cpus.quota_cpus(process(tmp_path, "", "")) is None
    assert cpus.quota_cpus(process(tmp_path, "odd\n", "also odd")) is None


def test_the_quota_bounds_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group(tmp_path / "sys", cpu__max="10000 100000")
    monkeypatch.setattr(cpus, "_PROCESS", process(tmp_path, "0::/\n", V2))
    assert cpus.available_cpus() == 1
