# SPDX-License-Identifier: MIT OR Apache-2.0
"""A process that compiles modules of kernels: reads their names, and writes each object file after a line with its name and size.

It ends with its input, in the middle of its work, too: when the process that asks goes, nobody waits for the rest.

Usage: python -m bankml.kernels.worker
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from queue import SimpleQueue

from bankml.kernels import native


def main() -> None:
    """Compile until no name comes any more."""
    # Ctrl+C reaches every process of a terminal; the one that asks says when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    names: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_listen, args=(names,), daemon=True).start()
    while True:
        name = names.get()
        native.module_named(name)
        code = native.compile_object(native.entries(name))
        sys.stdout.buffer.write(f"{name} {len(code)}\n".encode() + code)
        sys.stdout.buffer.flush()


def _listen(names: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        names.put(line.strip())
    os._exit(0)


if __name__ == "__main__":
    main()
