# SPDX-License-Identifier: MIT OR Apache-2.0
"""JSON as requests bring it and answers carry it: one reader, one writer, within limits."""
