# SPDX-License-Identifier: MIT OR Apache-2.0
"""Scripts of requests put to the reference and to bankml in the same order."""
