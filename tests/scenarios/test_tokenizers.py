import json
import sys

import numpy as np
import pytest

from roofline.errors import InvalidInput
from scenarios.imports.token_logs import TokenLog
from scenarios.imports.tokenizers import FileEncoder, read_vocabulary, vocabulary_overlap
from scenarios.questions.replay import vocabulary_ceiling

BYTE_LEVEL = {
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġab": 2, "Ċ": 3, "Ã©": 4}, "merges": []},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}]},
    "added_tokens": [{"id": 5, "content": "<eos>", "special": True}, {"id": 6, "content": "tool", "special": False}],
}
PIECES = {
    "model": {"type": "Unigram", "vocab": [["<eos>", 0.0], ["a", -1.0], ["▁ab", -2.0], ["<0x0A>", -3.0], ["é", -4.0]]},
    "added_tokens": [{"id": 0, "content": "<eos>", "special": True}],
}


def written(folder, content, name="tokenizer.json"):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def overlap(tmp_path, target=BYTE_LEVEL, draft=PIECES):
    target, draft = written(tmp_path, target, "target.json"), written(tmp_path, draft, "draft.json")
    return vocabulary_overlap(read_vocabulary(target), read_vocabulary(draft))


def test_entries_are_compared_by_the_bytes_they_stand_for(tmp_path):
    found = overlap(tmp_path)
    # a, " ab", newline, é and the end are in both; b and tool are not
    assert found.shared.tolist() == [True, False, True, True, True, True, False]
    assert (found.target_tokens, found.draft_tokens, found.shared_tokens) == (7, 5, 5)


def test_a_special_token_is_not_the_text_that_spells_it(tmp_path):
    literal = {"model": {"type": "Unigram", "vocab": [["<eos>", 0.0]]}}
    assert not overlap(tmp_path, draft=literal).shared.any()


def test_word_pieces_spell_the_start_of_words(tmp_path):
    pieces = {"model": {"type": "WordPiece", "vocab": {"ab": 0, "##b": 1}}}
    assert overlap(tmp_path, draft=pieces).shared.tolist()[:3] == [False, True, True]


def test_the_ceiling_weighs_the_overlap_with_what_the_target_emits(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text('{"prompt":[1,1,1],"response":[0,0,1,0]}\n{"prompt":[],"response":[2]}\n')
    ceiling = vocabulary_ceiling(overlap(tmp_path), TokenLog(log), draft_tokens=3)
    # five places, one of them b; three places with a second token, one pair shared; two with a third, none
    assert ceiling.per_position == pytest.approx((4 / 5, 1 / 3, 0.0))
    assert ceiling.acceptance_length == pytest.approx(1 + 4 / 5 + 1 / 3)
    assert np.isnan(vocabulary_ceiling(overlap(tmp_path)).acceptance_length)


def test_a_log_of_another_model_is_refused(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text('{"prompt":[],"response":[7]}\n')
    with pytest.raises(InvalidInput, match="id 7 is beyond the target's vocabulary of 7"):
        vocabulary_ceiling(overlap(tmp_path), TokenLog(log))


def test_a_vocabulary_with_itself_has_no_ceiling(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text('{"prompt":[],"response":[0,1,2,3,4,5,6]}\n')
    found = overlap(tmp_path, draft=BYTE_LEVEL)
    assert found.target_fraction == 1.0
    assert vocabulary_ceiling(found, TokenLog(log), draft_tokens=2).per_position == (1.0, 1.0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not JSON"),
        ('{"model":', "is not JSON"),
        ("[1]", "is not a JSON object"),
        ({"model": {"type": "BPE"}}, "has no model.vocab"),
        ({"model": {"type": "BPE", "vocab": {}}}, "has no model.vocab"),
        ({"version": "1.0"}, "has no model.vocab"),
        ({"model": {"vocab": ["a", "b"]}}, r"\[piece, score\]"),
        ({"model": {"vocab": {"a": -1}}}, "got -1"),
        ({"model": {"vocab": {"a": 1.5}}}, "got 1.5"),
        ({"model": {"vocab": {"a": 10**12}}}, "got 1000000000000"),
        ({"model": {"vocab": {"a": 0, "b": 0}}}, "id 0 stands for both"),
        ({"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 1}]}, "has no content"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_one_sentence(tmp_path, content, said):
    with pytest.raises(InvalidInput, match=said) as caught:
        read_vocabulary(written(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_a_binary_model_is_refused(tmp_path):
    path = tmp_path / "tokenizer.model"
    path.write_bytes(b"\x0a\x0e\x0a\x05<unk>\x15\x00\xff\xfe")
    with pytest.raises(InvalidInput, match="not a binary model"):
        read_vocabulary(path)


def test_without_the_library_the_way_out_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(InvalidInput, match=r"install specdec-sim\[text\]"):
        FileEncoder(written(tmp_path, BYTE_LEVEL))


def test_the_library_encodes_with_the_files_ids(tmp_path):
    pytest.importorskip("tokenizers")
    words = {"model": {"type": "WordLevel", "vocab": {"the": 0, "end": 1, "?": 2}, "unk_token": "?"}, "version": "1.0"}
    words |= {"pre_tokenizer": {"type": "Whitespace"}, "added_tokens": [], "normalizer": None}
    words |= {"post_processor": None, "decoder": None, "truncation": None, "padding": None}
    encoder = FileEncoder(written(tmp_path, words))
    assert encoder.encode("the end the x").tolist() == [0, 1, 0, 2]
    assert encoder.vocabulary_tokens == 3
