# SPDX-License-Identifier: MIT OR Apache-2.0
"""The HTTP server below every dialect: connections, limits, bodies, responses, the log.

May import: core.abandon, core.json, refusal.
"""
