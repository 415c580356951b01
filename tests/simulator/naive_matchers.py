"""The matchers once more, slow and obvious: they search the text instead of keeping an index."""

from collections.abc import Sequence
from dataclasses import dataclass


def ngram_drafts(known: Sequence[int], *, draft_tokens: int, min_tokens: int, max_tokens: int) -> list[int]:
    """What n-gram lookup proposes after `known`."""
    for size in range(min(max_tokens, len(known)), min_tokens - 1, -1):
        suffix = known[len(known) - size :]
        for end in range(size, len(known)):
            if known[end - size : end] == suffix:
                return list(known[end : end + draft_tokens])
    return []


@dataclass(frozen=True)
class NaiveSuffixDecoding:
    """What suffix decoding proposes, from counts of occurrences found by searching."""

    draft_tokens: int
    max_depth: int
    max_spec_factor: float
    min_token_prob: float

    def drafts(self, known: Sequence[int], earlier: Sequence[Sequence[int]] | None, response: Sequence[int]):
        """After `known` (prompt and response so far), with earlier responses and this one so far, or without."""
        drafts, score = self._best(known, [known])
        if earlier is not None:
            more, better = self._best(known, [*earlier, response])
            if better > score:
                return more
        return drafts

    def _best(self, known, texts):
        best, best_score = [], 0.0
        for matched in range(1, min(len(known), self.max_depth)):
            pattern = tuple(known[len(known) - matched :])
            if not occurrences(pattern, texts):
                break
            most = min(self.draft_tokens, int(matched * self.max_spec_factor + 1e-6), self.max_depth - matched)
            drafts, score = self._walk(pattern, most, texts)
            if drafts and score >= best_score:
                best, best_score = drafts, score
        return best, best_score

    def _walk(self, pattern, most, texts):
        drafts, probability, score = [], 1.0, 0.0
        while len(drafts) < most:
            seen = occurrences(pattern, texts)
            followers = [(texts[text][end], text, end) for text, end in seen if end < len(texts[text])]
            if not followers:
                break
            counts = {token: [each for each in followers if each[0] == token] for token, _, _ in followers}
            token = max(counts, key=lambda token: (len(counts[token]), counts[token][-1][1:]))
            probability *= len(counts[token]) / len(seen)
            if probability < self.min_token_prob:
                break
            drafts.append(token)
            score += probability
            pattern = (*pattern, token)
        return drafts, score


def occurrences(pattern, texts):
    """(text, end) of every occurrence of the pattern, in order."""
    size = len(pattern)
    return [
        (index, end)
        for index, text in enumerate(texts)
        for end in range(size, len(text) + 1)
        if tuple(text[end - size : end]) == pattern
    ]


def replay_rounds(prompt, response, propose):
    """(known response tokens, drafts, accepted) of every round of teacher-forced decoding."""
    rounds, known = [], 1
    while known < len(response):
        drafts = propose([*prompt, *response[:known]], response[:known])
        accepted = 0
        while accepted < len(drafts) and response[known + accepted : known + accepted + 1] == [drafts[accepted]]:
            accepted += 1
        rounds.append((known, drafts, accepted))
        known += accepted + 1
    return rounds
