# SPDX-License-Identifier: MIT OR Apache-2.0
"""The engine: slot, prompt cache, completion loop."""
