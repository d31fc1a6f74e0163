# SPDX-License-Identifier: MIT OR Apache-2.0
"""What all matrix products share: the argument block, and the table of weight types."""
