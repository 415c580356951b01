"""How a scenario's replica is spread over GPUs, and what engines do not run that way."""

from __future__ import annotations

from roofline.errors import InvalidInput
from roofline.specs import Model, Parallelism
from scenarios.schema import Scenario

STAGES_FROM_RELEASE = (0, 16)
"""vLLM up to 0.15 refuses any speculation over pipeline stages (vllm-project/vllm issue 14117)."""
_WITHOUT = "serve with tensor parallelism only, or without speculation"


def parallelism_of(scenario: Scenario, target: Model) -> Parallelism:
    """Sizes of the replica.

    Raises
    ------
    InvalidInput
        The engine refuses speculation over stages or ranks, the sizes do not go together, or ranks would share nothing.
    """
    hardware = scenario.hardware
    if hardware.pipeline_parallel > 1 and hardware.data_parallel > 1:
        raise InvalidInput(
            f"hardware.pipeline_parallel = {hardware.pipeline_parallel} and data_parallel = "
            f"{hardware.data_parallel} are not computed together; keep one of the two above 1"
        )
    if hardware.data_parallel > 1 and all(layer.experts is None for layer in target.layers):
        raise InvalidInput(
            f"hardware.data_parallel = {hardware.data_parallel} of {target.name}, which has no routed experts, is that "
            "many separate replicas; leave it out and give the load of one"
        )
    layers = sum(layer.count for layer in target.layers)
    if hardware.pipeline_parallel > layers:
        raise InvalidInput(
            f"hardware.pipeline_parallel must be at most the {layers} layers of {target.name}, got "
            f"{hardware.pipeline_parallel}; use fewer stages"
        )
    if scenario.speculation.method != "none":
        _check_engine(scenario)
    return Parallelism(
        tensor=hardware.tensor_parallel,
        draft_tensor=hardware.draft_tensor_parallel or hardware.tensor_parallel,
        whole_experts=hardware.expert_parallel,
        pipeline=hardware.pipeline_parallel,
        data=hardware.data_parallel,
    )


def _check_engine(scenario: Scenario) -> None:
    hardware, engine, method = scenario.hardware, scenario.engine, scenario.speculation.method
    if hardware.pipeline_parallel > 1 and engine.profile == "sglang":
        raise InvalidInput(
            f"SGLang asserts that no speculation runs over pipeline stages, got {hardware.pipeline_parallel}; "
            f"{_WITHOUT}"
        )
    if hardware.pipeline_parallel > 1 and engine.profile == "vllm":
        release = tuple(int(part) for part in (engine.version or "99.0").split(".")[:2])
        if release < STAGES_FROM_RELEASE:
            raise InvalidInput(
                f"vLLM up to 0.15 refuses speculation over pipeline stages, got {hardware.pipeline_parallel} with "
                f"{engine.version}; {_WITHOUT}"
            )
        if method == "mtp":
            raise InvalidInput(
                "vLLM refuses MTP over pipeline stages up to 0.15, and it is reported broken on later releases (49355, "
                f"57755), got {hardware.pipeline_parallel}; {_WITHOUT}"
            )
    if hardware.data_parallel > 1 and engine.profile == "sglang" and method in ("ngram", "draft_model"):
        raise InvalidInput(
            f"SGLang does not run {method} under attention data parallelism, got {hardware.data_parallel} ranks; "
            "use an EAGLE or MTP head"
        )


def parts_text(scenario: Scenario) -> str | None:
    """What is taken for granted about stages or ranks, in one sentence; None for one part."""
    hardware = scenario.hardware
    if hardware.pipeline_parallel > 1:
        return (
            f"{hardware.pipeline_parallel} pipeline stages of equal layers, requests spread evenly over as many "
            "micro-batches in flight; logits, sampling and drafting on the last stage"
        )
    if hardware.data_parallel > 1:
        return (
            f"{hardware.data_parallel} attention ranks in lockstep, requests dealt to them in turn, their caches and "
            "token budgets taken together"
        )
    return None
