# SPDX-License-Identifier: MIT OR Apache-2.0
"""The one loaded model of a server: is it still the file that was verified, and if not, out with it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from bankml.core.receipts.receipt import Origin, exactness
from bankml.refusal import Refusal

if TYPE_CHECKING:
    from bankml.core.engine import Engine


class Resident:
    """Holds the engine; every answer passes :meth:`acquire` before and :meth:`check` after it.

    Attributes:
        thread: the one thread in which answers are computed and models are opened and closed, one after another.
        llama_threads: named in receipts.
    """

    def __init__(self, engine: Engine, llama_threads: int, reopen: Callable[[], Engine] | None = None) -> None:
        self._engine: Engine | None = engine
        self._guard = threading.Lock()
        self._reopen = reopen
        self._lock = asyncio.Lock()
        self.llama_threads = llama_threads
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="bankml-answers")
        self._verification = _verification(engine)

    @property
    def engine(self) -> Engine | None:
        """The loaded engine, None after its file changed."""
        return self._engine

    @property
    def verification(self) -> dict[str, Any]:
        """The newest verification of the file, with the time of its hash, and whether its answers are exact."""
        return self._verification

    async def acquire(self) -> Engine:
        """The engine over the verified file, opened and verified again when the last request found the file changed.

        Raises:
            Refusal: the file changed since it was verified (503), or it cannot be verified again (503).
        """
        async with self._lock:
            if self._engine is None:
                await self._open()
            engine = self._engine
            assert engine is not None
            self.check(engine)
            return engine

    def check(self, engine: Engine) -> None:
        """Refuse, and unload the model, when the file is no longer the one that was verified.

        Raises:
            Refusal: it changed (503), or this engine was unloaded because it had changed.
        """
        with self._guard:
            resident = engine is self._engine
            if resident and (engine.verified is None or not engine.verified.identity.changed()):
                return
            if resident:
                self._engine = None
                self.thread.submit(engine.close)
        raise Refusal(
            "serve.file-changed",
            "the model file changed after it was verified: not answered; the next request verifies it again",
            where=str(engine.gguf.path),
            status=503,
            kind="unavailable_error",
        )

    def origin(self, engine: Engine) -> Origin:
        """What a receipt says of the model."""
        verified = engine.verified
        return Origin(
            model_sha256=verified.sha256 if verified else None,
            pinned=bool(verified and verified.pinned),
            guard=verified.guard.verdict if verified else None,
            ctx=engine.n_ctx,
            llama_threads=self.llama_threads,
            cache_type=engine.model.cache.type,
            cache_ram=engine.cache_ram,
            inexact=engine.inexact,
        )

    async def _open(self) -> None:
        if self._reopen is None:
            raise Refusal("serve.unloaded", "the model is not loaded", status=503, kind="unavailable_error")
        loop = asyncio.get_running_loop()
        try:
            self._engine = await loop.run_in_executor(self.thread, self._reopen)
        except Refusal as refusal:
            refusal.status = 503
            refusal.kind = "unavailable_error"
            raise
        self._verification = _verification(self._engine)

    def close(self) -> None:
        """Wait for the running answer, then unload."""
        self.thread.shutdown(wait=True, cancel_futures=True)
        if self._engine is not None:
            self._engine.close()
            self._engine = None


def _verification(engine: Engine) -> dict[str, Any]:
    record = engine.verified.as_dict() if engine.verified else {}
    return {**record, "hashed_at": int(time.time()), **exactness(engine.inexact)}
