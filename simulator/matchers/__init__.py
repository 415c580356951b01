"""N-gram lookup and suffix decoding as real matchers over token ids, replayed on logs of what a target emitted."""

from simulator.matchers.counts import ReplayCounts, RoundCounts
from simulator.matchers.ngram import NgramMatcher, NgramReplay
from simulator.matchers.suffix import SuffixMatcher, SuffixReplay
from simulator.matchers.token_batch import TokenBatch, TokenRequest, batch_of

__all__ = [
    "NgramMatcher",
    "NgramReplay",
    "ReplayCounts",
    "RoundCounts",
    "SuffixMatcher",
    "SuffixReplay",
    "TokenBatch",
    "TokenRequest",
    "batch_of",
]
