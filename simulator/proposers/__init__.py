"""Where drafts come from, one file each."""

from simulator.proposers.base import Proposer
from simulator.proposers.draft_model import DraftModelProposer
from simulator.proposers.head import HeadProposer
from simulator.proposers.ngram import NgramProposer
from simulator.proposers.none import NoProposer

__all__ = ["DraftModelProposer", "HeadProposer", "NgramProposer", "NoProposer", "Proposer"]
