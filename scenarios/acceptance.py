"""How many drafts are accepted: not given, given by the user, or a published preset with its spread."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from roofline.calibration import Label
from roofline.errors import InvalidInput
from scenarios import notation
from scenarios.imports.logits import read_logits
from scenarios.loads import kinds
from scenarios.proposing import proposer_of
from scenarios.quantization_presets import quantization_factor
from scenarios.schema import AcceptanceGiven, Scenario
from scenarios.task_presets import task_spread
from simulator.acceptance import Acceptance, IidAcceptance, LengthAcceptance, PerPositionAcceptance
from simulator.plan import expected_length as length_of_drafts
from simulator.proposers import Proposer
from simulator.proposers.base import TreeProposer
from simulator.sampling_acceptance import sampled_acceptance
from simulator.varied_acceptance import BetaSpread, ContextDecay, VariedAcceptance, with_length


@dataclass(frozen=True, slots=True)
class AcceptanceCase:
    """One acceptance to answer for: one model for all request classes, or one per class."""

    name: str
    models: tuple[Acceptance, ...]
    label: Label
    text: str
    tree: Proposer | None = None

    def length(self, draft_tokens: int) -> float:
        """Acceptance length at K, bonus included; classes weigh alike. K nodes where a `tree` is drafted."""
        if self.tree is not None:
            return float(np.mean([length_of_drafts(self.tree, model, draft_tokens) for model in self.models]))
        return float(np.mean([expected_length(model, draft_tokens) for model in self.models]))

    @property
    def known_draft_tokens(self) -> int | None:
        """The largest K this acceptance says something about; None is any."""
        if self.tree is not None:
            return None
        means = [model.mean if isinstance(model, VariedAcceptance) else model for model in self.models]
        lengths = [len(model.unconditional) for model in means if isinstance(model, PerPositionAcceptance)]
        return min(lengths, default=None)


def expected_length(model: Acceptance, draft_tokens: int) -> float:
    """AL at K: `1 + sum of the products of the conditional acceptances`."""
    return 1.0 + float(np.cumprod(model.conditional(draft_tokens)).sum())


def acceptance_cases(scenario: Scenario, draft_tokens: int) -> tuple[AcceptanceCase, ...]:
    """None, one, or the p10, median and p90 of a preset.

    Raises
    ------
    InvalidInput
        Shares are given for fewer positions than are drafted, or only some classes say how much is accepted.
    """
    proposer = proposer_of(scenario.speculation)
    if not (isinstance(proposer, TreeProposer) and proposer.width > 1):
        return _cases(scenario, draft_tokens)
    return tuple(replace(case, tree=proposer) for case in _cases(scenario, proposer.depth))


def _cases(scenario: Scenario, positions: int) -> tuple[AcceptanceCase, ...]:
    """Of `positions` drafts in a row.

    Raises
    ------
    InvalidInput
        Shares are given for fewer positions than K, or only some classes say how much is accepted.
    """
    given = scenario.acceptance
    classes = kinds(scenario.workload)
    own = [kind.acceptance for kind in classes if kind.acceptance is not None]
    if own and len(own) < len(classes) and given is None:
        missing = next(kind.name for kind in classes if kind.acceptance is None)
        raise InvalidInput(
            f"workload.classes: {missing!r} has no acceptance although others have; give it there or under [acceptance]"
        )
    if own:
        sections = [kind.acceptance or given for kind in classes]
        if any(section is not None and section.task is not None for section in sections):
            raise InvalidInput("workload.classes: a task preset cannot be given per class; give a length or alpha")
        models = tuple(_model(section, positions) for section in sections if section is not None)
        return (AcceptanceCase("given", models, "assumed", "given per request class"),)
    if given is None:
        return ()
    if given.task is not None:
        spread = task_spread(given.task, scenario.speculation.method)
        return tuple(
            AcceptanceCase(point.name, (IidAcceptance(alpha=point.alpha),), "assumed", point.text) for point in spread
        )
    label = "assumed" if given.measured_on is None and given.logits is None else "measured"
    return (AcceptanceCase("given", (_model(given, positions),), label, _text(given)),)


def _model(given: AcceptanceGiven, positions: int) -> Acceptance:
    """What the section says, with what varies around it; a given length holds after the spread."""
    spread = None
    if given.spread_concentration is not None:
        spread = BetaSpread(given.spread_concentration, given.spread_over)
    decay = ContextDecay(given.by_context) if given.by_context else None
    mean = _mean(given, positions)
    factor = given.factor
    if given.quantization_preset is not None:
        factor *= quantization_factor(given.quantization_preset)
    varied = VariedAcceptance(mean, spread, decay, given.sibling_fractions, factor)
    if varied == VariedAcceptance(mean):
        return mean
    if isinstance(mean, LengthAcceptance) and spread is not None:
        around = VariedAcceptance(mean, spread)
        return replace(varied, mean=IidAcceptance(with_length(around, mean.length, mean.at_draft_tokens)))
    return varied


def _mean(given: AcceptanceGiven, positions: int) -> Acceptance:
    if given.length is not None:
        length, at_draft_tokens = notation.acceptance_length_at(given.length)
        return LengthAcceptance(length=length, at_draft_tokens=at_draft_tokens)
    if given.alpha is not None:
        return IidAcceptance(alpha=given.alpha)
    if given.logits is not None:
        return IidAcceptance(alpha=_sampled(given, given.logits))
    shares = given.per_position or ()
    if len(shares) < positions:
        raise InvalidInput(
            f"acceptance.per_position has {len(shares)} shares, but {positions} draft positions need "
            "one each; give more shares or lower K"
        )
    return PerPositionAcceptance(unconditional=shares)


def _sampled(given: AcceptanceGiven, path: str) -> float:
    target, draft = read_logits(Path(path))
    return sampled_acceptance(target, draft, temperature=given.temperature, draft_sampling=given.draft_sampling)


def _text(given: AcceptanceGiven) -> str:
    if given.logits is not None:
        return (
            f"alpha {_sampled(given, given.logits):.3f} at every position: the logits of {Path(given.logits).name} at "
            f"temperature {given.temperature:g}, {given.draft_sampling} drafts"
        )
    how = "as given" if given.measured_on is None else f"measured on {given.measured_on}"
    if given.length is not None:
        return f"acceptance length {given.length}, {how}"
    if given.alpha is not None:
        return f"alpha {given.alpha:g} at every position, {how}"
    if given.synthetic:
        how = "the engine's synthetic acceptance"
    return (
        f"unconditional acceptance {', '.join(f'{share:g}' for share in given.per_position or ())} by position, {how}"
    )
