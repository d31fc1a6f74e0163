# SPDX-License-Identifier: MIT OR Apache-2.0
"""How many processors this process may use: those of its affinity, and no more than its control groups let run at once.

Source: cgroups(7), proc_pid_mountinfo(5); cpu.max of Documentation/admin-guide/cgroup-v2.rst, cpu.cfs_quota_us of
Documentation/scheduler/sched-bwc.rst.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

_PROCESS = Path("/proc/self")


def available_cpus() -> int:
    """Processors that this process may use, at least one."""
    allowed, quota = len(os.sched_getaffinity(0)), quota_cpus(_PROCESS)
    return allowed if quota is None else min(allowed, quota)


def quota_cpus(process: Path) -> int | None:
    """The least whole number of processors that covers every quota of a process's control groups; None without a quota.

    Args:
        process: its folder in /proc.
    """
    try:
        mounts = list(_mounts((process / "mountinfo").read_text("utf-8", "surrogateescape")))
        groups = [line.split(":", 2) for line in (process / "cgroup").read_text("utf-8", "surrogateescape").splitlines()]
    except (OSError, IndexError):
        return None
    found: list[int] = []
    for _, controllers, path in (group for group in groups if len(group) == 3):
        version = 1 if "cpu" in controllers.split(",") else 2 if not controllers else 0
        for _, root, mount in (each for each in mounts if each[0] == version):
            found += filter(None, map(_quota, _levels(mount, root, path)))
    return min(found, default=None)


def _mounts(text: str) -> Iterator[tuple[int, str, Path]]:
    """Version, root within the hierarchy, and place of each mounted hierarchy that limits processors."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        where, what = before.split(" "), after.split(" ")
        if what[0] == "cgroup2" or (what[0] == "cgroup" and "cpu" in what[-1].split(",")):
            yield 2 if what[0] == "cgroup2" else 1, _plain(where[3]), Path(_plain(where[4]))


def _plain(field: str) -> str:
    """A field of mountinfo: spaces and the like are written as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda digits: chr(int(digits[1], 8)), field)


def _levels(mount: Path, root: str, path: str) -> Iterator[Path]:
    """The folder of a group and of each group above it that is visible."""
    inside = path.removeprefix(root.rstrip("/")).strip("/")
    # A container may see a hierarchy without the part above it, and its path in names of the outside.
    group = mount / inside if (mount / inside).is_dir() and ".." not in inside.split("/") else mount
    while True:
        yield group
        if group == mount:
            return
        group = group.parent


def _quota(group: Path) -> int | None:
    """Processors that the group's own quota is worth, rounded up."""
    try:
        if (group / "cpu.max").is_file():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        if quota == "max" or int(quota) <= 0 or int(period) <= 0:
            return None
        return -(-int(quota) // int(period))
    except (OSError, ValueError):
        return None
