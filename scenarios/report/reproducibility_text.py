"""What `specdec simulate --reproducibility` prints."""

from __future__ import annotations

import dataclasses
import json

from scenarios.questions.reproducibility import Reproducibility
from scenarios.report import words


def reproducibility_lines(found: Reproducibility) -> list[str]:
    """Shares of requests and steps in other shapes, and what follows for their outputs."""
    arm = "with speculation" if found.arm == "on" else "plain"
    rows = [
        [change.name, words.share_text(change.requests_fraction), words.share_text(change.steps_fraction)]
        for change in found.changes
    ]
    lines = [
        f"{found.name}, {arm}, at {found.point.text}: {found.requests:,} requests in steps of {found.shapes} shapes",
        "",
        *words.grid(["run again", "requests in other shapes", "their steps"], rows, left=1),
        "",
    ]
    moved = max(change.requests_fraction for change in found.changes)
    if moved == 0.0:
        return [*lines, *words.paragraph("So", "Every request is computed in the same shapes again.")]
    text = (
        "A kernel is chosen by the shape of its batch, and another one adds in another order, so logits differ in "
        "their last bits and a close choice of token may fall differently. Speculation keeps the distribution of "
        "outputs, not their bits; token-for-token repetition needs kernels that do not depend on the batch (SGLang: "
        "--enable-deterministic-inference), or the same batches."
    )
    return [*lines, *words.paragraph("So", text)]


def reproducibility_json(found: Reproducibility) -> str:
    """The same as one JSON document."""
    return json.dumps(dataclasses.asdict(found), indent=2, allow_nan=False)
