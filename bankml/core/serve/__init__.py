# SPDX-License-Identifier: MIT OR Apache-2.0
"""Answers over HTTP, whatever the dialect: the resident model, one answer on its way, the frame of a route.

May import: core.engine, core.http, core.json, core.receipts, core.sampling, refusal.
"""
