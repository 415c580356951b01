"""AL at other K: each shape is exact on data of its own making, and what has no shape is left out."""

import numpy as np
import pytest

from scenarios.validate.per_position import errors_by_shape, shape_points

HEADER = "series_id,source,model,method,dataset,position,p_unconditional\n"
LENGTHS = (
    "source_id,source,model,method,draft_model,k,tree_or_chain,engine,hardware,temperature,dataset,"
    "mean_accept_len_tau,tau_convention\n"
)


def _files(tmp_path, shares, lengths="", method="eagle3"):
    positions, families = tmp_path / "p.csv", tmp_path / "l.csv"
    rows = "".join(f"P1,src,M,{method},d,{place},{share}\n" for place, share in enumerate(shares, start=1))
    positions.write_text(HEADER + rows)
    families.write_text(LENGTHS + lengths)
    return shape_points(positions, families)


def _largest(points, shape):
    return max(abs(point.error) for point in points if point.shape == shape)


def test_equal_conditional_acceptance_is_told_exactly_by_every_shape(tmp_path):
    points = _files(tmp_path, [0.7**place for place in range(1, 7)])
    assert _largest(points, "iid") == pytest.approx(0.0, abs=1e-9)
    assert _largest(points, "per position") == pytest.approx(0.0, abs=1e-9)
    assert _largest(points, "Beta mixture") < 1e-3


def test_requests_that_differ_are_told_by_the_mixture_and_not_by_one_alpha(tmp_path):
    a, b = 0.6, 0.9
    steps = np.arange(8)
    points = _files(tmp_path, list(np.cumprod((a + steps) / (a + b + steps))), method="ngram")
    assert _largest(points, "Beta mixture") < 0.02
    assert _largest(points, "iid") > 0.1
    groups = {errors.group for errors in errors_by_shape(points)}
    assert groups == {"n-gram and suffix, to larger K", "n-gram and suffix, to smaller K"}


def test_falling_conditional_acceptance_is_overestimated_by_the_mixture(tmp_path):
    conditional = [0.8, 0.7, 0.6, 0.5, 0.4]
    points = _files(tmp_path, list(np.cumprod(conditional)))
    beyond = [point for point in points if point.shape == "Beta mixture" and point.draft_tokens > point.fitted_at]
    assert all(point.error > 0.05 for point in beyond)


def test_runs_of_one_drafter_with_other_k_are_paired_and_others_are_not(tmp_path):
    row = "S,src,M,eagle3,,{k},{kind},vLLM,H100,0,{data},{tau},incl. bonus\n"
    rows = [
        row.format(k=2, kind="chain", data="a", tau=1.0 + 0.5 + 0.25),
        row.format(k=4, kind="chain", data="a", tau=1.0 + 0.5 + 0.25 + 0.125 + 0.0625),
        row.format(k=4, kind="tree", data="b", tau=3.0),
        row.format(k=2, kind="chain", data="b", tau=2.0),
        row.format(k=1, kind="chain", data="c", tau=2.5),
        row.format(k=2, kind="chain", data="c", tau=2.5),
    ]
    points = _files(tmp_path, [], "".join(rows))
    assert {(point.fitted_at, point.draft_tokens) for point in points} == {(2, 4), (4, 2)}
    assert _largest(points, "iid") == pytest.approx(0.0, abs=1e-9)


def test_shares_that_rise_or_have_gaps_are_no_series(tmp_path):
    assert _files(tmp_path, [0.5, 0.6, 0.4]) == ()
    assert _files(tmp_path, [0.5, "", 0.3]) == ()
    assert _files(tmp_path, [0.5]) == ()


def test_shipped_series_give_every_group_with_its_sources():
    found = {(errors.group, errors.shape): errors for errors in errors_by_shape(shape_points())}
    held = found[("one run, to larger K", "per position")]
    assert held.sources > 5
    assert held.median_abs_error < found[("one run, to larger K", "Beta mixture")].median_abs_error
    matching = [found[("n-gram and suffix, to larger K", shape)] for shape in ("Beta mixture", "iid")]
    assert matching[0].median_abs_error < matching[1].median_abs_error
