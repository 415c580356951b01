"""Text to token ids and back: a Hugging Face tokenizer.json, or one made from the pieces of a GGUF file."""

import json
from pathlib import Path
from typing import Any

from calibrate.lab.gguf_checkpoint import CONTROL, NORMAL, USER_DEFINED, Pieces
from roofline.errors import InvalidInput

BLANK = "\u2581"
"""What SentencePiece writes for a blank."""


def tokenizer_from_pieces(pieces: Pieces) -> Any:
    """A `tokenizers.Tokenizer` that splits as SentencePiece BPE does.

    SentencePiece merges the pair whose union has the best score; `tokenizers` wants an ordered list of merges, so every
    piece is listed with each way of cutting it into two pieces, best score first.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, normalizers
    from tokenizers.models import BPE

    ids = {piece: index for index, piece in enumerate(pieces.pieces)}
    unknown = None if pieces.unknown_id is None else pieces.pieces[pieces.unknown_id]
    tokenizer = Tokenizer(
        BPE(vocab=ids, merges=_merges(pieces, ids), unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Replace(" ", BLANK)
    tokenizer.decoder = decoders.Sequence([decoders.Replace(BLANK, " "), decoders.ByteFallback(), decoders.Fuse()])
    typed = list(zip(pieces.pieces, pieces.types, strict=True))
    tokenizer.add_special_tokens([AddedToken(piece, normalized=False) for piece, kind in typed if kind == CONTROL])
    tokenizer.add_tokens([AddedToken(piece, normalized=False) for piece, kind in typed if kind == USER_DEFINED])
    return tokenizer


def _merges(pieces: Pieces, ids: dict[str, int]) -> list[tuple[str, str]]:
    ranked = sorted(
        (-score, piece)
        for piece, score, kind in zip(pieces.pieces, pieces.scores, pieces.types, strict=True)
        if kind == NORMAL and len(piece) > 1
    )
    merges: list[tuple[str, str]] = []
    for _, piece in ranked:
        cuts = ((piece[:at], piece[at:]) for at in range(1, len(piece)))
        known = [(left, right) for left, right in cuts if left in ids and right in ids]
        merges.extend(sorted(known, key=lambda pair: (ids[pair[0]], ids[pair[1]])))
    return merges


def load_tokenizer(path: Path) -> Any:
    """A tokenizer.json.

    Raises
    ------
    InvalidInput
        The file is missing or does not parse.
    """
    from tokenizers import Tokenizer

    if not path.is_file():
        raise InvalidInput(f"{path} does not exist; a model folder needs its tokenizer.json beside config.json")
    try:
        json.loads(path.read_text(encoding="utf-8"))
        return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises bare Exception
        raise InvalidInput(f"{path} cannot be read as a tokenizer ({error}); give the file as published") from error
