# SPDX-License-Identifier: MIT OR Apache-2.0
"""``python -m bankml``."""

from bankml.cli.main import entry

entry()
