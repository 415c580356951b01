"""Prints what both matchers count on a small log; run with and without the JIT by `test_matchers.py`."""

import sys

import numpy as np

from simulator.matchers import NgramMatcher, NgramReplay, SuffixMatcher, SuffixReplay, TokenRequest, batch_of


def main() -> None:
    draw = np.random.default_rng(7)
    requests = [
        TokenRequest(draw.integers(0, 4, 40).astype(np.int32), draw.integers(0, 4, 50).astype(np.int32))
        for _ in range(12)
    ]
    suffix, ngram = SuffixReplay(SuffixMatcher(4, max_cached_requests=3)), NgramReplay(NgramMatcher(4, 1, 4))
    for first in (0, 5):
        batch = batch_of(requests[first : first + 7])
        suffix.feed(batch)
        ngram.feed(batch)
    for counts in (suffix.counts(), suffix.counts_with_cache(), ngram.counts()):
        assert counts is not None
        sys.stdout.write(f"{counts.overall.by_drafted_accepted.tolist()}\n")


if __name__ == "__main__":
    main()
