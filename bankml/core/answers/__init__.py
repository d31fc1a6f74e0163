# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a model said: parsers of answers, content and reasoning, and the grammars that bind a chat.

May import: core.chat, core.constrain, core.json, refusal.
"""
