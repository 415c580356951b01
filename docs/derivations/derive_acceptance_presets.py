"""Derive scenarios/presets/acceptance.toml from a table of published acceptance by task.

Used are rows of chain drafters whose acceptance length and K are both given (`alpha_implied_iid`: the i.i.d. alpha
with that length at that K), confidence not low. Tasks with fewer than 3 such rows for a family, or without a
public address among their sources, get no preset.
The median, 10 % and 90 % quantiles are over rows, so sources with many rows weigh more; both counts are stated.

Usage: python docs/derivations/derive_acceptance_presets.py ACCEPTANCE_BY_TASK.csv > scenarios/presets/acceptance.toml
"""

import argparse
import csv
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

RETRIEVED = "2026-11-29"
TASKS = {
    "code": "code",
    "chat": "chat",
    "math": "math",
    "summarization": "summarisation",
    "translation": "translation",
    "qa": "qa",
    "creative/roleplay": "creative",
}
FAMILIES = {
    "chain": ("draft", "eagle", "eagle3", "mtp"),
    "parallel": ("dflash", "dflash2", "dfly", "dspark", "p-eagle"),
    "ngram": ("ngram",),
}
MIN_ROWS = 3
MAX_SOURCES_LISTED = 4
# One unnamed system swept over K only: says nothing about translation by n-grams in general.
LEFT_OUT = {("translation", "ngram")}
SOURCES = {
    "S07": ("vLLM blog: P-EAGLE", "https://vllm.ai/blog/2026-03-13-p-eagle"),
    "S10p": (
        "DSpark paper, Table 1",
        "https://github.com/deepseek-ai/DeepSpec/blob/main/DSpark_paper.pdf",
    ),
    "S16": ("SpecForge SpecBundle dashboard data", "https://github.com/sgl-project/SpecForge"),
    "S19": ("DFlash (arXiv 2602.06036)", "https://arxiv.org/abs/2602.06036"),
    "S20": ("vLLM issue 20780", "https://github.com/vllm-project/vllm/issues/20780"),
    "S22": ("vLLM pull request 16035", "https://github.com/vllm-project/vllm/pull/16035"),
    "S39": ("MoESD (arXiv 2505.19645)", "https://arxiv.org/abs/2505.19645"),
    "S41t": ("SpecDecode-Bench simulator traces", "https://github.com/SpecDecode-Bench/simulator"),
    "S41": ("Speculative decoding: performance or illusion? (arXiv 2601.11580)", "https://arxiv.org/abs/2601.11580"),
    "S46": ("SPEED-Bench (arXiv 2604.09557)", "https://arxiv.org/abs/2604.09557"),
    "S55": ("SGLang cookbook", "https://github.com/sgl-project/sgl-cookbook"),
    "S57": ("vLLM pull request 48892", "https://github.com/vllm-project/vllm/pull/48892"),
    "S62": ("GPUStack performance lab", "https://github.com/gpustack/gpustack"),
    "S65": ("llama.cpp pull request 22673", "https://github.com/ggml-org/llama.cpp/pull/22673"),
    "S78": ("TorchSpec: DFlash for Qwen3-8B", "https://github.com/lightseekorg/TorchSpec"),
    "S79": ("NVIDIA Model-Optimizer: DFlash", "https://github.com/NVIDIA/Model-Optimizer"),
    "A03": ("vLLM blog: Speculators 0.5", "https://vllm.ai/blog/2026-05-28-speculators-v050"),
    "A06": ("vLLM issue 53906", "https://github.com/vllm-project/vllm/issues/53906"),
    "A08": ("SGLang pull request 16818", "https://github.com/sgl-project/sglang/pull/16818"),
    "A12": ("Speculative decoding for Llama at scale (arXiv 2508.08192)", "https://arxiv.org/abs/2508.08192"),
    "A01b": ("AngelSlim README", "https://github.com/Tencent/AngelSlim"),
    "B01": (
        "Llama-4-Maverick EAGLE-3 speculator, model card",
        "https://huggingface.co/RedHatAI/Llama4-Maverick-17B-128E-Instruct-speculator.eagle3",
    ),
    "B02": ("LK losses for EAGLE-3 (arXiv 2602.23881)", "https://arxiv.org/abs/2602.23881"),
    "B03": ("llama.cpp pull request 24340", "https://github.com/ggml-org/llama.cpp/pull/24340"),
}
HEADER = """\
# Published acceptance by task and family of drafters. Every row is labelled "assumed": it is somebody else's traffic.
#
# alpha: the i.i.d. conditional acceptance that gives the published acceptance length at the published K (bonus
# included); median, 10 % and 90 % quantile over the rows used. `rows`, `source_count`: how many rows of how many
# sources; `sources` lists the largest with a public address, by rows.
# chain: draft models, EAGLE, EAGLE-3, MTP. parallel: DFlash, DSpark, P-EAGLE. ngram: prompt lookup; its rounds
# without a match count as rejections, so alpha already contains them: propose in every round when using it.
# Printed by docs/derivations/derive_acceptance_presets.py from 3 rows or more; json has one row and says so.
"""
JSON_CHAIN = """
[json.chain]
label = "assumed"
alpha_median = 0.85
alpha_p10 = {code_p10:.3f}
alpha_p90 = 0.93
rows = 1
source_count = 1
notes = "{notes}"
sources = [
    {{ title = "{title}", url = "{url}", retrieved = {retrieved} }},
]
"""
JSON_NOTES = (
    "one row: 0.852 for MTP at K = 3 on structured prompts, definition not stated; taken as alpha; as accepted "
    "over drafted it is 0.93, the upper end; the lower end is that of code"
)
JSON_SOURCE = ("Rapid-MLX: issue on MTP, Apple M3 Ultra", "https://github.com/raullenchai/Rapid-MLX/issues")


def main() -> None:
    """Print the presets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    groups: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
    with parser.parse_args().table.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            task = TASKS.get(row["task_category"])
            family = next((name for name, methods in FAMILIES.items() if row["method"] in methods), None)
            usable = row["tree_or_chain"] == "chain" and row["alpha_implied_iid"] and row["confidence"] != "low"
            if task and family and usable and (task, family) not in LEFT_OUT:
                groups[task, family].append((float(row["alpha_implied_iid"]), row["source_id"] or row["source"]))
    print(HEADER, end="")
    for task in TASKS.values():
        for family in FAMILIES:
            if len(groups[task, family]) >= MIN_ROWS:
                _print_preset(task, family, groups[task, family])
    code_p10 = float(np.quantile([alpha for alpha, _ in groups["code", "chain"]], 0.1))
    title, url = JSON_SOURCE
    print(JSON_CHAIN.format(code_p10=code_p10, notes=JSON_NOTES, title=title, url=url, retrieved=RETRIEVED), end="")


def _print_preset(task: str, family: str, rows: list[tuple[float, str]]) -> None:
    alphas = np.array([alpha for alpha, _ in rows])
    counts = Counter(source for _, source in rows)
    listed = [SOURCES[source] for source, _ in counts.most_common() if source in SOURCES][:MAX_SOURCES_LISTED]
    if not listed:
        return
    print(f'\n[{task}.{family}]\nlabel = "assumed"')
    for name, quantile in (("alpha_median", 0.5), ("alpha_p10", 0.1), ("alpha_p90", 0.9)):
        print(f"{name} = {np.quantile(alphas, quantile):.3f}")
    print(f"rows = {len(rows)}\nsource_count = {len(counts)}\nsources = [")
    for title, url in listed:
        print(f'    {{ title = "{title}", url = "{url}", retrieved = {RETRIEVED} }},')
    print("]")


if __name__ == "__main__":
    main()
