"""What is measured by default: pairs of shapes and the grid of batches, draft tokens and contexts."""

from dataclasses import dataclass

from calibrate.shapes import DecoderShape


@dataclass(frozen=True, slots=True)
class Preset:
    """A target, its draft and the grids.

    `batches` x `draft_tokens` are the end-to-end cells, never shown to the fit. `fit_batches` x `fit_queries`
    are the target passes it sees, `draft_fit_batches` those of the draft passes. `truncated_layers` adds the target
    cut to fewer layers: without a second depth, what a layer costs cannot be told from what a pass costs.
    `matrix_rows` are the rows at which the target's matrices are timed alone, on both sides of tile heights.
    """

    name: str
    target: DecoderShape
    draft: DecoderShape
    batches: tuple[int, ...]
    draft_tokens: tuple[int, ...]
    fit_batches: tuple[int, ...]
    fit_queries: tuple[int, ...]
    draft_fit_batches: tuple[int, ...]
    matrix_rows: tuple[int, ...]
    context_tokens: int
    truncated_layers: tuple[int, ...] = ()


_SMALL_TARGET = DecoderShape("small-target", 1024, 16, 16, 4, 64, 2816, 32000)
_SMALL_DRAFT = DecoderShape("small-draft", 384, 4, 6, 2, 64, 1024, 32000)
_TINY_TARGET = DecoderShape("tiny-target", 128, 2, 4, 2, 32, 256, 512)
_TINY_DRAFT = DecoderShape("tiny-draft", 64, 1, 2, 1, 32, 128, 512)
_8B_TARGET = DecoderShape("8b-target", 4096, 32, 32, 8, 128, 14336, 128256)
_8B_DRAFT = DecoderShape("8b-draft", 1024, 8, 16, 4, 64, 4096, 128256)
_70B_SHARD_TARGET = DecoderShape("70b-shard-target", 8192, 80, 16, 2, 128, 7168, 32064)
_70B_SHARD_DRAFT = DecoderShape("70b-shard-draft", 2048, 8, 16, 4, 128, 5632, 32064)

_CPU_ROWS = (1, 4, 12, 16, 17, 24, 32, 33, 40, 48, 64, 96, 128, 192, 288)
_GPU_ROWS = (1, 8, 16, 17, 32, 64, 65, 96, 128, 129, 192, 256, 257, 384, 512, 768, 1152)

PRESETS: dict[str, Preset] = {
    "small": Preset(
        name="small",
        target=_SMALL_TARGET,
        draft=_SMALL_DRAFT,
        batches=(1, 2, 4, 8, 16, 32),
        draft_tokens=(1, 2, 3, 4, 5, 6, 7, 8),
        fit_batches=(1, 4, 32),
        fit_queries=(1, 3, 9),
        draft_fit_batches=(1, 2, 4, 8, 16, 32),
        matrix_rows=_CPU_ROWS,
        context_tokens=128,
        truncated_layers=(4,),
    ),
    "tiny": Preset(
        name="tiny",
        target=_TINY_TARGET,
        draft=_TINY_DRAFT,
        batches=(1, 2, 4),
        draft_tokens=(1, 2, 4),
        fit_batches=(1, 4),
        fit_queries=(1, 3, 5),
        draft_fit_batches=(1, 2, 4),
        matrix_rows=_CPU_ROWS,
        context_tokens=64,
        truncated_layers=(1,),
    ),
    "8b": Preset(
        name="8b",
        target=_8B_TARGET,
        draft=_8B_DRAFT,
        batches=(1, 4, 16, 64, 128),
        draft_tokens=(1, 2, 3, 4, 6, 8),
        fit_batches=(1, 16, 128),
        fit_queries=(1, 3, 9),
        draft_fit_batches=(1, 16, 128),
        matrix_rows=_GPU_ROWS,
        context_tokens=1024,
        truncated_layers=(8, 16),
    ),
    "70b-shard": Preset(
        name="70b-shard",
        target=_70B_SHARD_TARGET,
        draft=_70B_SHARD_DRAFT,
        batches=(1, 4, 16, 64),
        draft_tokens=(1, 2, 3, 4, 6, 8),
        fit_batches=(1, 16, 64),
        fit_queries=(1, 3, 9),
        draft_fit_batches=(1, 16, 64),
        matrix_rows=_GPU_ROWS,
        context_tokens=1024,
        truncated_layers=(20,),
    ),
}
"""`70b-shard` is one GPU's quarter of a 70B-shaped model cut over four, without the all-reduces."""
