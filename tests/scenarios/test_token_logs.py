import json

import pytest

from roofline.errors import InvalidInput
from scenarios.imports.token_logs import MAX_CLASSES, TokenLog
from scenarios.imports.tokenizers import ByteEncoder

GOOD = '{"prompt":[1,2],"response":[3,4]}\n'


def written(folder, text):
    path = folder / "tokens.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(path, **more):
    log = TokenLog(path, **more)
    return log, list(log.batches())


def test_ids_classes_and_turns_come_through(tmp_path):
    lines = [
        {"prompt": [1, 2, 3], "response": [4, 5], "class": "code", "session": "a"},
        {"prompt_token_ids": [], "token_ids": [6], "class": "chat", "session": "b", "turn": 7},
        {"prompt": [1], "response_token_ids": [2, 3], "class": "code", "session": "a"},
    ]
    log, (batch,) = read(written(tmp_path, "\n\n".join(map(json.dumps, lines))))
    assert log.class_names == ["code", "chat"]
    assert batch.tokens.tolist() == [1, 2, 3, 4, 5, 6, 1, 2, 3]
    assert batch.start.tolist() == [0, 5, 6, 9]
    assert batch.response_start.tolist() == [3, 5, 7]
    assert batch.class_id.tolist() == [0, 1, 0]
    assert batch.turn.tolist() == [1, 7, 2]
    assert (log.requests, log.prompt_tokens, log.response_tokens) == (3, 4, 5)
    assert len(log.sha256) == 64


def test_text_becomes_bytes_when_asked(tmp_path):
    line = json.dumps({"prompt": "é", "response": "ab"})
    _, (batch,) = read(written(tmp_path, line), encoder=ByteEncoder())
    assert batch.tokens.tolist() == [0xC3, 0xA9, 97, 98]


def test_a_large_log_comes_in_several_batches(tmp_path):
    line = json.dumps({"prompt": list(range(100_000)), "response": [1] * 50_000})
    _, batches = read(written(tmp_path, "\n".join([line] * 5)))
    assert [batch.requests for batch in batches] == [2, 2, 1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        (GOOD + '{"prompt":[1,2],"respo', "line 2 is not JSON"),
        (GOOD + "[1,2]", "line 2 is not a JSON object"),
        (b'{"prompt":"\xff"}', "line 1 is not UTF-8"),
        ("[" * 200_000, "line 1 is nested too deeply"),
        ('{"prompt":[1]}', "line 1: 'response' is missing"),
        ('{"response":[1]}', "line 1: 'prompt' is missing"),
        ('{"prompt":[1],"response":[]}', "line 1: the response is empty"),
        ('{"prompt":[1,null],"response":[1]}', "entry 1 must be a token id, got None, a gap"),
        ('{"prompt":[1,2.5],"response":[1]}', "entry 1 must be a token id, got 2.5"),
        ('{"prompt":[true],"response":[1]}', "entry 0 must be a token id, got True"),
        ('{"prompt":[[1]],"response":[1]}', "entry 0 must be a token id"),
        ('{"prompt":{"a":1},"response":[1]}', "must be a list of token ids or a text"),
        ('{"prompt":[-1],"response":[1]}', "got -1"),
        ('{"prompt":[99999999],"response":[1]}', "got 99999999"),
        ('{"prompt":[1],"response":[' + "9" * 60 + "]}", "got 9999"),
        ('{"prompt":[1],"response":[-' + "9" * 60 + "]}", "got -9999"),
        ('{"prompt":[1],"response":[' + "9" * 5000 + "]}", "holds a number too long to read"),
        ('{"prompt":"a","response":[1]}', "'prompt' is text; give --tokenizer"),
        ('{"prompt":[1],"response":[1],"turn":0}', "turn must be a whole number from 1, got 0"),
        (
            '{"prompt":[1],"response":[1],"session":"s","turn":1}\n{"prompt":[1],"response":[1],"session":"s","turn":3}',
            "goes from turn 1 to 3",
        ),
    ],
)
def test_a_bad_log_is_one_sentence_with_line_and_fix(tmp_path, text, said):
    with pytest.raises(InvalidInput) as caught:
        read(written(tmp_path, text))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_ids_beyond_the_tokenizer_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"0\.\.255, got 256"):
        read(written(tmp_path, '{"prompt":[256],"response":[1]}'), encoder=ByteEncoder())


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidInput, match="cannot be read"):
        read(tmp_path / "none.jsonl")


def test_classes_that_look_like_ids_are_refused(tmp_path):
    lines = [json.dumps({"prompt": [], "response": [1], "class": f"r{index}"}) for index in range(MAX_CLASSES + 1)]
    with pytest.raises(InvalidInput, match="classes are kinds"):
        read(written(tmp_path, "\n".join(lines)))
