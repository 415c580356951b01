"""`specdec acceptance replay | vocabulary | bank`: acceptance measured on the user's own logs and files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from roofline.errors import InvalidInput
from scenarios.cli.acceptance_lab import lab_command, train_head_command

if TYPE_CHECKING:
    from scenarios.imports.token_logs import Encoder
    from scenarios.questions.replay import ReplayReport
    from simulator.matchers import NgramMatcher, SuffixMatcher

FILE = click.Path(path_type=Path, dir_okay=False)
_NGRAM_ONLY = ("lookup_min", "lookup_max")
_SUFFIX_ONLY = ("max_depth", "max_spec_factor", "min_token_prob", "cached_requests", "cached_tokens")


@click.group(commands={"lab": lab_command, "train-head": train_head_command})
def command() -> None:
    """Measure acceptance: on real text, on token logs, on banks of rounds; compare vocabularies."""


@command.command("replay")
@click.option("--log", "log_file", type=FILE, required=True, help="Prompts and responses, one JSON object a line.")
@click.option("--proposer", type=click.Choice(["suffix", "ngram"]), required=True, help="What proposes.")
@click.option("--draft-tokens", "-k", type=int, help="K, at most so many drafts a round. Default: 8 (ngram 4).")
@click.option("--tokenizer", type=FILE, help="tokenizer.json of the target, for logs of text.")
@click.option("--bytes", "as_bytes", is_flag=True, help="Take each byte of text as a token.")
@click.option("--lookup-min", type=int, help="ngram: prompt_lookup_min. Default: 5, or --lookup-max.")
@click.option("--lookup-max", type=int, help="ngram: prompt_lookup_max. Default: 5, or --lookup-min.")
@click.option("--max-depth", type=int, help="suffix: longest match and drafts together. Default: 24.")
@click.option("--max-spec-factor", type=float, help="suffix: drafts per matched token. Default: 1.0.")
@click.option("--min-token-prob", type=float, help="suffix: a proposal ends below it. Default: 0.1.")
@click.option("--cached-requests", type=int, help="suffix: earlier responses kept. Default: 10000.")
@click.option("--cached-tokens", type=int, help="suffix: their tokens, bounds memory. Default: 2000000.")
@click.option("--json", "as_json", is_flag=True, help="Print everything counted as JSON, nothing else.")
@click.option("--fragment", type=FILE, help="Write the [speculation] and [acceptance] tables of a scenario as TOML.")
@click.option("--into", metavar="SCENARIO", help="Scenario or preset the measured tables are put into, for --out.")
@click.option("--out", type=FILE, help="Write the scenario of --into with them: `specdec decide FILE` takes it.")
def replay_command(log_file: Path, **options: Any) -> int:
    """Replay a log through a proposer: every response is what the target emitted, round by round."""
    from scenarios.imports.token_logs import TokenLog
    from scenarios.questions.replay import replay_log
    from scenarios.report.replay_text import decide_options, fragment_toml, replay_json, replay_lines

    if (options["into"] is None) != (options["out"] is None):
        raise InvalidInput("--into SCENARIO and --out FILE belong together; give both or neither")
    encoder, tokens_are = _encoder(options["tokenizer"], as_bytes=options["as_bytes"])
    log = TokenLog(_shipped(log_file), encoder=encoder)
    report = replay_log(log, _matcher(options), tokens_are=tokens_are)
    click.echo(
        replay_json(report) if options["as_json"] else "\n".join(replay_lines(report)), nl=not options["as_json"]
    )
    proposes = report.best.overall.proposing_rounds > 0
    if proposes and not options["as_json"]:
        click.echo(f"\nspecdec decide SCENARIO {decide_options(report)}")
    if options["fragment"] is not None:
        from scenarios.files import write_text_at_once

        write_text_at_once(options["fragment"], fragment_toml(report))
    if options["out"] is not None:
        _write_scenario(report, into=options["into"], out=options["out"])
    return 0


@command.command("vocabulary")
@click.option("--target", type=FILE, required=True, help="tokenizer.json of the target.")
@click.option("--draft", type=FILE, required=True, help="tokenizer.json of the draft.")
@click.option("--log", "log_file", type=FILE, help="Token ids the target emitted, to weigh the overlap with.")
@click.option("--draft-tokens", "-k", type=click.IntRange(1, 64), default=5, show_default=True, help="K.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, nothing else.")
def vocabulary_command(target: Path, draft: Path, log_file: Path | None, draft_tokens: int, as_json: bool) -> None:
    """Overlap of two vocabularies, and the acceptance that a draft restricted to it cannot exceed."""
    from scenarios.imports.token_logs import TokenLog
    from scenarios.imports.tokenizers import read_vocabulary, vocabulary_overlap
    from scenarios.questions.replay import vocabulary_ceiling
    from scenarios.report.replay_text import ceiling_json, ceiling_lines

    overlap = vocabulary_overlap(read_vocabulary(target), read_vocabulary(draft))
    log = None if log_file is None else TokenLog(_shipped(log_file))
    ceiling = vocabulary_ceiling(overlap, log, draft_tokens=draft_tokens)
    click.echo(ceiling_json(ceiling) if as_json else "\n".join(ceiling_lines(ceiling)), nl=not as_json)


@command.command("bank")
@click.argument("bank_file", metavar="FILE", type=FILE)
def bank_command(bank_file: Path) -> None:
    """Acceptance by category of a bank of rounds: `commits,category,a0,a1,…`."""
    from scenarios.imports.acceptance_banks import read_acceptance_bank
    from scenarios.report.replay_text import bank_lines

    click.echo("\n".join(bank_lines(read_acceptance_bank(bank_file))))


def _shipped(file: Path) -> Path:
    """The file itself, or the shipped log of that name."""
    from scenarios.files import TRACE_FOLDER

    shipped = TRACE_FOLDER / "streams" / file.name
    return shipped if not file.exists() and file.name == str(file) and shipped.is_file() else file


def _encoder(tokenizer: Path | None, *, as_bytes: bool) -> tuple[Encoder | None, str]:
    from scenarios.imports.tokenizers import ByteEncoder, FileEncoder

    if tokenizer is not None and as_bytes:
        raise InvalidInput("--tokenizer and --bytes are two ways to read text; keep one")
    if tokenizer is not None:
        return FileEncoder(tokenizer), f"tokens of {tokenizer.name}"
    return (ByteEncoder(), "bytes, not tokens") if as_bytes else (None, "token ids")


def _matcher(options: dict[str, Any]) -> NgramMatcher | SuffixMatcher:
    from simulator.matchers import NgramMatcher, SuffixMatcher

    ngram = options["proposer"] == "ngram"
    for name in _SUFFIX_ONLY if ngram else _NGRAM_ONLY:
        if options[name] is not None:
            flag = f"--{name.replace('_', '-')}"
            raise InvalidInput(f"{flag} means nothing to the proposer {options['proposer']!r}; leave it out")
    if ngram:
        low, high = options["lookup_min"], options["lookup_max"]
        return NgramMatcher(_or(options["draft_tokens"], 4), _or(low, _or(high, 5)), _or(high, _or(low, 5)))
    return SuffixMatcher(
        _or(options["draft_tokens"], 8),
        max_depth=_or(options["max_depth"], 24),
        max_spec_factor=_or(options["max_spec_factor"], 1.0),
        min_token_prob=_or(options["min_token_prob"], 0.1),
        max_cached_requests=_or(options["cached_requests"], 10_000),
        max_cached_tokens=_or(options["cached_tokens"], 2_000_000),
    )


def _or(given: Any, default: Any) -> Any:
    return default if given is None else given


def _write_scenario(report: ReplayReport, *, into: str, out: Path) -> None:
    """The scenario with the measured tables in place of its own, validated, as TOML."""
    import tomli_w

    from scenarios.files import read_scenario_table, scenario_from_dict, write_text_at_once
    from scenarios.report.replay_text import scenario_fragment

    table = {**read_scenario_table(into), **scenario_fragment(report)}
    scenario_from_dict(table, origin=f"scenario {into} with the measured acceptance")
    write_text_at_once(out, tomli_w.dumps(table))
    click.echo(f"written to {out}; next: specdec decide {out}", err=True)
