# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an answer may be made of: GBNF grammars, masks over a vocabulary, JSON schemas as grammars."""

from bankml.core.home import cache_dir
from bankml.kernels import store

store.place(cache_dir())
