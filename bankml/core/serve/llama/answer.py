# SPDX-License-Identifier: MIT OR Apache-2.0
"""An answer as llama-server names it and tells its probabilities."""

from __future__ import annotations

import secrets
import string
from typing import TYPE_CHECKING, TypeVar

from bankml.core.receipts.logprobs import Entry
from bankml.core.serve.answer import Answer, Prepared
from bankml.core.serve.llama.logprobs import entries

if TYPE_CHECKING:
    from bankml.core.engine import Completion, TokenProbabilities

_LETTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase
P = TypeVar("P", bound=Prepared)


def new_id() -> str:
    """A fresh id of an answer: ``chatcmpl-`` and 32 letters and digits."""
    return "chatcmpl-" + "".join(secrets.choice(_LETTERS) for _ in range(32))


class LlamaAnswer(Answer[P]):
    """An answer with the model's name and the tokens' probabilities in llama-server's shape."""

    @property
    def model(self) -> str:
        """The model's name in answers: its path, as llama-server names a model started with ``-m``."""
        return str(self.prepared.engine.gguf.path)

    def probabilities(self, measured: list[TokenProbabilities]) -> list[Entry]:
        """The tokens' probabilities in their shape; the receipt will have their hash."""
        made = entries(measured, self.prepared.engine.tokenizer.piece, self.prepared.request.post_sampling_probs)
        self.logprobs.add(made)
        return made

    def probabilities_of_whole(self, completion: Completion) -> list[Entry]:
        """The probabilities of a whole answer, none where none were asked for."""
        measured = completion.measured_text
        return self.probabilities(measured) if measured else []
