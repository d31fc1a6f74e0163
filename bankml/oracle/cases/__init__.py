# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the oracles ask; `oracle record` alone reads it, for a record holds its questions."""
