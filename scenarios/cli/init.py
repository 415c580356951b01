"""`specdec init`: a commented scenario to start from."""

from __future__ import annotations

from pathlib import Path

import click

TEMPLATE = '''\
# A scenario: what is served, on what, how it drafts, who asks, and what is wanted. Check it with
#   specdec decide {name}
schema_version = 1
name = "my service"

# Either paste the serve line …
serve = """
vllm serve meta-llama/Llama-3.1-8B-Instruct
  --speculative-config '{{"method": "eagle3", "num_speculative_tokens": 3}}'
"""
# … or write the tables it fills: [target], [engine], [speculation]. A key that contradicts the line is refused.

# Objectives the service is held to: ttft, tpot or latency, at a percentile, with a unit.
slo = ["tpot_p95=40ms", "ttft_p95=1s"]

[hardware]
gpu = "H100-SXM"                  # `specdec list gpus`, or the path of a TOML file with its data sheet
# tensor_parallel = 4
# calibration = "my-gpu.json"     # measured constants; default: shipped for the GPU and engine, else catalogue

[speculation]
draft = "SafeAILab/EAGLE3-LLaMA3.1-8B"   # `specdec list models`, or the path of the draft's config.json
# method = "eagle3"               # eagle, eagle3, mtp, medusa, draft_model, pard, p_eagle, dflash, dspark,
#                                 # ngram, suffix (with proposal_fraction)
# draft_tokens = 3                # K
# draft_tokens_by_batch = [[1, 16, 4], [17, 64, 2], [65, 256, 0]]   # first batch, last batch, K

# How many drafts are accepted: exactly one way. Without this table the answer is the break-even.
[acceptance]
length = "2.4@3"                  # tokens per round, bonus included, at K = 3
# alpha = 0.6                     # the same acceptance at every position
# per_position = [0.72, 0.50, 0.34]   # unconditional, as the engine's metrics print it
# logits = "logits.npz"           # of target and draft; then: temperature = 0.7, draft_sampling = "probabilistic"
# task = "chat"                   # a published preset with its spread, `specdec list presets`

[workload]
kind = "poisson"                  # poisson, gamma (with burstiness), closed (with concurrency), trace (with path)
rate_per_s = 4.0                  # the sweep goes from 0.25x to 4x of it
requests = 4000                   # per load and seed
input_tokens = {{ mean_tokens = 600, sigma = 0.8, max_tokens = 8192 }}   # log-normal; a plain number is fixed
output_tokens = {{ mean_tokens = 250, sigma = 0.7, max_tokens = 2048 }}
# prefix_hit_fraction = 0.3
# kind = "sessions"               # chats and agents: turns wait for answers, contexts grow
# turns = 8
# think_s = 10.0                  # from an answer to the next turn
# acceptance_by_turn = [           # turns that repeat the session accept more
#     {{ from_turn = 1, acceptance = {{ alpha = 0.4 }} }}, {{ from_turn = 4, acceptance = {{ alpha = 0.7 }} }}]

# [loads]
# rates_per_s = [1, 2, 4, 8]      # or factors = [0.5, 1, 2] of the workload's rate

[run]
seed = 0
seeds = 5                         # paired repetitions behind every interval
'''


@click.command()
@click.argument("file", default="specdec.toml")
@click.option("--force", is_flag=True, help="Replace the file where it exists.")
def command(file: str, force: bool) -> None:
    """Write a commented scenario to FILE (default specdec.toml)."""
    from roofline.errors import InvalidInput
    from scenarios.files import write_text_at_once

    path = Path(file)
    if path.exists() and not force:
        raise InvalidInput(f"{file} exists already; give another name, or --force to replace it")
    write_text_at_once(path, TEMPLATE.format(name=file))
    click.echo(f"written to {file}; answer it with `specdec decide {file}`")
