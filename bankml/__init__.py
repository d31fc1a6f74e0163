# SPDX-License-Identifier: MIT OR Apache-2.0
"""Verified, bit-reproducible local LLM inference."""

__version__ = "0.1.0"
