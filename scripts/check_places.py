# SPDX-License-Identifier: MIT OR Apache-2.0
"""No tracked file names a path of somebody's machine, or a package index other than pip's own default.

The index that pip is configured to use on this machine is looked up and must not stand in any file either.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from urllib.parse import urlsplit

from tracked import read, tracked_files

PUBLIC = {"pypi.org", "files.pythonhosted.org", "registry.npmjs.org"}
MACHINE_PATHS = re.compile(r"(?<![\w.~$}/-])/(?:root|home/\w+|Users/\w+|work|workspace|mnt/\w+)/[\w.-]+")
REGISTRIES = re.compile(
    r"\b(?:files\.pythonhosted\.org|registry\.(?:npmjs|yarnpkg)\.(?:org|com)|[\w.-]*(?:artifactory|nexus|devpi)[\w.-]*\.\w+)\b"
)


def configured_hosts() -> set[str]:
    """Host names of the indexes that pip and npm are configured with here, without the public ones."""
    said = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False).stdout
    said += " ".join(
        value for name, value in os.environ.items() if re.match(r"(?i)(pip_|npm_config_|uv_).*(url|index|registry)", name)
    )
    hosts = {urlsplit(url).hostname or "" for url in re.findall(r"https?://[^\s'\"]+", said)}
    return {host for host in hosts if host} - PUBLIC - {"localhost", "127.0.0.1"}


def main() -> int:
    """Print each line that names such a place; returns 1 when there are any."""
    here = configured_hosts()
    bad = 0
    for path in tracked_files():
        if path.name == "check_places.py":
            continue
        for number, line in enumerate((read(path) or "").splitlines(), 1):
            found = [*MACHINE_PATHS.findall(line), *REGISTRIES.findall(line), *(host for host in here if host in line)]
            for what in found:
                print(f"{path}:{number}: {what}")
                bad += 1
    print(f"machine paths and registries: {bad or 'none'} in the tracked files")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
