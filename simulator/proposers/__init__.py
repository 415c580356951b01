"""Where drafts come from, one file each."""

from simulator.proposers.base import Proposer
from simulator.proposers.cross_vocabulary import CrossVocabularyProposer
from simulator.proposers.draft_model import DraftModelProposer
from simulator.proposers.dynamic_tree import DynamicTreeProposer
from simulator.proposers.head import HeadProposer
from simulator.proposers.medusa import MedusaProposer
from simulator.proposers.mtp import MtpProposer
from simulator.proposers.ngram import NgramProposer
from simulator.proposers.none import NoProposer
from simulator.proposers.parallel import ParallelProposer
from simulator.proposers.static_tree import StaticTreeProposer
from simulator.proposers.suffix import SuffixProposer

__all__ = [
    "CrossVocabularyProposer",
    "DraftModelProposer",
    "DynamicTreeProposer",
    "HeadProposer",
    "MedusaProposer",
    "MtpProposer",
    "NgramProposer",
    "NoProposer",
    "ParallelProposer",
    "Proposer",
    "StaticTreeProposer",
    "SuffixProposer",
]
