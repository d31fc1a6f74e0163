# SPDX-License-Identifier: MIT OR Apache-2.0
"""The GGUF container: types, header, memory map, guard, writer."""
