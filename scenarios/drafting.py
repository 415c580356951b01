"""The sections of a scenario that say how drafts are made, who chooses K, and how many are accepted."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from roofline.errors import InvalidInput
from roofline.specs import Frozen
from scenarios import notation

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Method = Literal[
    "none", "draft_model", "eagle", "eagle3", "mtp", "medusa", "pard", "p_eagle", "dflash", "dspark", "ngram", "suffix"
]
HEAD_METHODS = ("eagle", "eagle3", "mtp", "p_eagle", "dflash", "dspark")
PARALLEL_METHODS = ("pard", "p_eagle", "dflash", "dspark")
MATCHING_METHODS = ("ngram", "suffix")
TREE_METHODS = ("draft_model", "eagle", "eagle3", "medusa")


class TreeShape(Frozen):
    """Drafts as a tree: a fixed shape (`widths` per depth or `paths` of ranks), or one that follows confidence.

    A dynamic tree keeps the `nodes` likeliest candidates of `depth` passes that grow `beam` nodes each.
    """

    widths: tuple[PositiveInt, ...] = ()
    paths: tuple[tuple[NonNegativeInt, ...], ...] = ()
    nodes: PositiveInt | None = Field(default=None, description="dynamic tree: nodes that are verified")
    depth: PositiveInt = 6
    beam: PositiveInt = 10
    least_probability: float = Field(default=0.0, ge=0.0, lt=1.0)

    @model_validator(mode="after")
    def _one_shape(self) -> TreeShape:
        given = [name for name in ("widths", "paths", "nodes") if getattr(self, name)]
        if len(given) != 1:
            raise InvalidInput(
                f"speculation.tree needs exactly one of widths, paths and nodes, got {' and '.join(given) or 'none'}; "
                "write e.g. widths = [3, 2, 1], or nodes = 60 for a dynamic tree"
            )
        return self


class ControlGiven(Frozen):
    """Who chooses K while the engine runs; `slots` as SGLang's adaptive config, batch sizes as keys."""

    kind: Literal["off_above", "throughput_optimal", "adaptive_budget", "closed_loop"]
    max_running: PositiveInt | None = Field(default=None, description="off_above: no drafts beyond so many requests")
    least_gain_fraction: float = Field(default=0.0, ge=0.0, lt=1.0, description="a new K must promise so much more")
    slots: dict[str, Any] = Field(default={}, description="closed_loop; empty: SGLang's defaults")
    switch_s: NonNegativeFloat = Field(default=0.0, description="host seconds that a change of K costs (assumed)")

    @model_validator(mode="after")
    def _complete(self) -> ControlGiven:
        if (self.kind == "off_above") != (self.max_running is not None):
            raise InvalidInput(
                "speculation.control.max_running goes with kind = 'off_above' and nothing else, got kind "
                f"{self.kind!r} and max_running {self.max_running}; give both or neither"
            )
        if self.slots and self.kind != "closed_loop":
            raise InvalidInput(f"speculation.control.slots need kind = 'closed_loop', got {self.kind!r}; remove them")
        return self


class Drafting(Frozen):
    """How drafts are made. `draft_tokens_by_batch` rows are (first batch, last batch, K), ends included."""

    method: Method = "none"
    draft: str | None = Field(default=None, description="catalogue name or config.json of the head or draft model")
    draft_tokens: PositiveInt | None = Field(default=None, description="K, drafts per sequence per round")
    draft_tokens_by_batch: tuple[tuple[PositiveInt, PositiveInt, NonNegativeInt], ...] = ()
    draft_quantization: str | None = None
    draft_vocabulary_tokens: PositiveInt | None = Field(
        default=None, description="a head's output rows that are computed (token map, FR-Spec); none: all of them"
    )
    proposal_fraction: Fraction | None = Field(
        default=None, description="n-gram and suffix: share of rounds in which a match is found"
    )
    proposal_fractions: tuple[Fraction, ...] = Field(
        default=(), description="suffix: share of rounds with at least 1, 2, … drafts"
    )
    tree: TreeShape | None = Field(default=None, description="drafts as a tree; draft_tokens counts its nodes")
    padded: bool = Field(default=True, description="false: the drafter skips rejected positions (EAGLE)")
    mtp_layers: PositiveInt = Field(default=1, description="MTP layers used in turn; K is a multiple of them")
    vocabulary_overlap_fraction: Fraction | None = Field(
        default=None, description="draft model of another tokenizer: share of the target's tokens it can write"
    )
    control: ControlGiven | None = Field(default=None, description="none: draft_tokens, or by batch")

    @model_validator(mode="after")
    def _consistent(self) -> Drafting:
        if self.method == "none":
            if self.draft or self.draft_tokens or self.draft_tokens_by_batch:
                raise InvalidInput(
                    "speculation.method is 'none' although a draft or a K is given; name the method (eagle3, "
                    "draft_model, mtp, ngram, …) or remove the other keys"
                )
            return self
        self._check_what_methods_can_do()
        if self.draft_tokens is None and self.tree is None and self.method != "mtp":
            raise InvalidInput(
                f"speculation.draft_tokens (K) is missing for method {self.method!r}; give the number of "
                "drafts, e.g. draft_tokens = 3"
            )
        if self.method in MATCHING_METHODS and self.draft is not None:
            raise InvalidInput(
                f"speculation.draft is given although method {self.method!r} runs no draft model; remove one of them"
            )
        if self.method in ("draft_model", "eagle", "eagle3", *PARALLEL_METHODS) and self.draft is None:
            raise InvalidInput(
                f"speculation.draft is missing for method {self.method!r}; give the draft's config.json with "
                "--draft-config FILE or a name from `specdec list models`"
            )
        self._check_ranges()
        return self

    def _check_what_methods_can_do(self) -> None:
        asked = {
            "tree": (self.tree is not None, TREE_METHODS),
            "padded = false": (not self.padded, ("eagle", "eagle3", "mtp")),
            "mtp_layers": (self.mtp_layers > 1, ("mtp",)),
            "vocabulary_overlap_fraction": (self.vocabulary_overlap_fraction is not None, ("draft_model",)),
            "proposal_fractions": (bool(self.proposal_fractions), ("suffix",)),
        }
        for key, (given, methods) in asked.items():
            if given and self.method not in methods:
                raise InvalidInput(
                    f"speculation.{key} does not go with method {self.method!r}; remove it, or use {', '.join(methods)}"
                )
        if self.control is not None and self.draft_tokens_by_batch:
            raise InvalidInput(
                "speculation.control and speculation.draft_tokens_by_batch both choose K; keep one of the two"
            )
        if self.control is not None and self.control.kind == "closed_loop" and self.tree is not None:
            raise InvalidInput("speculation.control 'closed_loop' adapts chains, not trees; remove speculation.tree")
        for before, after in pairwise(self.proposal_fractions):
            if after > before:
                raise InvalidInput(
                    f"speculation.proposal_fractions must not rise, got {after:g} after {before:g}; "
                    "longer matches are never more frequent"
                )

    def _check_ranges(self) -> None:
        expected = 1
        for first, last, draft_tokens in self.draft_tokens_by_batch:
            row = [first, last, draft_tokens]
            if expected == 1 and first != 1:
                raise InvalidInput(f"speculation.draft_tokens_by_batch must start at batch 1, got {row}; start it at 1")
            if first < expected or last < first:
                raise InvalidInput(
                    f"speculation.draft_tokens_by_batch rows must rise without overlap, got {row} after "
                    "batch "
                    f"{expected - 1}; write inclusive (first, last, K) rows in order"
                )
            if self.draft_tokens is not None and draft_tokens > self.draft_tokens:
                raise InvalidInput(
                    f"speculation.draft_tokens_by_batch asks K = {draft_tokens} above draft_tokens = "
                    f"{self.draft_tokens}; raise draft_tokens or lower the row"
                )
            expected = last + 1


class AcceptanceGiven(Frozen):
    """How many drafts are accepted; exactly one key. `per_position` is unconditional (as engines)."""

    length: str | None = Field(default=None, description="acceptance length, bonus included, at a K: '2.4@3'")
    alpha: Fraction | None = Field(default=None, description="i.i.d. conditional acceptance of one draft")
    per_position: tuple[Fraction, ...] | None = Field(default=None, min_length=1)
    task: str | None = Field(default=None, description="a published preset (assumed), see `specdec list presets`")
    logits: str | None = Field(
        default=None, description="path of an .npz with arrays target and draft, (positions, vocabulary) each"
    )
    temperature: NonNegativeFloat = Field(default=0.0, description="logits: sampling temperature of the service")
    draft_sampling: Literal["greedy", "probabilistic"] = Field(
        default="greedy", description="logits: the drafter takes its likeliest token, or samples at the temperature"
    )
    synthetic: bool = Field(default=False, description="per_position replays an engine's synthetic acceptance")
    measured_on: str | None = Field(
        default=None, min_length=1, description="what it was measured on, as `specdec acceptance` writes it"
    )
    spread_concentration: PositiveFloat | None = Field(
        default=None, description="acceptance varies as a Beta law, a + b of it; small: easy or hopeless"
    )
    spread_over: Literal["requests", "rounds"] = "requests"
    by_context: tuple[tuple[NonNegativeInt, Fraction], ...] = Field(
        default=(), description="(tokens, factor on the acceptance) points, linear between"
    )
    sibling_fractions: tuple[Fraction, ...] = Field(
        default=(), description="trees: chance of the 2nd, 3rd, … candidate where those before it fail"
    )
    quantization_preset: str | None = Field(default=None, description="a published loss, times factor (assumed)")
    factor: Fraction = Field(default=1.0, description="on every acceptance: a quantised target, sampling (assumed)")

    @model_validator(mode="after")
    def _exactly_one(self) -> AcceptanceGiven:
        given = [
            name for name in ("length", "alpha", "per_position", "task", "logits") if getattr(self, name) is not None
        ]
        if len(given) != 1:
            raise InvalidInput(
                f"acceptance must be given in exactly one way (length, alpha, per_position, task or logits), got "
                f"{' and '.join(given) or 'none'}; keep one"
            )
        if self.logits is None and (self.temperature > 0.0 or self.draft_sampling != "greedy"):
            asked = "temperature" if self.temperature > 0.0 else "draft_sampling"
            raise InvalidInput(
                f"acceptance.{asked} needs logits to act on, got {given[0]}, which holds at the temperature it "
                "was measured at; give logits, or remove it"
            )
        if self.measured_on is not None and (self.task is not None or self.synthetic):
            raise InvalidInput(
                "acceptance.measured_on goes with a measured length, alpha or per_position, not with a task preset or "
                "synthetic acceptance; remove one of them"
            )
        if self.length is not None:
            notation.acceptance_length_at(self.length)
        tokens = [point[0] for point in self.by_context]
        if tokens != sorted(set(tokens)):
            raise InvalidInput(f"acceptance.by_context must rise in tokens, got {tokens}; sort the points, one each")
        shares = self.per_position or ()
        for position, (before, after) in enumerate(pairwise(shares), start=2):
            if after > before:
                raise InvalidInput(
                    f"acceptance.per_position must not rise (unconditional shares), got {after:g} at "
                    "position "
                    f"{position} after {before:g}; if these are conditional, multiply them up first"
                )
        return self
