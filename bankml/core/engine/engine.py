# SPDX-License-Identifier: MIT OR Apache-2.0
"""A model that answers: one slot, its prompt cache, one completion at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bankml.core.engine.completion import Completion
from bankml.core.engine.options import EngineOptions
from bankml.core.engine.prompt_cache import PromptCache, ram_limit, ram_mib
from bankml.core.engine.scheduler import Scheduler
from bankml.core.engine.slot import BATCH, Slot
from bankml.core.sampling import SamplingParams, gguf_defaults
from bankml.refusal import EXIT_OTHER, Refusal

if TYPE_CHECKING:
    from bankml.core.chat.template import ChatTemplate
    from bankml.core.constrain.trie import VocabularyTrie
    from bankml.core.engine.constrained import Constrained
    from bankml.core.gguf.reader import GgufFile
    from bankml.core.model.model import Model
    from bankml.core.pins import Verified
    from bankml.core.sampling.chain import Sampler
    from bankml.core.sampling.probabilities import Measure
    from bankml.core.tokenizer.tokenizer import Tokenizer

_PADDING = 256


def _suppressed(gguf: GgufFile) -> list[int]:
    """The tokens that the model never says. Source: llama_vocab::impl::load, src/llama-vocab.cpp."""
    tokens = gguf.kv.get("tokenizer.ggml.suppress_tokens")
    return [token for token in tokens if isinstance(token, int)] if isinstance(tokens, list) else []


def _require_unchanged(verified: Verified) -> None:
    """What was loaded must be what was hashed."""
    from bankml.core.pins.digest import changed

    if verified.identity.changed():
        raise changed(verified.path.name, "loaded")


class Engine:
    """Everything that answers from one file. Make it with :meth:`open`; end it with :meth:`close`.

    Attributes:
        gguf: the open file.
        tokenizer: its tokenizer.
        model: its weights and cells.
        n_ctx: tokens that a prompt and its answer may have together.
        defaults: what the file's ``general.sampling.*`` keys say.
        verified: the record of the gate, where there is one.
        inexact: why its answers may not be the reference's; None where they are.
        cache_ram: MiB of the host's prompt cache, 0 for none, -1 without limit.
    """

    def __init__(
        self,
        gguf: GgufFile,
        tokenizer: Tokenizer,
        model: Model,
        *,
        n_ctx: int,
        verified: Verified | None = None,
        inexact: str | None = None,
        cache_ram: int | None = None,
    ) -> None:
        self.gguf = gguf
        self.tokenizer = tokenizer
        self.model = model
        self.n_ctx = min(model.n_ctx, model.plan.n_ctx_train)
        self.defaults: dict[str, Any] = gguf_defaults(gguf.kv)
        self.verified = verified
        self.inexact = inexact
        self.eog = tokenizer.eog
        self.scheduler = Scheduler()
        self.cache_ram = ram_mib() if cache_ram is None else cache_ram
        limit = ram_limit(self.cache_ram)
        cache = PromptCache(limit, model.n_ctx) if limit is not None else None
        # The reference cuts batches by the context as it was asked for, before that is rounded up.
        self.slot = Slot(model, self.n_ctx, cache, min(n_ctx, BATCH))
        self._suppressed = _suppressed(gguf)

    @classmethod
    def open(
        cls,
        path: Path,
        options: EngineOptions | None = None,
        *,
        verified: Verified | None = None,
        progress: Callable[[str, int, int | None], None] | None = None,
    ) -> Self:
        """Open, guard and load a file.

        Raises:
            Refusal: the guard refuses the file, bankml does not play it, the context is no size, answers would not be exact, or
                the file is no longer the one that was verified.
        """
        from bankml.core.exact import require
        from bankml.core.gguf.reader import GgufFile
        from bankml.core.model.compile import compile_kernels
        from bankml.core.model.plan import plan
        from bankml.core.tokenizer.tokenizer import Tokenizer

        options = options or EngineOptions()
        if not 0 <= options.n_ctx < 1 << 31:
            found, allowed = str(options.n_ctx), "0 to 2147483647"
            raise Refusal(
                "engine.ctx", "the context is not a number of tokens", found=found, allowed=allowed, exit_code=EXIT_OTHER
            )
        gguf = GgufFile.open(path)
        try:
            built = plan(gguf)
            asked = options.n_ctx or built.n_ctx_train
            types = {name: gguf.tensors[name].type_id for name in built.matrices}
            compile_kernels([(types[name], rows) for name, (rows, _) in built.matrices.items()], options.cache_type, progress)
            from bankml.core.exact.trials import used_by

            reason = require(options.inexact, used_by(built, types, options.cache_type))
            from bankml.core.model.model import Model

            tokenizer = Tokenizer.from_gguf(gguf)
            tokenizer.require_ends()
            model = Model.load(
                gguf,
                n_ctx=-(-asked // _PADDING) * _PADDING,
                threads=options.threads,
                llama_threads=options.llama_threads,
                cache_type=options.cache_type,
                progress=progress,
            )
            if verified is not None:
                _require_unchanged(verified)
        except BaseException:
            gguf.close()
            raise
        return cls(gguf, tokenizer, model, n_ctx=asked, verified=verified, inexact=reason, cache_ram=options.cache_ram)

    @cached_property
    def template(self) -> ChatTemplate:
        """The file's chat template.

        Raises:
            Refusal: it has none that runs.
        """
        from bankml.core.chat.template import ChatTemplate

        return ChatTemplate.from_gguf(self.gguf, tokenizer=self.tokenizer)

    @cached_property
    def vocabulary(self) -> VocabularyTrie:
        """The vocabulary as grammars ask it, made when it is first asked for."""
        from bankml.core.constrain.trie import VocabularyTrie

        return VocabularyTrie.of(self.tokenizer)

    def warm(self, progress: Callable[[str, int, int | None], None] | None = None) -> None:
        """Load now what a first answer with further samplers, probabilities or a grammar would else wait for."""
        from bankml.core.model.compile import compile_optional

        compile_optional(progress)

    def check(self, prompt: Sequence[int]) -> None:
        """Refuse a prompt with unknown token ids, or one that fills the context.

        Raises:
            Refusal: ``engine.tokens`` or ``engine.context``.
        """
        self.slot.check(prompt)

    def complete(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        *,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        cache_prompt: bool = True,
        alive: Callable[[], bool] | None = None,
        grammar: str | None = None,
        prefill: bytes = b"",
        preserved: Collection[int] = (),
        n_probs: int = 0,
        post_sampling_probs: bool = False,
    ) -> Completion:
        """An answer to a prompt, made while it is iterated.

        Other completions wait for it in the order of their first step.

        Args:
            prompt: token ids.
            params: the sampler chain.
            max_tokens: the most tokens to generate; None or -1 has no limit but the context, and one is always generated.
            stop: strings that end the answer and are not part of it.
            cache_prompt: use what the slot holds already.
            alive: asked before every micro-batch and every token; False stops.
            grammar: GBNF that the answer must fit; None or an empty text does not bind it.
            prefill: the end of the prompt, over which the grammar goes before the answer.
            preserved: control tokens whose text is part of the answer.
            n_probs: how many of the most probable tokens to report with each token; 0 or less measures nothing.
            post_sampling_probs: measure after the sampler chain and not before it.

        Raises:
            Refusal: the sampler chain cannot be built or the grammar not read; and from the first step: the prompt does not fit
                the context, or has tokens that the vocabulary has not.
        """
        from bankml.core.sampling.chain import Sampler

        sampler = Sampler(params, self.model.n_vocab, self.tokenizer, self._suppressed)
        return Completion(
            self.slot,
            self.scheduler,
            self.tokenizer,
            prompt,
            self._constrained(sampler, grammar, prefill) if grammar else sampler,
            max_tokens=-1 if max_tokens is None else max_tokens,
            stop=stop,
            cache_prompt=cache_prompt,
            alive=alive,
            preserved=preserved,
            measure=self._measure(n_probs, post_sampling_probs) if n_probs > 0 else None,
        )

    def _measure(self, n_probs: int, post_sampling_probs: bool) -> Measure:
        from bankml.core.sampling.probabilities import Logprobs, SampledProbs

        return SampledProbs(n_probs) if post_sampling_probs else Logprobs(self.model.n_vocab, n_probs)

    def _constrained(self, sampler: Sampler, grammar: str, prefill: bytes) -> Constrained:
        from bankml.core.engine.constrained import Constrained, read_grammar

        return Constrained(sampler, read_grammar(grammar, self.tokenizer, self.vocabulary, prefill))

    def close(self) -> None:
        """Release weights, cells and file."""
        self.model.close()
        self.gguf.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
