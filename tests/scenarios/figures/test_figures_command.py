import struct

import pytest

from scenarios.cli.main import run
from scenarios.figures.fonts import chinese_family


def test_a_figure_is_written_with_its_data_and_texts(tmp_path, capsys):
    folder = tmp_path / "out"
    assert (
        run(["figures", "speedup_vs_alpha", "--lang", "zh", "--set", "draft_cost_ratio=0.2", "--out", str(folder)]) == 0
    )
    assert sorted(file.name for file in folder.iterdir()) == [
        "speedup_vs_alpha.csv",
        "speedup_vs_alpha.png",
        "speedup_vs_alpha.svg",
        "texts_zh.md",
    ]
    width, _ = struct.unpack(">II", (folder / "speedup_vs_alpha.png").read_bytes()[16:24])
    assert width == 1600
    texts = (folder / "texts_zh.md").read_text(encoding="utf-8")
    assert "`specdec figures speedup_vs_alpha --lang zh --set draft_cost_ratio=0.2`" in texts
    assert "1 figure (svg, png)" in capsys.readouterr().out


def test_one_format_is_written_where_one_is_asked(tmp_path):
    assert run(["figures", "speedup_vs_alpha", "--format", "svg", "--out", str(tmp_path / "out")]) == 0
    assert not (tmp_path / "out" / "speedup_vs_alpha.png").exists()


def test_names_and_assumptions_are_listed(capsys):
    assert run(["figures", "--list"]) == 0
    listed = capsys.readouterr().out
    assert "15  predicted_vs_measured" in listed
    assert "alpha = 0.7" in listed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["speedup_vs_alhpa"], "nearest: speedup_vs_alpha"),
        (["--lang", "fr"], "--lang must be one of en, zh, got 'fr'"),
        (["--format", "gif"], "--format must be svg or png or both, got 'gif'"),
        (["--seed", "-1"], "--seed must be a whole number"),
        (["--set", "gpu=H900", "speedup_vs_k"], "GPU 'H900' is not in the catalogue"),
        (["--set", "moe_model=Qwen/Qwen3-8B", "moe_coverage"], "it has no routed experts"),
        (["--set", "calibration=nowhere", "predicted_vs_measured"], "specdec calibrate report nowhere"),
    ],
)
def test_wrong_input_is_one_sentence_and_writes_nothing(arguments, said, tmp_path, capsys):
    folder = tmp_path / "out"
    assert run(["figures", *arguments, "--out", str(folder)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not folder.exists()
    assert list(tmp_path.iterdir()) == []


def test_without_any_chinese_font_none_is_made_up():
    assert chinese_family(families=("No Such Family",), package="no_such_package") is None
