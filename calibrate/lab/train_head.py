"""Distil a head from the target on text: its laws are the labels, so no text is right or wrong."""

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from calibrate.lab.head import Head, HeadSize
from calibrate.lab.language_model import LanguageModel
from calibrate.writing import write_bytes_at_once
from roofline.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """How a head is trained.

    Attributes
    ----------
    draft_vocab
        Ids the head can propose: the most frequent of the training text.
    unrolled
        Passes over the head's own hidden states per training step; 1 trains the first draft only.
    window_count
        Windows of text taken from the slices together.
    """

    window_tokens: int = 192
    window_count: int = 320
    batch_windows: int = 4
    epochs: int = 5
    unrolled: int = 2
    draft_vocab: int = 8192
    learning_rate: float = 2e-3
    warmup_fraction: float = 0.05
    seed: int = 0

    window_count: int = 320


NORM_RATE = 20.0
"""Learning rate of norms over that of matrices: they start at 1 and have to become as sharp as the target's."""


@dataclass(frozen=True, slots=True)
class TrainingText:
    """Windows of token ids `(windows, window_tokens)` and the target's hidden states of them."""

    tokens: torch.Tensor
    hidden: torch.Tensor


Told = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


def target_states(target: LanguageModel, tokens: torch.Tensor, *, batch_windows: int, told: Told) -> TrainingText:
    """Run the target once over all windows; later epochs reuse its hidden states."""
    parts: list[torch.Tensor] = []
    with torch.inference_mode():
        for start in range(0, len(tokens), batch_windows):
            batch = tokens[start : start + batch_windows]
            places = torch.arange(batch.shape[1]).repeat(len(batch), 1)
            cache = target.empty_cache(batch=len(batch), capacity_tokens=batch.shape[1])
            parts.append(target.forward(batch, places, cache=cache, span=batch.shape[1]))
            told("target over training text", start + len(batch), len(tokens))
    return TrainingText(tokens, torch.cat(parts).clone())


def train_from_ids(
    target: LanguageModel, windows: Sequence[Sequence[int]], plan: TrainingPlan, *, counted: Sequence[int], told: Told
) -> Head:
    """Run the target over the windows (equal lengths) and distil a head from what it says.

    Parameters
    ----------
    counted
        More text: the head can propose the ids that are most frequent here.
    """
    text = target_states(target, torch.tensor(list(windows)), batch_windows=8, told=told)
    return train_head(target, text, plan, ids=frequent_ids(torch.tensor(counted), plan.draft_vocab), told=told)


def frequent_ids(tokens: torch.Tensor, count: int) -> torch.Tensor:
    """The `count` ids seen most often, ties by id; fewer if the text has fewer."""
    ids, seen = torch.unique(tokens, return_counts=True)
    order = torch.argsort(seen, descending=True, stable=True)
    return ids[order[:count]].sort().values


def train_head(target: LanguageModel, text: TrainingText, plan: TrainingPlan, *, ids: torch.Tensor, told: Told) -> Head:
    """Minimise the cross entropy of the head's law under the target's, over `unrolled` passes."""
    torch.manual_seed(plan.seed)
    size = HeadSize.beside(target, draft_vocab=len(ids))
    head = Head(size, embedding=target.embedding.float(), ids=ids)
    teacher = target.lm_rows(ids)
    steps_per_epoch = -(-len(text.tokens) // plan.batch_windows)
    total = plan.epochs * steps_per_epoch
    head.scale_features(text.hidden[:: plan.batch_windows], target.final_norm)
    rates = (plan.learning_rate, NORM_RATE * plan.learning_rate)
    matrices, norms = ([part for part in head.parameters() if (part.dim() == 1) is alone] for alone in (False, True))
    groups = [{"params": part, "lr": rate} for part, rate in zip((matrices, norms), rates, strict=True)]
    optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.95), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=list(rates), total_steps=total, pct_start=plan.warmup_fraction, cycle_momentum=False
    )
    order = torch.Generator().manual_seed(plan.seed)
    done = 0
    for _ in range(plan.epochs):
        for chosen in torch.randperm(len(text.tokens), generator=order).split(plan.batch_windows):
            loss = _loss(head, target, text, chosen=chosen, teacher=teacher, unrolled=plan.unrolled)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            done += 1
            told(f"training the head (loss {float(loss.detach()):.2f})", done, total)
    return head.eval()


def _loss(
    head: Head,
    target: LanguageModel,
    text: TrainingText,
    *,
    chosen: torch.Tensor,
    teacher: torch.Tensor,
    unrolled: int,
) -> torch.Tensor:
    """Mean over rows and passes.

    Pass j predicts what follows token i + 1 from its embedding and a feature of place i that is j passes old.
    """
    tokens, hidden = text.tokens[chosen], text.hidden[chosen]
    with torch.no_grad(), _half():
        law = torch.softmax(torch.nn.functional.linear(target.normed(hidden), teacher).float(), dim=-1)
    features, span = hidden[:, :-1], tokens.shape[1]
    places = torch.arange(1, span).repeat(len(tokens), 1)
    losses: list[torch.Tensor] = []
    for index in range(unrolled):
        with _half():
            out = head(tokens[:, index + 1 :], places[:, index:], cache=None, span=span, features=features)
            logits = head.draft_logits(out)
        losses.append(-(law[:, index + 1 :] * torch.log_softmax(logits.float(), dim=-1)).sum(dim=-1).mean())
        features = out[:, :-1]
    return torch.stack(losses).mean()


def _half() -> torch.autocast:
    return torch.autocast("cpu", dtype=torch.bfloat16)


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
    except (SafetensorError, OSError, TypeError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read as a trained head ({error}); train it again") from error
    if size != HeadSize.beside(target, draft_vocab=size.draft_vocab):
        raise InvalidInput(f"{path} was trained for a target of another shape ({size}); train one for this target")
    head = Head(size, embedding=target.embedding.float(), ids=tensors["ids"])
    try:
        head.load_state_dict(tensors)
    except RuntimeError as error:
        raise InvalidInput(f"{path} does not hold the tensors of its own size ({error}); train it again") from error
    return head.to(target.torch_dtype).eval()
