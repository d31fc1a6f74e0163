# SPDX-License-Identifier: MIT OR Apache-2.0
"""One file per kind of oracle, each holding an object ``KIND``; the registry names them."""
