"""How many drafts a row's round has, and whether they form a tree: the many spellings of K."""

from __future__ import annotations

import re
from dataclasses import dataclass

from roofline.errors import InvalidInput
from scenarios.drafting import TREE_METHODS
from scenarios.validate.rows import Row, is_blank, number

PAPER_TREES = {"eagle": (25, 5, 10), "eagle2": (59, 6, 10), "eagle3": (59, 8, 10), "medusa": (63, 4, 10)}
"""(nodes, depth, beam) of the authors' code where a table says nothing: EAGLE's `mc_sim_7b_63`, EAGLE-2 and -3's
`total_token` 60 (root counted), Medusa's 64-row tree."""
PAPER_CHAINS = {"draft_model": 5, "ngram": 10, "mtp": 1, "dflash": 15, "dspark": 7, "p_eagle": 7}
"""K of authors' code: assisted generation starts at 5 drafts, prompt lookup copies 10 tokens."""
SERVED_CHAINS = {"eagle": 3, "eagle3": 3, "mtp": 1, "draft_model": 5, "ngram": 5, "suffix": 24, "dspark": 7,
                 "dflash": 15, "p_eagle": 7, "pard": 8, "medusa": 4}  # fmt: skip
"""K of the engines' documentation examples where a row says nothing."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Drafts of a round: a chain of `draft_tokens`, or a tree of so many nodes in `depth` passes of `beam` rows.

    `assumed` says what was not published.
    """

    draft_tokens: int
    depth: int
    beam: int = 1
    assumed: str = ""

    @property
    def tree(self) -> bool:
        """More candidates than positions."""
        return self.beam > 1 and self.draft_tokens > self.depth


def shape_of(row: Row, *, method: str, engine: str) -> Shape:
    """The shape of a row's drafts.

    Raises
    ------
    InvalidInput
        K is written in a way that is not understood.
    """
    text = row.k.strip().lower()
    found = _shape(text, row, method=method, engine=engine)
    if found.tree and method not in TREE_METHODS:
        return Shape(found.depth, found.depth, 1, f"{method} drafts taken as a chain")
    return found


def _shape(text: str, row: Row, *, method: str, engine: str) -> Shape:
    if is_blank(text) or text in ("tree", "chain", "default"):
        return _unsaid(row, method=method, engine=engine)
    options = _options(text)
    if "steps" in options:
        return _sglang(options, text)
    if text.startswith("block"):
        return _chain(_whole(text.removeprefix("block").strip(" =:"), row) - 1)
    if text.startswith("tree") or row.tree_or_chain == "tree":
        return _tree(text, row, method=method, engine=engine)
    found = re.search(r"(?:draft[-_ ]?max|n[-_ ]?max|max|<=|≤|k\s*=|up to)\s*(\d+)", text)
    if found:
        return _chain(int(found[1]), assumed="K at its upper limit")
    drafts = _whole(re.sub(r"\s*(draft )?tokens?$", "", text), row)
    if "includes verified token" in row.notes.lower() or "root counted" in row.notes.lower():
        drafts -= 1
    return _chain(drafts)


def _options(text: str) -> dict[str, int]:
    """`steps=5,topk=3,draft_tokens=6` and `60 draft tokens (steps 7, topk 10)` as numbers."""
    found = {key: int(value) for key, value in re.findall(r"(steps|topk|draft_tokens)\s*[= ]\s*(\d+)", text)}
    nodes = re.search(r"tree\s*:?\s*(\d+)", text)
    if nodes and "draft_tokens" not in found:
        found["draft_tokens"] = int(nodes[1])
    return found


def _sglang(options: dict[str, int], text: str) -> Shape:
    """SGLang and the EAGLE code count the root among the draft tokens."""
    steps, beam = options["steps"], options.get("topk", 1)
    nodes = options.get("draft_tokens", steps + 1) - 1
    if min(steps, nodes) < 1:
        raise InvalidInput(f"k {text!r} has no drafts")
    if beam == 1:
        return _chain(min(steps, nodes))
    return Shape(nodes, min(steps, nodes), min(beam, nodes))


def _tree(text: str, row: Row, *, method: str, engine: str) -> Shape:
    first = re.search(r"\d+", text)
    drafts = _whole(first[0] if first else text, row)
    said = re.search(r"depth\s*(\d+)", row.notes.lower())
    _, usual, beam = PAPER_TREES.get(_paper_kind(row, method), (drafts, 5, 10))
    depth = min(int(said[1]) if said else usual, drafts)
    return Shape(drafts, depth, min(beam, drafts), "" if said else f"tree of depth {depth}")


def _unsaid(row: Row, *, method: str, engine: str) -> Shape:
    if engine == "paper" and row.tree_or_chain != "chain":
        kind = _paper_kind(row, method)
        if kind in PAPER_TREES:
            nodes, depth, beam = PAPER_TREES[kind]
            return Shape(nodes, depth, beam, f"tree of {nodes} nodes, as in the authors' code")
    usual = (PAPER_CHAINS if engine == "paper" else SERVED_CHAINS).get(method)
    if usual is None:
        raise InvalidInput("k is not given")
    return _chain(usual, assumed=f"K = {usual}, as documented for {method}")


def _paper_kind(row: Row, method: str) -> str:
    lowered = row.method.lower()
    second = lowered.startswith(("eagle2", "eagle-2", "hass"))
    return "eagle2" if second else method


def _chain(drafts: int, *, assumed: str = "") -> Shape:
    if drafts < 1:
        raise InvalidInput("k leaves no draft")
    return Shape(drafts, drafts, 1, assumed)


def _whole(text: str, row: Row) -> int:
    found = number(text)
    if found is None or found.value != int(found.value) or found.value < 1:
        raise InvalidInput(f"k {row.k!r} is not understood")
    return int(found.value)
