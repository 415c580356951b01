"""What all figures assume together; `specdec figures --set gpu=… --set alpha=…` changes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Field, PositiveFloat, PositiveInt, ValidationError

from roofline.errors import InvalidInput
from roofline.specs import Frozen
from scenarios import notation

HEADS = {
    "meta-llama/Llama-3.1-8B-Instruct": "SafeAILab/EAGLE3-LLaMA3.1-8B",
    "meta-llama/Llama-3.1-70B-Instruct": "SpecForge/EAGLE3-llama3-70B",
    "Qwen/Qwen3-8B": "SpecForge/EAGLE3-qwen3-8b",
    "Qwen/Qwen3-32B": "SpecForge/EAGLE3-qwen3-32b",
    "Qwen/Qwen3-30B-A3B": "SpecForge/EAGLE3-qwen3-30B-A3B",
    "Qwen/Qwen3-235B-A22B": "SpecForge/EAGLE3-qwen3-235B-A22B",
    "openai/gpt-oss-20b": "SpecForge/EAGLE3-gpt-oss-20B",
    "openai/gpt-oss-120b": "SpecForge/EAGLE3-gpt-oss-120B",
    "deepseek-ai/DeepSeek-V3": "SpecForge/EAGLE3-deepseek-v3-671b",
}
"""EAGLE-3 heads of the catalogue that were trained for a model of the catalogue."""

Share = Annotated[float, Field(gt=0.0, lt=1.0)]


class Assumptions(Frozen):
    """One set of numbers for all figures.

    `alpha` is the i.i.d. acceptance of one draft, `draft_cost_ratio` the c of the textbook formula (time of a draft
    pass over a plain step). Lengths are means of log-normal laws, the objective is on time per output token.
    """

    gpu: str = Field(default="H100-SXM", min_length=1, description="a name from `specdec list gpus`")
    model: str = Field(default="meta-llama/Llama-3.1-8B-Instruct", min_length=1, description="`specdec list models`")
    draft: str = Field(default="", description="EAGLE-3 head; empty: the catalogue's head for the model")
    tensor_parallel: PositiveInt = 1
    engine: str = Field(default="vllm", description="a name from `specdec list engines`")
    alpha: Share = 0.7
    draft_tokens: Annotated[int, Field(ge=1, le=8)] = 3
    draft_cost_ratio: Share = 0.1
    input_tokens: PositiveInt = 600
    output_tokens: Annotated[int, Field(ge=16)] = 250
    tpot_slo_s: PositiveFloat = 0.02
    moe_model: str = Field(default="Qwen/Qwen3-30B-A3B", description="the mixture of experts of figure 10")
    calibration: str = Field(default="", description="folder of `specdec calibrate`, for figure 15; empty: shipped")

    @property
    def head(self) -> str:
        """The draft head.

        Raises
        ------
        InvalidInput
            None is given and the catalogue has none for the model.
        """
        name = self.model.replace("--", "/")
        if not self.draft and name not in HEADS:
            raise InvalidInput(
                f"--set model={self.model}: the catalogue has no EAGLE-3 head for it (it has for {', '.join(HEADS)}); "
                "give one with --set draft=NAME"
            )
        return self.draft or HEADS[name]

    @property
    def context_tokens(self) -> int:
        """Context of a request half way through its answer."""
        return self.input_tokens + self.output_tokens // 2


def assumptions_from(settings: Iterable[str]) -> Assumptions:
    """From `name=value` texts; a name may come once.

    Raises
    ------
    InvalidInput
        An unknown name, or a value that is out of range.
    """
    given: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not value:
            raise InvalidInput(f"--set must be NAME=VALUE, got {setting!r}; write it like --set alpha=0.8")
        if name not in Assumptions.model_fields:
            raise InvalidInput(f"--set {name}: no such assumption; {notation.nearest(name, Assumptions.model_fields)}")
        if name in given:
            raise InvalidInput(f"--set {name} is given twice; keep one")
        given[name] = value
    try:
        return Assumptions.model_validate(given)
    except ValidationError as error:
        problem = error.errors()[0]
        rule = problem["msg"].removeprefix("Input should be ")
        raise InvalidInput(
            f"--set {problem['loc'][0]}={problem.get('input')}: must be {rule}; give such a value"
        ) from error
