"""All that is known of what is to be served: configuration as written, models, GPU, load, how it is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roofline.errors import SpecdecError
from scenarios.check.models import ModelFacts, model_facts
from scenarios.imports.written import Version, Written

if TYPE_CHECKING:
    from roofline.engines import EngineProfile
    from roofline.specs import Gpu, Model


@dataclass(frozen=True, slots=True)
class ServedLoad:
    """The load, as far as it is given."""

    concurrency: int | None = None
    rate_per_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None

    @property
    def context_tokens(self) -> int | None:
        """Prompt and output of one request."""
        if self.input_tokens is None and self.output_tokens is None:
            return None
        return (self.input_tokens or 0) + (self.output_tokens or 0)


@dataclass(frozen=True, slots=True)
class Measuring:
    """How the service is judged: objectives, figures (`NAME` or `NAME=VALUE`), load-generator lines."""

    slos: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Setup:
    """What rules look at. Anything may be unknown; `unknown` says what was not checked for it."""

    written: Written
    version: Version | None = None
    target: ModelFacts | None = None
    draft: ModelFacts | None = None
    gpu: Gpu | None = None
    profile: EngineProfile | None = None
    load: ServedLoad = ServedLoad()
    measuring: Measuring = Measuring()
    against: Written | None = None
    models: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def engine(self) -> str:
        """The engine's name as a reader writes it."""
        return {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM", "llamacpp": "llama.cpp"}[
            self.written.engine
        ]

    @property
    def release(self) -> Version | None:
        """The release given, or the one that the flags imply."""
        return self.version or self.written.implied_version

    def before(self, *release: int) -> bool:
        """Whether it is known to be older than a release."""
        return self.release is not None and self.release < release

    @property
    def speculates(self) -> bool:
        """Whether drafting is switched on."""
        return self.written.method is not None

    @property
    def batch(self) -> int | None:
        """The decode batch to expect: the load, cut by the cap the user set; the cap itself where no load is given."""
        cap, load = self.written.max_sequences, self.load.concurrency
        return min(cap, load) if cap is not None and load is not None else load if load is not None else cap

    def model(self, role: str) -> Model | None:
        """The computed target or draft, or None where it is not known or not computed."""
        return self.models.get(role)

    @property
    def memory_fraction(self) -> float:
        """The share of the GPU the engine plans with."""
        if self.written.memory_fraction is not None:
            return self.written.memory_fraction
        if self.written.engine == "vllm" and self.before(0, 19):
            return 0.9
        return self.profile.scheduler.memory_utilization_fraction if self.profile is not None else 0.9


def computed_models(written: Written, target: ModelFacts | None, draft: ModelFacts | None) -> dict[str, Model]:
    """Target and draft for the arithmetic; a model that is not computed is left out."""
    from roofline.hf_config import load_model, mtp_head

    found: dict[str, Model] = {}
    if target is None:
        return found
    try:
        found["target"] = load_model(target.source, quantization=_known(written.quantization))
        if written.method == "mtp" and draft is None:
            found["draft"] = mtp_head(found["target"])
        elif draft is not None and written.method == "draft_model":
            found["draft"] = load_model(
                draft.source, role="draft_model", quantization=_known(written.draft_quantization)
            )
        elif draft is not None and written.method in ("eagle", "eagle3", "mtp"):
            found["draft"] = load_model(draft.source, role="head", method=written.method, target=found["target"])
    except SpecdecError:
        # A model outside the arithmetic is still checked by everything that needs none; the report says so.
        return found
    return found


def _known(quantization: str | None) -> str | None:
    return quantization if quantization in ("fp8", "awq", "gptq", "bitsandbytes") else None


def facts(name: str | None, given: str | None) -> ModelFacts | None:
    """Facts by the config the user gave, else by the name the serve line carries."""
    return model_facts(given) if given else model_facts(name)
