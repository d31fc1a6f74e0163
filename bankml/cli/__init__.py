# SPDX-License-Identifier: MIT OR Apache-2.0
"""One file per subcommand: parse, call core, print."""
