"""Tokenizer files (`tokenizer.json` of Hugging Face tokenizers): vocabularies, their overlap, and encoding.

A vocabulary is read from the JSON alone: BPE, WordPiece and Unigram models, entries turned into the bytes they stand
for, so that a byte-level and a SentencePiece vocabulary can be compared. Encoding text needs the optional library
`tokenizers` (docs/decisions/0010-tokenizers.md).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPECIAL = b"\0special\0"
MAX_VOCABULARY = 1 << 24


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What each token id of a tokenizer stands for, as bytes; special tokens are only equal to special tokens."""

    name: str
    pieces: dict[int, bytes]

    @property
    def vocabulary_tokens(self) -> int:
        """Ids are below this."""
        return max(self.pieces) + 1


@dataclass(frozen=True, slots=True)
class VocabularyOverlap:
    """Tokens of a target that a draft with another vocabulary can propose at all.

    `shared` is by target id, `(target ids,)`.
    """

    target_tokens: int
    draft_tokens: int
    shared: NDArray[np.bool_]

    @property
    def shared_tokens(self) -> int:
        """Number of target ids the draft has too."""
        return int(self.shared.sum())

    @property
    def target_fraction(self) -> float:
        """Share of the target's vocabulary, each entry counted alike."""
        return self.shared_tokens / self.target_tokens


class ByteEncoder:
    """Each byte of UTF-8 text is a token: no tokenizer needed, and no engine's tokens."""

    vocabulary_tokens = 256

    def encode(self, text: str) -> NDArray[np.int32]:
        """The bytes."""
        return np.frombuffer(text.encode(errors="surrogatepass"), dtype=np.uint8).astype(np.int32)


class FileEncoder:
    """The tokenizer of a `tokenizer.json`, run by the `tokenizers` library; no special tokens are added."""

    def __init__(self, path: Path) -> None:
        self.vocabulary_tokens = read_vocabulary(path).vocabulary_tokens
        try:
            library = import_module("tokenizers")
        except ImportError as error:
            raise InvalidInput(
                "text needs the library `tokenizers` to become token ids; install specdec-sim[text], log token ids, "
                "or use --bytes"
            ) from error
        try:
            self._tokenizer: Any = library.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception for what it cannot read
            raise InvalidInput(
                f"tokenizer {path}: the library `tokenizers` cannot read it ({error}); give the target's tokenizer.json"
            ) from error

    def encode(self, text: str) -> NDArray[np.int32]:
        """Ids of a text."""
        return np.array(self._tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.int32)


def read_vocabulary(path: Path) -> Vocabulary:
    """The vocabulary of a tokenizer.json.

    Raises
    ------
    InvalidInput
        The file is unreadable, no JSON, no tokenizer, or its vocabulary has ids that are not distinct whole numbers.
    """
    where = f"tokenizer {path}"
    content = _content(path, where)
    model = content.get("model")
    entries = cast("dict[str, Any]", model).get("vocab") if isinstance(model, dict) else None
    if isinstance(entries, list):  # Unigram: [piece, score] in order of ids
        rows = cast("list[Any]", entries)
        if not all(isinstance(row, list) and isinstance(next(iter(cast("list[Any]", row)), None), str) for row in rows):
            raise InvalidInput(f"{where}: model.vocab must list [piece, score] pairs; fetch the file again")
        entries = {str(row[0]): index for index, row in enumerate(rows)}
    if not isinstance(entries, dict) or not entries:
        raise InvalidInput(
            f"{where}: has no model.vocab, so it is no tokenizer of Hugging Face's tokenizers; give the tokenizer.json "
            "beside the model's config.json"
        )
    pieces: dict[int, bytes] = {}
    style = _style(content)
    for piece, token in cast("dict[str, Any]", entries).items():
        _put(pieces, token, _bytes_of(piece, style), where)
    for added in cast("list[Any]", content.get("added_tokens") or []):
        _put_added(pieces, added, style, where)
    return Vocabulary(name=path.name, pieces=pieces)


def vocabulary_overlap(target: Vocabulary, draft: Vocabulary) -> VocabularyOverlap:
    """Which tokens of the target a draft with another vocabulary has too, spelt byte for byte alike.

    A draft restricted to this intersection (token-level intersection, N. Timor et al., "Accelerating LLM Inference with
    Lossless Speculative Decoding Algorithms for Heterogeneous Vocabularies", arXiv:2502.05202) can propose no other, so
    the target's probability of the rest is lost to every draft position.
    """
    known = set(draft.pieces.values())
    shared = np.zeros(target.vocabulary_tokens, dtype=np.bool_)
    shared[[token for token, piece in target.pieces.items() if piece in known]] = True
    shared.setflags(write=False)
    return VocabularyOverlap(len(target.pieces), len(draft.pieces), shared)


def _content(path: Path, where: str) -> dict[str, Any]:
    try:
        content: object = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"{where}: cannot be read ({error.strerror}); give a readable tokenizer.json") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{where}: is not UTF-8 text; give a tokenizer.json, not a binary model") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise InvalidInput(f"{where}: is not JSON ({error}); fetch the file again") from error
    if not isinstance(content, dict):
        raise InvalidInput(f"{where}: is not a JSON object; give a tokenizer.json")
    return cast("dict[str, Any]", content)


def _put(pieces: dict[int, bytes], token: object, piece: bytes, where: str) -> None:
    if type(token) is not int or not 0 <= token < MAX_VOCABULARY:
        raise InvalidInput(
            f"{where}: ids must be whole numbers in 0..{MAX_VOCABULARY - 1}, got {token!r} for {piece[:20]!r}; fetch "
            "the file again"
        )
    if pieces.setdefault(token, piece) != piece:
        raise InvalidInput(
            f"{where}: id {token} stands for both {pieces[token][:20]!r} and {piece[:20]!r}; fetch the file again"
        )


def _put_added(pieces: dict[int, bytes], added: object, style: str, where: str) -> None:
    """Added tokens are literal text; the model's own vocabulary may hold them too."""
    entry = cast("dict[str, Any]", added) if isinstance(added, dict) else {}
    text = entry.get("content")
    if not isinstance(text, str):
        raise InvalidInput(f"{where}: an entry of added_tokens has no content; fetch the file again")
    piece = _SPECIAL + text.encode() if entry.get("special") else text.encode()
    if pieces.get(entry.get("id", -1)) == _bytes_of(text, style):
        pieces[entry["id"]] = piece
    _put(pieces, entry.get("id"), piece, where)


def _style(content: dict[str, Any]) -> str:
    """How pieces are spelt: bytes as letters (ByteLevel), ## where a word goes on (WordPiece), or ▁ for blanks."""
    if cast("dict[str, Any]", content["model"]).get("type") == "WordPiece":
        return "wordpiece"
    parts = json.dumps([content.get("pre_tokenizer"), content.get("decoder")])
    return "bytes" if '"ByteLevel"' in parts else "blanks"


def _bytes_of(piece: str, style: str) -> bytes:
    if style == "bytes":
        if all(letter in _BYTE_OF_LETTER for letter in piece):
            return bytes(_BYTE_OF_LETTER[letter] for letter in piece)
        return piece.encode(errors="surrogatepass")
    if style == "wordpiece":
        return piece[2:].encode() if piece.startswith("##") else b" " + piece.encode()
    one_byte = _BYTE_PIECE.fullmatch(piece)
    if one_byte:
        return bytes([int(one_byte[1], 16)])
    return piece.replace("▁", " ").encode(errors="surrogatepass")


def _byte_of_letter() -> dict[str, int]:
    """Byte-level vocabularies show printable bytes as themselves and the others as the letters from 256 on."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + index): byte for index, byte in enumerate(hidden)}


_BYTE_OF_LETTER = _byte_of_letter()
