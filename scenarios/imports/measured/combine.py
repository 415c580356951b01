"""Several files about one service: what they agree on, what only one tells, what they contradict each other on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from roofline.errors import InvalidInput
from scenarios.imports.measured.prometheus import is_prometheus, read_scrape, scrape_run
from scenarios.imports.measured.recognise import read_measured, read_text
from scenarios.imports.measured.vocabulary import Accepted, MeasuredRun, Note, agree

_SCALARS = (
    "model", "engine", "duration_s", "finished", "rate_per_s", "burstiness", "concurrency", "input_tokens_mean",
    "output_tokens_mean", "output_tokens_per_s", "prefix_hit_fraction",
)  # fmt: skip
_OF_A_RUN = ("duration_s", "finished")
"""Each file counts its own window: where they differ nothing is wrong, and nothing can be said of both."""


def read_files(paths: Sequence[Path], *, run: int | None = None) -> tuple[MeasuredRun, tuple[MeasuredRun, ...]]:
    """All files as one run, and each by itself. Two Prometheus dumps are the window between them, in their order.

    `run` picks one of a file that holds several, from 1.

    Raises
    ------
    InvalidInput
        A file cannot be read, or holds several runs and `run` does not pick one.
    """
    texts = [read_text(path) for path in paths]
    dumps = [(path, text) for path, text in zip(paths, texts, strict=True) if _is_dump(text)]
    if len(dumps) > 2:
        raise InvalidInput(f"{len(dumps)} Prometheus dumps were given; give one, or the two at the ends of a window")
    runs: list[MeasuredRun] = []
    if len(dumps) == 2:
        first, second = (read_scrape(text, path.name) for path, text in dumps)
        runs.append(scrape_run(second, first))
        paths = [path for path in paths if path not in [dump[0] for dump in dumps]]
    runs.extend(_one(read_measured(path), run, path) for path in paths)
    return combined(runs), tuple(runs)


def _is_dump(text: str) -> bool:
    return not text.lstrip().startswith(("{", "[")) and is_prometheus(text)


def _one(runs: Sequence[MeasuredRun], wanted: int | None, path: Path) -> MeasuredRun:
    if len(runs) == 1:
        return runs[0]
    listed = "; ".join(f"{place}: {_load_text(run)}" for place, run in enumerate(runs[:8], start=1))
    if wanted is None or not 1 <= wanted <= len(runs):
        raise InvalidInput(
            f"{path.name}: holds {len(runs)} runs ({listed}), which are not averaged; pick one with --run N"
        )
    return runs[wanted - 1]


def _load_text(run: MeasuredRun) -> str:
    if run.rate_per_s is not None:
        return f"{run.rate_per_s:g} requests/s"
    return f"{run.concurrency} in flight" if run.concurrency is not None else "no rate"


def combined(runs: Sequence[MeasuredRun]) -> MeasuredRun:
    """One run from all; a field on which they contradict each other is left out and noted."""
    if len(runs) == 1:
        return _with_host(runs[0])
    notes = [note for run in runs for note in run.notes]
    whole = runs[0]
    for name in _SCALARS:
        value, note = _scalar(runs, name)
        whole = replace(whole, **{name: value})
        notes.extend(note)
    accepted, of_acceptance = _accepted(runs)
    times, of_times = _times(runs)
    notes.extend([*of_acceptance, *of_times])
    requests = next((run.requests for run in runs if run.requests is not None), None)
    return _with_host(
        replace(
            whole,
            format=" and ".join(dict.fromkeys(run.format for run in runs)),
            source=", ".join(run.source for run in runs),
            failed=max(run.failed for run in runs),
            accepted=accepted,
            requests=requests,
            times=times,
            steps=tuple(step for run in runs for step in run.steps),
            trace=next((run.trace for run in runs if run.trace is not None), None),
            settings={key: value for run in reversed(runs) for key, value in run.settings.items()},
            notes=tuple(_still_true(notes, accepted, times)),
        )
    )


def _scalar(runs: Sequence[MeasuredRun], name: str) -> tuple[object, list[Note]]:
    told = [(run.source, value) for run in runs if (value := getattr(run, name)) is not None]
    if not told:
        return None, []
    first = told[0][1]
    for source, value in told[1:]:
        same = agree(float(first), float(value)) if isinstance(value, int | float) else first == value
        if not same and name in _OF_A_RUN:
            return None, []
        if not same:
            text = f"{name} is {_shown(first)} in {told[0][0]} and {_shown(value)} in {source}; left out"
            return None, [Note("contradicts", text)]
    return first, []


def _shown(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _accepted(runs: Sequence[MeasuredRun]) -> tuple[Accepted | None, list[Note]]:
    """The telling with the most detail; all lengths and all K must agree."""
    told = [(run.source, run.accepted) for run in runs if run.accepted is not None]
    if not told:
        return None, []
    for name in ("draft_tokens", "acceptance_length"):
        values = [(source, value) for source, one in told if (value := getattr(one, name)) is not None]
        for source, value in values[1:]:
            if not agree(values[0][1], value):
                before = f"{_shown(values[0][1])} in {values[0][0]}"
                return None, [
                    Note("contradicts", f"{name} is {before} and {_shown(value)} in {source}; acceptance left out")
                ]
    best = max(told, key=lambda pair: (len(pair[1].per_position), pair[1].draft_tokens is not None))[1]
    drafts = next((one.draft_tokens for _, one in told if one.draft_tokens is not None), None)
    return replace(best, draft_tokens=drafts), []


def _times(runs: Sequence[MeasuredRun]) -> tuple[dict[str, Mapping[str, float]], list[Note]]:
    found: dict[str, Mapping[str, float]] = {}
    notes: list[Note] = []
    for name in dict.fromkeys(name for run in runs for name in run.times):
        told = [(run.source, run.times[name]) for run in runs if run.times.get(name)]
        means = [(source, times["mean"]) for source, times in told if "mean" in times]
        other = next((pair for pair in means[1:] if not agree(means[0][1], pair[1])), None)
        if other is not None:
            first = f"{means[0][1]:.4g} s in {means[0][0]}"
            notes.append(Note("contradicts", f"mean {name} is {first} and {other[1]:.4g} s in {other[0]}; left out"))
        else:
            found[name] = told[0][1] if told else {}
    return found, notes


def _still_true(
    notes: Sequence[Note], accepted: Accepted | None, times: Mapping[str, Mapping[str, float]]
) -> list[Note]:
    """What one file lacks another may tell."""
    told = [word for word, there in (("acceptance", accepted), ("lengths, rate", times)) if there]
    return (
        [note for note in notes if not (note.kind == "missing" and note.text.startswith(tuple(told)))]
        if told
        else [*notes]
    )


def _with_host(run: MeasuredRun) -> MeasuredRun:
    """Time of a step outside the forward pass: the gap between chunks less a forward pass of that very batch."""
    itl_s = run.times.get("itl", {}).get("mean")
    if not run.steps:
        return run
    drafts = run.accepted.draft_tokens if run.accepted is not None else 0
    same = [step for step in run.steps if step.batch == run.concurrency and step.query_tokens == (drafts or 0) + 1]
    if itl_s is None or not same:
        text = "host overhead: it takes a serve run at the batch and K of a forward case to tell it"
        return replace(run, notes=(*run.notes, Note("missing", text)))
    host_s = itl_s - same[0].median_s
    if host_s < 0:
        text = f"a step takes {itl_s:.4g} s, its forward pass alone {same[0].median_s:.4g} s; host overhead left out"
        return replace(run, notes=(*run.notes, Note("contradicts", text)))
    return replace(run, settings={**run.settings, "host_s": host_s})
