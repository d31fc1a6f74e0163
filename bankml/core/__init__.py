# SPDX-License-Identifier: MIT OR Apache-2.0
"""What bankml is, one room per subject."""
