"""Whether the draft belongs to the target: vocabulary, width, window, size, number basis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

from scenarios.check import sources
from scenarios.check.finding import Finding, Reference, Topic
from scenarios.check.models import ModelFacts, rotation_in
from scenarios.check.setup import Setup
from scenarios.imports.written import HIDDEN_STATE_METHODS

PADDING_ROWS = 256
"""Tables are padded to multiples of at most 256 rows for tensor parallelism: a larger gap is another tokenizer."""
LLAMACPP_ROWS = 128
_NAMING_FLAGS = ("quantization", "served-model-name", "additional-config", "model-path", "model")


@final
@dataclass(frozen=True, slots=True)
class SameVocabulary:
    """Token ids must mean the same; tables padded differently are harmless to some engines and refused by others."""

    topic: ClassVar[Topic] = Topic("vocabulary", sources.VLLM_VOCABULARY)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop for another vocabulary, and for a padding difference where the engine compares sizes."""
        target, draft, written = setup.target, setup.draft, setup.written
        if target is None or draft is None or written.method == "mtp":
            return
        if target.vocab_size is None or draft.vocab_size is None:
            return
        gap = abs(target.vocab_size - draft.vocab_size)
        number = f"{target.vocab_size:,} and {draft.vocab_size:,} rows, {gap:,} apart"
        topic = Topic(self.topic.rule, _vocabulary_source(setup))
        if written.method in HIDDEN_STATE_METHODS:
            if gap > PADDING_ROWS:
                yield topic.stops(
                    f"{draft.name} was made for another vocabulary", number, "use the head of this target"
                )
            else:
                yield topic.passes("the head speaks the target's ids", number)
            return
        yield self._of_draft_model(setup, topic, gap, number)

    def _of_draft_model(self, setup: Setup, topic: Topic, gap: int, number: str) -> Finding:
        written = setup.written
        if written.speculative.get("use_heterogeneous_vocab"):
            return topic.warns(
                "only tokens in both vocabularies can be drafted: acceptance has a ceiling below 1",
                number,
                "measure the acceptance; a draft of the target's family has no ceiling",
            )
        if gap == 0 and not _same_family(setup.target, setup.draft):
            return topic.warns(
                "sizes agree, but the models are of different families: the same id may be another token",
                number,
                "compare the two tokenizer.json files token by token before anything is measured",
            )
        if gap == 0:
            return topic.passes("sizes agree (the tokens themselves were not compared)", number)
        if _padded(setup.target, setup.draft, gap):
            if written.engine == "vllm":
                return topic.stops(
                    "a padding difference only: harmless, but the engine refuses unequal sizes",
                    number,
                    "pad the smaller table (and vocab_size in its config) to the larger, or use_heterogeneous_vocab",
                )
            if written.engine == "llamacpp" and gap > (100 if setup.before(4500) else LLAMACPP_ROWS):
                return topic.stops("the engine allows 128 rows of difference", number, "pad the smaller table")
            return topic.passes("a padding difference: harmless to this engine", number)
        return topic.stops(
            "another vocabulary: the same id is another token",
            number,
            "use a draft of the target's family; or use_heterogeneous_vocab in vLLM, with a ceiling on acceptance"
            if written.engine == "vllm"
            else "use a draft of the target's family",
        )


@final
@dataclass(frozen=True, slots=True)
class SameWidth:
    """A head reads the target's hidden states: their width must be the one it was trained on."""

    topic: ClassVar[Topic] = Topic("width of the head", sources.VLLM_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop where target_hidden_size (or, without it, the head's own width) differs from the target's."""
        target, draft = setup.target, setup.draft
        if target is None or draft is None or setup.written.method not in HIDDEN_STATE_METHODS:
            return
        reads = draft.target_hidden_size or draft.hidden_size
        if target.hidden_size is None or reads is None:
            return
        number = f"reads {reads:,}, target gives {target.hidden_size:,}"
        if reads != target.hidden_size:
            yield self.topic.stops(f"{draft.name} was made for another target", number, "use the head of this target")
        else:
            yield self.topic.passes("the head fits the target's hidden states", number)


@final
@dataclass(frozen=True, slots=True)
class DraftWindow:
    """Beyond the draft's own context nothing useful is drafted."""

    topic: ClassVar[Topic] = Topic("draft window", sources.VLLM_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Warn where the service's contexts outgrow the draft's."""
        written = setup.written
        own = setup.draft.max_context_tokens if setup.draft is not None else None
        windows = [size for size in (written.draft_context_tokens, own) if size is not None]
        longest = setup.load.context_tokens or written.max_context_tokens
        if not setup.speculates or not windows or longest is None:
            return
        window = min(windows)
        number = f"draft {window:,}, service {longest:,} tokens"
        if window < longest and written.engine == "vllm" and written.method in ("dflash", "dspark"):
            yield Topic(self.topic.rule, sources.VLLM_SHORT_DRAFT).stops(
                "requests beyond the draft's context are drafted for all the same: reported to crash the engine",
                number,
                f"--max-model-len {window}, or a draft with the service's context",
            )
        elif window < longest:
            yield self.topic.warns(
                "the draft sees fewer tokens than requests grow to: beyond them speculation is off or mostly rejected",
                number,
                "use a draft trained for that length, or count requests beyond it as plain decoding",
            )
        else:
            yield self.topic.passes("the draft sees whole requests", number)


@final
@dataclass(frozen=True, slots=True)
class DraftSize:
    """With every draft accepted a round yields K + 1 tokens and costs 1 + K draft passes: S <= (K + 1) / (1 + K c)."""

    topic: ClassVar[Topic] = Topic("size of the draft", sources.SPECULATION_BOUND)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop where even full acceptance does not pay at batch 1; warn where it gains less than a third."""
        target, draft, k = setup.model("target"), setup.model("draft"), setup.written.draft_tokens
        if target is None or draft is None or not k or setup.written.method != "draft_model":
            return
        from roofline.counts import active_parameters

        written = setup.written
        share = active_parameters(draft) * _bits(draft) / (active_parameters(target) * _bits(target))
        share *= written.tensor / (written.draft_tensor or written.tensor)
        ceiling = (k + 1) / (1 + k * share)
        number = f"c = {share:.2f} of the target's bytes per token, S <= {ceiling:.2f} at K = {k}"
        if ceiling <= 1.05:
            yield self.topic.stops(
                "even if every draft is accepted it cannot pay", number, "use a draft of a tenth of the size"
            )
        elif ceiling < 4 / 3:
            yield self.topic.warns("little is left even if every draft is accepted", number, "use a smaller draft")
        else:
            yield self.topic.passes("the draft is small enough to pay at batch 1", number)


@final
@dataclass(frozen=True, slots=True)
class SameBasis:
    """Rotation quantisation turns the hidden states; a head trained on the unrotated ones reads noise."""

    topic: ClassVar[Topic] = Topic("basis of the hidden states", sources.ASCEND_ROTATION)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Warn for a rotated target under a drafter of hidden states that is not the checkpoint's own."""
        written, target = setup.written, setup.target
        if written.method not in HIDDEN_STATE_METHODS:
            return
        given = {name: value for name, value in written.flags.items() if name in _NAMING_FLAGS}
        texts = [written.target or "", *(f"{name} {value}" for name, value in given.items())]
        rotated = (target.rotated if target is not None else None) or rotation_in(" ".join(texts))
        fix = "use a head trained on the quantised target, or undo the rotation before it; else a draft model or ngram"
        if rotated is not None and rotation_in(written.draft or "") is not None:
            yield self.topic.passes("target and head are both of the rotated kind, by their names", rotated)
        elif rotated is not None:
            yield self.topic.warns(
                f"the target is rotated ({rotated}); {written.method} reads its hidden states: acceptance can collapse",
                "AL below 0.8 of the unquantised target's is to be expected",
                fix,
            )
        elif (written.quantization or "") == "ascend" and written.method != "mtp":
            yield self.topic.warns(
                "weights of this format are often rotated (QuaRot); a head trained on 16 bits then reads noise",
                f"--quantization {written.quantization}, {written.method}",
                f"look for a rotation in the quantisation's description; {fix}",
            )


def _padded(target: ModelFacts | None, draft: ModelFacts | None, gap: int) -> bool:
    """Close in size and of the same family: padding. Special ids differ between base and chat models of a family."""
    return gap <= PADDING_ROWS and _same_family(target, draft)


def _same_family(target: ModelFacts | None, draft: ModelFacts | None) -> bool:
    return target is not None and draft is not None and target.family == draft.family


def _bits(model: object) -> float:
    from roofline.specs import Model

    assert isinstance(model, Model)
    return model.precision.ffn.bits_per_weight


def _vocabulary_source(setup: Setup) -> Reference:
    if setup.written.engine == "llamacpp":
        return sources.LLAMACPP_VOCABULARY
    return sources.TRTLLM_SPECULATIVE if setup.written.engine == "trtllm" else sources.VLLM_VOCABULARY
