"""The same drafter as a chain, as the best fixed tree and as a tree that follows confidence, side by side."""

from __future__ import annotations

from dataclasses import dataclass

from scenarios.acceptance import AcceptanceCase
from scenarios.build import Service, build_service
from scenarios.drafting import Drafting, TreeShape
from scenarios.questions.advice import Advice, advise
from simulator.acceptance_table import acceptance_table
from simulator.tree import Tree, best_tree, edge_probabilities

SHAPED_METHODS = ("draft_model", "eagle", "eagle3")
MOST_NODES, MOST_DEPTH = 60, 6
"""What EAGLE-2 verifies and how deep it drafts (arXiv 2406.16858); shapes are looked for up to that."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A way to lay out the drafts of one drafter, with its best number of drafts by batch size."""

    name: str
    advice: Advice
    depth: int
    width: int


def shapes_of(service: Service, *, context_tokens: int) -> tuple[Shape, ...]:
    """Chain, fixed and dynamic tree in closed form at a steady batch; none where second choices are not known."""
    speculation = service.scenario.speculation
    case = service.middle_case if service.cases else None
    given = service.scenario.acceptance
    if case is None or given is None or not given.sibling_fractions or speculation.method not in SHAPED_METHODS:
        return ()
    width = len(given.sibling_fractions) + 1
    depth = min(MOST_DEPTH, len(given.per_position or range(MOST_DEPTH)))
    own = speculation.tree.nodes if speculation.tree is not None else None
    nodes = min(max(MOST_NODES, own or 0), width + (depth - 1) * width**2)
    fixed = TreeShape(paths=_likeliest_paths(case, nodes, depth=depth, width=width))
    dynamic = TreeShape(nodes=nodes, depth=depth, beam=width)
    most = min(service.scenario.run.max_draft_tokens, len(given.per_position or range(MOST_NODES)))
    return (
        _shape(service, "chain", None, draft_tokens=most, context_tokens=context_tokens),
        _shape(service, "fixed tree", fixed, draft_tokens=None, context_tokens=context_tokens),
        _shape(service, "dynamic tree", dynamic, draft_tokens=None, context_tokens=context_tokens),
    )


def _shape(
    service: Service, name: str, tree: TreeShape | None, *, draft_tokens: int | None, context_tokens: int
) -> Shape:
    changes = {"tree": tree, "draft_tokens": draft_tokens, "draft_tokens_by_batch": (), "control": None}
    speculation: Drafting = service.scenario.speculation.model_copy(update=changes)
    shaped = build_service(service.scenario.model_copy(update={"speculation": speculation}))
    assert shaped.on is not None
    most = shaped.draft_tokens
    case = shaped.middle_case
    advice = advise(shaped.on, case, context_tokens=context_tokens, max_draft_tokens=most)
    proposer = shaped.on.proposer
    return Shape(name, advice, depth=getattr(proposer, "depth", most), width=getattr(proposer, "width", 1))


def _likeliest_paths(case: AcceptanceCase, nodes: int, *, depth: int, width: int) -> tuple[tuple[int, ...], ...]:
    """The best fixed tree of that many nodes under the mean acceptance, as paths of ranks."""
    table = acceptance_table(case.models[:1], positions=depth, ranks=width)
    edges = edge_probabilities(table.conditional[:: table.bands].mean(axis=0))
    return _paths(best_tree(edges, nodes))


def _paths(tree: Tree) -> tuple[tuple[int, ...], ...]:
    paths: list[tuple[int, ...]] = [()]
    for parent, rank in zip(tree.parents, tree.ranks, strict=True):
        paths.append((*paths[parent], int(rank)))
    return tuple(paths[1:])
