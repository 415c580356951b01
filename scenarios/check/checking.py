"""All rules over one setup, in the order of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scenarios.check.finding import Finding, Level, Rule
from scenarios.check.rules import (
    budget,
    caps,
    draft_length,
    drafts,
    engines,
    features,
    graphs,
    measuring,
    memory,
    named_sizes,
    parallelism,
    releases,
    schedules,
    scheduling,
    synthetic,
)
from scenarios.check.setup import Setup

RULES: tuple[Rule, ...] = (
    releases.RemovedFlags(),
    releases.KnownMethod(),
    releases.SpeculativeKeys(),
    releases.ForeignFlags(),
    features.FeatureGates(),
    parallelism.PipelineStages(),
    parallelism.DraftTensorParallel(),
    parallelism.HeadsDivide(),
    parallelism.AttentionData(),
    draft_length.DraftLength(),
    draft_length.MtpLayers(),
    draft_length.BlockSize(),
    draft_length.CountedWithRoot(),
    draft_length.SameLength(),
    schedules.BatchSchedule(),
    schedules.AdaptiveSteps(),
    engines.TrtllmTree(),
    engines.TrtllmScheduler(),
    engines.LlamacppRange(),
    engines.LlamacppDraft(),
    scheduling.AsyncScheduling(),
    scheduling.ModelRunner(),
    scheduling.SglangOverlap(),
    scheduling.MtpAndPrefixCache(),
    drafts.SameVocabulary(),
    drafts.SameWidth(),
    drafts.SameBasis(),
    drafts.DraftWindow(),
    drafts.DraftSize(),
    memory.DraftFits(),
    named_sizes.NamedWeightsFit(),
    budget.BudgetHoldsSequences(),
    budget.TokenBudget(),
    caps.RunningCap(),
    caps.ActiveSequences(),
    caps.ConcurrencyLimit(),
    graphs.CapturedGraphs(),
    graphs.EagerDrafting(),
    synthetic.RejectionMethod(),
    synthetic.SyntheticAcceptance(),
    measuring.RandomTokens(),
    measuring.ChunkGaps(),
    measuring.RateOrLength(),
    measuring.ShortOutputs(),
    measuring.TokenForToken(),
)


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Findings in the order of the rules, and what could not be checked for want of a fact."""

    findings: tuple[Finding, ...]
    unchecked: tuple[str, ...]
    speculates: bool

    def at(self, level: Level) -> tuple[Finding, ...]:
        """The findings of one level."""
        return tuple(finding for finding in self.findings if finding.level == level)

    @property
    def verdict(self) -> Level:
        """The worst level."""
        return "stop" if self.at("stop") else "warn" if self.at("warn") else "pass"


def check(setup: Setup, *, rules: Sequence[Rule] = RULES) -> CheckReport:
    """Run the rules.

    Raises
    ------
    InvalidInput
        A value that cannot be read as what it should be.
    """
    findings = [finding for rule in rules for finding in rule.findings(setup)]
    return CheckReport(tuple(findings), _unchecked(setup), setup.speculates)


def _unchecked(setup: Setup) -> tuple[str, ...]:
    if not setup.speculates:
        return ()
    missing: list[str] = []
    has_draft = setup.written.draft is not None or setup.draft is not None
    if setup.target is None:
        missing.append("MTP layers, vocabulary, memory: the target's config (--model FILE)")
    elif setup.gpu is not None and setup.model("target") is None:
        missing.append(f"memory: {setup.target.name} is outside the arithmetic")
    if has_draft and setup.draft is None:
        missing.append("vocabulary, width, window of the draft: its config (--draft-config FILE)")
    if setup.gpu is None:
        missing.append("memory and the engine's defaults: the GPU (--gpu NAME)")
    if setup.load.concurrency is None and setup.written.max_sequences is None:
        missing.append("budget, graphs, queue at your batch: the load (--concurrency N)")
    if setup.version is None:
        missing.append("rules by release: taken as current (--engine-version V)")
    return tuple(missing)
