"""Distil a head from the target on text: its laws are the labels, so no text is right or wrong."""

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from calibrate.engine.model import KvCache
from calibrate.lab.head import Head, HeadSize
from calibrate.lab.language_model import LanguageModel
from calibrate.lab.plans import TrainingPlan
from calibrate.writing import write_bytes_at_once
from roofline.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class TrainingText:
    """What the target makes of windows of text.

    Attributes
    ----------
    first, hidden
        Its hidden states `(windows, window_tokens, hidden)` after the layers that the head shares, and after the last.
    """

    first: torch.Tensor
    hidden: torch.Tensor


HALF = torch.bfloat16
"""What training computes in; weights and the residual stream stay in fp32."""
Told = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


def target_states(
    target: LanguageModel, tokens: torch.Tensor, *, first_layers: int, batch_windows: int, told: Told
) -> TrainingText:
    """Run the target once over all windows; later epochs reuse its hidden states."""
    below = target.with_layers(range(first_layers))
    above = target.with_layers(range(first_layers, target.shape.layers))
    parts: list[tuple[torch.Tensor, torch.Tensor]] = []
    with torch.inference_mode():
        for batch in tokens.split(batch_windows):
            (rows, span) = batch.shape
            places = torch.arange(span).repeat(rows, 1)
            caches = [part.empty_cache(batch=rows, capacity_tokens=span) for part in (below, above)]
            first = below.forward(batch, places, cache=caches[0], span=span)
            parts.append((first, above.through(first, places, cache=caches[1], span=span)))
            told("target over training text", sum(len(each[0]) for each in parts), len(tokens))
    first, hidden = (torch.cat(column).clone() for column in zip(*parts, strict=True))
    return TrainingText(first, hidden)


def train_from_ids(
    target: LanguageModel, windows: Sequence[Sequence[int]], plan: TrainingPlan, *, counted: Sequence[int], told: Told
) -> Head:
    """Run the target over the windows (equal lengths) and distil a head from what it says.

    Parameters
    ----------
    counted
        More text: the head can propose the ids that are most frequent here.
    """
    first_layers = plan.first_layers(target.shape.layers)
    text = target_states(target, torch.tensor(list(windows)), first_layers=first_layers, batch_windows=8, told=told)
    head = Head(target, first_layers=first_layers, ids=frequent_ids(torch.tensor(counted), plan.draft_vocab))
    return train_head(head, target, text, plan=plan, told=told)


def frequent_ids(tokens: torch.Tensor, count: int) -> torch.Tensor:
    """The `count` ids seen most often, ties by id; fewer if the text has fewer."""
    ids, seen = torch.unique(tokens, return_counts=True)
    order = torch.argsort(seen, descending=True, stable=True)
    return ids[order[:count]].sort().values


def train_head(head: Head, target: LanguageModel, text: TrainingText, *, plan: TrainingPlan, told: Told) -> Head:
    """Minimise the cross entropy of the head's law under the target's."""
    head.scale_features(text.first)
    optimiser = torch.optim.AdamW(
        head.parameters(), lr=plan.learning_rate, betas=(0.9, 0.95), weight_decay=0.01, fused=True
    )
    total = plan.epochs * -(-len(text.hidden) // plan.batch_windows)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: plan.rate(step, total))
    order = torch.Generator().manual_seed(plan.seed)
    done = 0
    for _ in range(plan.epochs):
        for chosen in torch.randperm(len(text.hidden), generator=order).split(plan.batch_windows):
            passes = plan.unrolled if done >= (1.0 - plan.unrolled_fraction) * total else 1
            loss = _loss(head, target, text, chosen=chosen, passes=passes)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            done += 1
            told(f"training the head (loss {float(loss.detach()):.2f})", done, total)
    return head.eval()


def _loss(head: Head, target: LanguageModel, text: TrainingText, *, chosen: torch.Tensor, passes: int) -> torch.Tensor:
    """Mean over rows and passes.

    Pass j predicts what follows token i + 1 from that token and a feature of place i that is j passes old. The target's
    law is taken at temperature 1, among the ids that the head can propose.
    """
    first, hidden = text.first[chosen].float(), text.hidden[chosen]
    rows, span = hidden.shape[:2]
    with torch.no_grad(), _half():
        law = torch.softmax(torch.nn.functional.linear(target.normed(hidden), head.lm_rows).float(), dim=-1)
    features = hidden[:, :-1]
    places = torch.arange(1, span).repeat(rows, 1)
    caches: list[KvCache] = []
    losses: list[torch.Tensor] = []
    for index in range(passes):
        with _half():
            out, cache = head.unrolled_pass(
                first[:, index + 1 :], places[:, index:], features=features, span=span, before=caches, dtype=HALF
            )
            logits = head.logits(out)
        wanted = law[:, index + 1 :].flatten(0, 1)
        losses.append(torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), wanted))
        features = out[:, :-1]
        caches.append(cache)
    return torch.stack(losses).mean()


def _half() -> torch.autocast:
    return torch.autocast("cpu", dtype=HALF)


def save_head(head: Head, path: Path) -> None:
    """Weights and size as one safetensors file, written at once; the target's embedding stays out."""
    from safetensors.torch import save

    size = {name: repr(value) for name, value in head.size.as_dict().items()}
    write_bytes_at_once(path, save({name: tensor.contiguous() for name, tensor in head.state_dict().items()}, size))


def load_head(path: Path, target: LanguageModel) -> Head:
    """A trained head, in the target's format.

    Raises
    ------
    InvalidInput
        The file cannot be read, or belongs to a target of another shape.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict
        size = HeadSize(**{name: ast.literal_eval(value) for name, value in metadata.items()})
        ids = tensors["ids"]
    except (SafetensorError, OSError, TypeError, ValueError, KeyError) as error:
        raise InvalidInput(f"{path} cannot be read as a trained head ({error}); train it again") from error
    if size != HeadSize.beside(target, first_layers=size.first_layers, draft_vocab=size.draft_vocab):
        raise InvalidInput(f"{path} was trained for a target of another shape ({size}); train one for this target")
    head = Head(target, first_layers=size.first_layers, ids=ids)
    try:
        head.load_state_dict(tensors)
    except RuntimeError as error:
        raise InvalidInput(f"{path} does not hold the tensors of its own size ({error}); train it again") from error
    return head.to(target.torch_dtype).eval()
