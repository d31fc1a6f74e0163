# SPDX-License-Identifier: MIT OR Apache-2.0
"""Samplers over candidates, and probabilities of tokens."""
