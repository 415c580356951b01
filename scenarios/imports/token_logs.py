"""Logs of prompts and responses, one JSON object a line, to batches of token ids.

`{"prompt": [1, 2], "response": [3, 4], "class": "code", "session": "s1", "turn": 2}`. Prompt and response are token ids
or, with an encoder, text. vLLM's names `prompt_token_ids` and `token_ids` are read too. `class`, `session` and `turn`
may be left out; where only a session is given, its turns are counted. The file is read once, a batch at a time.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from simulator.matchers.token_batch import MAX_TOKEN_ID, TokenBatch, TokenRequest, batch_of

PROMPT_KEYS = ("prompt_token_ids", "prompt")
RESPONSE_KEYS = ("response_token_ids", "token_ids", "response")
BATCH_TOKENS = 1 << 18
MAX_CLASSES = 200
_AGAIN = "the file looks cut off: fetch it again or remove the line"


class Encoder(Protocol):
    """Turns text into token ids."""

    @property
    def vocabulary_tokens(self) -> int:
        """Ids are below this."""
        ...

    def encode(self, text: str) -> NDArray[np.int32]:
        """Token ids of a text, nothing added in front or behind."""
        ...


@dataclass(slots=True)
class TokenLog:
    """One log, to be read once by `batches`; the counts are of what was read so far."""

    path: Path
    encoder: Encoder | None = None
    class_names: list[str] = field(default_factory=list[str])
    requests: int = 0
    prompt_tokens: int = 0
    response_tokens: int = 0
    _turns: dict[str, int] = field(default_factory=dict[str, int])
    _digest: Any = field(default_factory=hashlib.sha256)

    @property
    def sha256(self) -> str:
        """Of the bytes read so far."""
        return self._digest.hexdigest()

    def batches(self) -> Iterator[TokenBatch]:
        """Consecutive requests, about `BATCH_TOKENS` tokens at a time.

        Raises
        ------
        InvalidInput
            An unreadable or empty file, a line that is not JSON, a missing key, ids that are not whole numbers in
            range, an empty response, turns of a session with a gap; the message names the line.
        """
        pending: list[TokenRequest] = []
        waiting_tokens = 0
        for number, line in self._lines():
            request = self._request(line, f"token log {self.path}: line {number}")
            pending.append(request)
            self.requests += 1
            self.prompt_tokens += len(request.prompt)
            self.response_tokens += len(request.response)
            waiting_tokens += len(request.prompt) + len(request.response)
            if waiting_tokens >= BATCH_TOKENS:
                yield batch_of(pending)
                pending, waiting_tokens = [], 0
        if not self.requests:
            raise InvalidInput(f"token log {self.path}: is empty; give a file with one request a line")
        if pending:
            yield batch_of(pending)

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        try:
            with self.path.open("rb") as stream:
                for number, line in enumerate(stream, start=1):
                    self._digest.update(line)
                    if line.strip():
                        yield number, line
        except OSError as error:
            raise InvalidInput(
                f"token log {self.path}: cannot be read ({error.strerror}); give a readable file"
            ) from error

    def _request(self, line: bytes, where: str) -> TokenRequest:
        item = _parsed(line, where)
        booleans = b"true" in line or b"false" in line  # they pass for whole numbers otherwise
        prompt = self._tokens(item, PROMPT_KEYS, where, booleans)
        response = self._tokens(item, RESPONSE_KEYS, where, booleans)
        if not len(response):
            raise InvalidInput(f"{where}: the response is empty; remove the line, nothing was decoded")
        return TokenRequest(prompt, response, self._class_id(item, where), self._turn(item, where))

    def _tokens(self, item: dict[str, Any], keys: tuple[str, ...], where: str, booleans: bool) -> NDArray[np.int32]:
        key = next((key for key in keys if key in item), None)
        if key is None:
            raise InvalidInput(
                f"{where}: {keys[-1]!r} is missing, the keys are {', '.join(sorted(item)[:8]) or 'none'}; "
                f"give it under one of {', '.join(keys)} (an empty list where there is none)"
            )
        value = item[key]
        if isinstance(value, str):
            if self.encoder is None:
                raise InvalidInput(
                    f"{where}: {key!r} is text; give --tokenizer tokenizer.json of the target, or --bytes to take "
                    "each byte as a token"
                )
            return self.encoder.encode(value)
        limit = MAX_TOKEN_ID + 1 if self.encoder is None else self.encoder.vocabulary_tokens
        return _ids(value, f"{where}: {key!r}", limit, may_hold_booleans=booleans)

    def _class_id(self, item: dict[str, Any], where: str) -> int:
        name = str(item.get("class", "all"))
        if name not in self.class_names:
            if len(self.class_names) == MAX_CLASSES:
                raise InvalidInput(
                    f"{where}: class {name!r} is the {MAX_CLASSES + 1}st; classes are kinds of requests, keep at most "
                    f"{MAX_CLASSES}"
                )
            self.class_names.append(name)
        return self.class_names.index(name)

    def _turn(self, item: dict[str, Any], where: str) -> int:
        turn = item.get("turn")
        if turn is not None and (type(turn) is not int or turn < 1):
            raise InvalidInput(f"{where}: turn must be a whole number from 1, got {turn!r}; correct the line")
        session = item.get("session")
        if session is None:
            return turn or 1
        before = self._turns.get(str(session))
        if turn is not None and before is not None and turn != before + 1:
            raise InvalidInput(
                f"{where}: session {session!r} goes from turn {before} to {turn}; each turn must follow the one "
                "before, add the missing lines or leave `turn` out to have them counted"
            )
        self._turns[str(session)] = turn or (before or 0) + 1
        return self._turns[str(session)]


def _parsed(line: bytes, where: str) -> dict[str, Any]:
    try:
        item: object = json.loads(line)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{where} is not UTF-8 text; save the file as UTF-8") from error
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{where} is not JSON ({error.msg}); {_AGAIN}") from error
    except ValueError as error:  # a number of thousands of digits
        raise InvalidInput(f"{where} holds a number too long to read ({error}); token ids are small") from error
    except RecursionError:
        raise InvalidInput(f"{where} is nested too deeply; give one flat object a line") from None
    if not isinstance(item, dict):
        raise InvalidInput(f"{where} is not a JSON object; write one request a line, with a prompt and a response")
    return cast("dict[str, Any]", item)


def _ids(value: object, what: str, limit: int, *, may_hold_booleans: bool) -> NDArray[np.int32]:
    """Token ids of a list, checked."""
    if not isinstance(value, list):
        raise InvalidInput(f"{what} must be a list of token ids or a text, got {_short(value)}; correct the line")
    ids = cast("list[Any]", value)
    try:
        tokens = np.frombuffer(array("q", ids), dtype=np.int64)
    except (TypeError, OverflowError):
        tokens = None
    if tokens is None or (may_hold_booleans and bool in set(map(type, ids))):
        _refuse_other_types(ids, what)
        tokens = np.array([-1], dtype=np.int64)  # whole numbers, one of them out of any range: found below
    if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < limit:
        bad = next(token for token in ids if not 0 <= token < limit)
        raise InvalidInput(
            f"{what}: token ids must be in 0..{limit - 1}, got {_short(bad)}; give the ids of the target's tokenizer"
        )
    return tokens.astype(np.int32)


def _refuse_other_types(ids: list[Any], what: str) -> None:
    for place, token in enumerate(ids):
        if type(token) is not int:
            gap = ", a gap" if token is None else ""
            raise InvalidInput(
                f"{what}: entry {place} must be a token id, got {_short(token)}{gap}; log every token as an id"
            )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
