# SPDX-License-Identifier: MIT OR Apache-2.0
"""A template ready to run."""

from __future__ import annotations

import re
import time
from typing import Any

from bankml.core.jinja import nodes
from bankml.core.jinja.errors import BreakSignal, ContinueSignal, LimitError, LocatedError
from bankml.core.jinja.lexer import normalize, tokenize
from bankml.core.jinja.parser import parse
from bankml.core.jinja.run import SMALL, Budget, Run
from bankml.core.jinja.statements import Compiler, text_of

MAX_SOURCE = 256 << 10  # bytes of a template; the longest of the reference's own are 40 KiB
MAX_TOKENS = 50_000
# What a context holds before anything is set; a template may overwrite even these.
CONSTANTS: dict[bytes, Any] = {b"true": True, b"True": True, b"false": False, b"False": False, b"none": None, b"None": None}
# Depth is counted, and counts end before the stack does: this is a net under what is counted wrongly.
_TOO_DEEP, _STACK = "depth of the template or of its values", "what fits the stack"


class Program:
    """A parsed and compiled template; immutable, so that threads may share it.

    Args:
        source: the template's bytes.
        trace: compile with traces, for the capability probes.

    Raises:
        SourceError: the source is not a template of this dialect.
        LimitError: it is too long or too deeply nested.
    """

    def __init__(self, source: bytes, trace: bool = False) -> None:
        if len(source) > MAX_SOURCE:
            raise LimitError("size of the template", f"{MAX_SOURCE} bytes")
        self.source = normalize(source)
        self.trace = trace
        # Only these two filters treat the pieces of a joined string one by one.
        self.pieces = re.search(rb"\b(?:capitalize|title)\b", self.source) is not None
        try:
            tokens = tokenize(self.source)
            if len(tokens) > MAX_TOKENS:
                raise LimitError("number of tokens in the template", f"{MAX_TOKENS}")
            statements = parse(tokens)
            self._levels = nodes.BODY_FRAMES + max((node.levels for node in statements), default=0)
            self._body = Compiler(self.source, trace).body(statements)
        except RecursionError:
            raise LimitError(_TOO_DEEP, _STACK) from None

    def run(self, variables: dict[bytes, Any], now: time.struct_time) -> bytes:
        """The text of one run on these variables, which are left as they are.

        Raises:
            LocatedError: an error of the template, with the reference's text.
            LimitError: a limit was reached.
        """
        return self.run_in({**CONSTANTS, **variables}, self.begin(now, SMALL.for_variables(variables)))

    def begin(self, now: time.struct_time, budget: Budget) -> Run:
        """A run of this template, not begun."""
        return Run(now, budget, self.trace, self.pieces)

    def run_in(self, scope: dict[bytes, Any], run: Run) -> bytes:
        """Like :meth:`run`, in a scope that keeps what the template sets."""
        out: list[Any] = []
        try:
            run.reach(self._levels)
            self._body(scope, run, out)
            return bytes(text_of(out, run))
        except (BreakSignal, ContinueSignal) as signal:
            raise LocatedError(signal.message) from None
        except RecursionError:
            raise LimitError(_TOO_DEEP, _STACK) from None
        except MemoryError:
            raise LimitError("memory of the template", "what the machine has") from None
