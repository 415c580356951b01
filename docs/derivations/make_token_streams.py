"""Makes the token logs in scenarios/data/streams: `python docs/derivations/make_token_streams.py [FOLDER]`.

Four kinds of text, cut into requests: Python code and prose of this project (its own files, Apache-2.0), JSON records
and agent sessions made here. Token ids come from a simple lexer (words, runs of blanks, single signs), numbered as
they appear; a real tokenizer's tokens are somewhat shorter. The shipped logs are what this printed once; the project's
files have changed since.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "scenarios" / "data" / "streams"
LEXER = re.compile(r"\w+| +|\n+|[^\w\s]")
CODE_FILES = ("simulator/scheduler.py", "simulator/step_loop.py", "simulator/workload.py", "roofline/memory.py")
PROSE_FILES = (
    "docs/model.md",
    "docs/decide.md",
    "docs/benchmarks.md",
    "README.md",
    "docs/decisions/0002-dependencies.md",
)
RESPONSE_TOKENS = 300
SESSIONS, TURNS = 4, 6
CITIES = ("Lisbon", "Osaka", "Quito", "Tromso", "Cairo", "Perth")
STATES = ("pending", "paid", "shipped", "returned")

ids: dict[str, int] = {}


def tokens(text: str) -> list[int]:
    """Ids of the lexer's tokens."""
    return [ids.setdefault(word, len(ids)) for word in LEXER.findall(text)]


def cut(files: tuple[str, ...], kind: str) -> list[dict]:
    """Each file as requests: what came before, and the next few hundred tokens."""
    requests = []
    for name in files:
        whole = tokens((ROOT / name).read_text(encoding="utf-8"))
        for place in range(RESPONSE_TOKENS, len(whole) - RESPONSE_TOKENS, RESPONSE_TOKENS):
            first = max(0, place - 2 * RESPONSE_TOKENS)
            response = whole[place : place + RESPONSE_TOKENS]
            requests.append({"prompt": whole[first:place], "response": response, "class": kind})
    return requests


def order(draw: np.random.Generator) -> dict:
    """One record."""
    return {
        "id": int(draw.integers(1000, 9999)),
        "customer": {"name": f"name{int(draw.integers(0, 40))}", "city": str(draw.choice(CITIES))},
        "status": str(draw.choice(STATES)),
        "items": [
            {"sku": f"sku{int(draw.integers(0, 60))}", "count": int(draw.integers(1, 5))}
            for _ in range(int(draw.integers(1, 4)))
        ],
    }


def json_requests(draw: np.random.Generator) -> list[dict]:
    """Lists of records for an instruction with an example."""
    requests = []
    for _ in range(16):
        ask = f"Return five orders as JSON like this one:\n{json.dumps(order(draw), indent=2)}\n"
        answer = json.dumps([order(draw) for _ in range(5)], indent=2)
        requests.append({"prompt": tokens(ask), "response": tokens(answer), "class": "json"})
    return requests


def agent_requests(draw: np.random.Generator) -> list[dict]:
    """Sessions that read a file, change a line of it, write it back, and run the tests, again and again."""
    requests = []
    source = (ROOT / "simulator" / "policy.py").read_text(encoding="utf-8").split("\n\n\n")
    for session in range(SESSIONS):
        context = tokens("You edit files with the tools read, write and test. Answer with one JSON call.\n")
        part = source[1 + session % (len(source) - 1)]
        for turn in range(TURNS):
            name = f"module{session}"
            lines = part.split("\n")
            place = int(draw.integers(0, len(lines)))
            lines[place] = f"{lines[place]}  # step {turn}: {draw.choice(CITIES)}"
            part = "\n".join(lines)
            call = json.dumps({"tool": "write", "arguments": {"path": f"src/{name}.py", "run": turn}})
            check = json.dumps({"tool": "test", "arguments": {"path": f"tests/{name}.py", "run": turn}})
            answer = tokens(f"I will change line {place} of {name} and run the tests.\n{call}\n{part}\n{check}\n")
            requests.append(
                {
                    "prompt": list(context),
                    "response": answer,
                    "class": "agent",
                    "session": f"s{session}",
                    "turn": turn + 1,
                }
            )
            passed = int(draw.integers(3, 9))
            context += answer + tokens(f"Result: {passed} passed, {9 - passed} failed in {name}. Continue.\n")
    return requests


def main(folder: Path) -> None:
    """Write the four logs."""
    draw = np.random.default_rng(0)
    streams = {
        "python_code": cut(CODE_FILES, "code"),
        "json_records": json_requests(draw),
        "prose": cut(PROSE_FILES, "prose"),
        "agent_log": agent_requests(draw),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, requests in streams.items():
        lines = [json.dumps(request, separators=(",", ":")) for request in requests]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
