"""Reading of published tables: what cannot be used is named, the rest is kept."""

import pytest

from roofline.errors import InvalidInput
from scenarios.validate.rows import DATA_FOLDER, Number, number, read_table, rows_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.93", Number(1.93, 1.93, 1.93)),
        ("1,024", Number(1024.0, 1024.0, 1024.0)),
        ("2.1x", Number(2.1, 2.1, 2.1)),
        ("71%", Number(0.71, 0.71, 0.71)),
        ("<=2048", Number(2048.0, 2048.0, 2048.0)),
        ("600-800", Number(700.0, 600.0, 800.0)),
        ("0.44 to 0.50", Number(0.47, 0.44, 0.5)),
        ("16 (2 decode nodes)", Number(16.0, 16.0, 16.0)),
    ],
)
def test_numbers_are_read_in_every_way_tables_write_them(text, expected):
    found = number(text)
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((expected.value, expected.low, expected.high))


@pytest.mark.parametrize("text", ["argmax over batch sizes", "fast", "1.2.3.4 tok", "inf", "nan", ""])
def test_what_is_no_number_is_not_guessed(text):
    assert number(text) is None


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_a_missing_column_and_a_cell_that_is_no_number_are_named_with_file_row_and_column(tmp_path):
    file = write(tmp_path / "mine.csv", "id,source_id,speedup,tp\nX1,mine,1.4,two\nX2,mine,fast,2\n")
    rows, problems = rows_of([file])
    texts = [str(problem) for problem in problems]
    assert [row.id for row in rows] == ["X1", "X2"]
    assert any("mine.csv, column 'hardware': missing" in text for text in texts)
    assert "mine.csv, line 2 (X1), column 'tp': must be a number above 0, got 'two'; taken as not given" in texts
    assert any("line 3 (X2), column 'speedup'" in text for text in texts)
    assert (rows[0].speedup, rows[0].tensor_parallel, rows[1].speedup) == (1.4, None, None)


def test_a_row_with_too_few_cells_is_named_and_kept(tmp_path):
    table = read_table(write(tmp_path / "short.csv", "id,a,b\n1,x\n\n2,y,z\n"), columns=("id", "a", "b"))
    assert [row["b"] for row in table.rows] == ["", "z"]
    assert table.lines == (2, 4)
    assert "2 cells, the header has 3" in str(table.problems[0])


@pytest.mark.parametrize(("content", "complaint"), [("", "no header"), (b"\xff\xfe\x00", "no UTF-8")])
def test_a_file_that_is_no_table_is_refused_in_one_sentence(tmp_path, content, complaint):
    file = tmp_path / "bad.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidInput, match=complaint):
        read_table(file, columns=("id",))


def test_a_file_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"absent\.csv: cannot be read"):
        read_table(tmp_path / "absent.csv", columns=("id",))


def test_every_shipped_row_has_a_source_and_an_id_of_its_own():
    rows, _ = rows_of([DATA_FOLDER / "speedups.csv"])
    assert len({row.id for row in rows}) == len(rows) == 1667
    assert all(row.source and row.url_or_ref for row in rows)
