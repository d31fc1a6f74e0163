# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tells a client that has ended its request from one that has gone: both send the same FIN.

A client on the loopback interface is a socket of this machine, so the system's own table has it: without an owner once its
program closed it.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Final

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_MAPPED: Final = "0000000000000000FFFF0000"
_LOCAL, _REMOTE, _INODE = 1, 2, 9

Address = tuple[str, int]


def has_left(client: Address, server: Address) -> bool:
    """Whether no program holds the client's end of a loopback connection; False where the system does not say."""
    ends = [(f"{prefix}{_written(client)}", f"{prefix}{_written(server)}") for prefix in ("", _MAPPED)]
    try:
        tables = [table.read_text("ascii") for table in _TABLES if table.exists()]
    except OSError:
        return False
    for table in tables:
        for line in table.splitlines()[1:]:
            fields = line.split()
            if (fields[_LOCAL], fields[_REMOTE]) in ends:
                return fields[_INODE] == "0"
    return bool(tables)


def _written(address: Address) -> str:
    """An address as the system's tables have it: 32-bit words in the machine's order, then the port."""
    host, port = address[:2]
    packed = socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return f"{''.join(f'{word:08X}' for word in words)}:{port:04X}"
