import re
from pathlib import Path

import pytest

from roofline.catalog import (
    collective_constants,
    engine,
    engine_names,
    gpu,
    gpu_names,
    kernel_constants,
    load_gpu_file,
    model_names,
)
from roofline.catalog.loader import parse_gpus
from roofline.errors import InvalidInput, UnknownName

ROW = {
    "name": "Toy",
    "vendor": "Nobody",
    "architecture": "Toy sm1",
    "memory_bytes": 1e9,
    "hbm_bytes_per_s": 1e9,
    "peak_flops_per_s": {"bf16": 1e12},
    "link_bytes_per_s": 1e9,
    "link": "pcie",
    "source": {"title": "a data sheet", "url": "https://example.org", "retrieved": "2026-11-29"},
}
GPU_FILE = """
name = "Mine"
vendor = "Me"
architecture = "Hopper sm90"
memory_bytes = 8e10
hbm_bytes_per_s = 3e12
peak_flops_per_s = { bf16 = 9e14 }
link_bytes_per_s = 4e11
link = "nvlink"
source = { title = "my bench", url = "https://example.org/bench", retrieved = 2026-11-29 }
"""


def test_a_gpu_row_without_a_source_does_not_load():
    with pytest.raises(InvalidInput, match=r"'Toy'.*'source'"):
        parse_gpus([{key: value for key, value in ROW.items() if key != "source"}])


def test_a_gpu_row_with_a_source_loads():
    assert parse_gpus([ROW])["toy"].hbm_bytes_per_s == 1e9


def test_two_rows_of_one_name_are_refused():
    with pytest.raises(InvalidInput, match="occurs twice"):
        parse_gpus([ROW, {**ROW, "name": "TOY"}])


def test_every_gpu_has_a_link_a_date_and_a_16_bit_rate():
    for name in gpu_names():
        row = gpu(name)
        assert re.match(r"https?://\S+\.\S+", row.source.url), name
        assert row.source.retrieved.year >= 2026, name
        assert {"bf16", "fp16"} & set(row.peak_flops_per_s), name


def test_names_are_found_whatever_their_case():
    assert gpu("h100-sxm") is gpu("H100-SXM")
    assert engine("vLLM") is engine("vllm")


def test_an_unknown_gpu_lists_the_nearest_names():
    with pytest.raises(UnknownName, match=r"H100-SMX.*nearest: h100-sxm"):
        gpu("H100-SMX")


def test_rates_are_dense_and_links_one_directional():
    h100 = gpu("H100-SXM")
    assert h100.peak_flops_per_s["bf16"] == pytest.approx(989.4e12)
    assert h100.peak_flops_per_s["fp8"] == pytest.approx(1978.9e12)
    assert h100.link_bytes_per_s == 450e9
    assert gpu("L40S").peak_flops_per_s["fp8"] == pytest.approx(733e12)
    assert gpu("RTX-4090").peak_flops_per_s["bf16"] == pytest.approx(165.2e12)
    assert gpu("A10G").peak_flops_per_s["bf16"] == pytest.approx(70.1e12)
    assert gpu("MI300X").peak_flops_per_s["bf16"] == pytest.approx(1307.4e12)


def test_no_8_bit_rate_exceeds_four_times_the_16_bit_rate():
    """Twice is usual, four times on GeForce int8; a sparse figure slipped in would show up here."""
    for name in gpu_names():
        peaks = gpu(name).peak_flops_per_s
        base = peaks.get("bf16", peaks.get("fp16"))
        assert base is not None
        assert peaks.get("fp8", 0.0) <= 2.03 * base, name
        assert peaks.get("int8", 0.0) <= 4.01 * base, name
        assert peaks.get("fp4", 0.0) <= 8.01 * base, name


def test_the_gpus_named_in_the_issue_are_there():
    for name in ("H20", "RTX-3090", "V100-SXM2-32GB", "A100-SXM-80GB", "H200-SXM", "B200-SXM", "GB300", "MI355X"):
        assert gpu(name).name == name


def test_a_users_gpu_file_is_read(tmp_path: Path):
    path = tmp_path / "my.toml"
    path.write_text(GPU_FILE)
    assert load_gpu_file(path).name == "Mine"
    path.write_text(GPU_FILE.replace('name = "Mine"', '[gpu]\nname = "Mine"'))
    assert load_gpu_file(path).name == "Mine"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GPU_FILE.replace("hbm_bytes_per_s = 3e12", ""), "'hbm_bytes_per_s'"),
        (GPU_FILE.replace("3e12", "-1.0"), "'hbm_bytes_per_s'"),
        (GPU_FILE + "clock_hz = 1e9\n", "'clock_hz'"),
        (GPU_FILE.replace("bf16", "bf17"), "peak_flops_per_s"),
        (GPU_FILE.replace('name = "Mine"', "name = Mine"), "not valid TOML"),
        ("gpu = 3\n", "must describe one GPU"),
    ],
)
def test_a_bad_gpu_file_is_named_in_one_sentence(tmp_path: Path, text: str, expected: str):
    path = tmp_path / "my.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=expected) as raised:
        load_gpu_file(path)
    assert "\n" not in str(raised.value).strip()


def test_a_missing_gpu_file_is_named(tmp_path: Path):
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_gpu_file(tmp_path / "none.toml")


def test_every_constant_lies_in_its_range_and_says_where_it_comes_from():
    constants = [
        getattr(row, name)
        for row in kernel_constants()
        for name in ("overhead_s", "bandwidth_fraction", "compute_fraction", "p_norm")
    ]
    constants += [getattr(row, name) for row in collective_constants() for name in ("latency_s", "link_fraction")]
    for name in engine_names():
        profile = engine(name)
        constants += profile.host.declared().values()
        constants += [getattr(profile.sampler, field) for field in type(profile.sampler).model_fields]
    assert len(constants) > 250
    for constant in constants:
        assert constant.low <= constant.value <= constant.high
        assert constant.source.url.startswith("https://")
        assert constant.how


def test_graph_sizes_follow_the_engine():
    h100, b200 = gpu("H100-SXM"), gpu("B200-SXM")
    sizes = engine("vllm").graph_tokens(h100, max_sequences=1024)
    assert sizes[:5] == (1, 2, 4, 8, 16)
    assert sizes[-1] == 512
    assert 248 in sizes
    assert 264 not in sizes
    assert engine("vllm").graph_tokens(b200, max_sequences=1024)[-1] == 1024
    assert engine("vllm").graph_tokens(h100, max_sequences=16)[-1] == 32
    assert engine("paper").graph_tokens(h100, max_sequences=16) == ()


def test_uniform_decode_sizes_are_multiples_of_drafts_plus_one():
    sizes = engine("vllm").graph_tokens(gpu("H100-SXM"), max_sequences=256, draft_tokens=2)
    assert {3, 6, 12, 24} <= set(sizes)


def test_heads_of_the_first_vllm_v1_run_outside_graphs_and_all_else_is_as_later():
    sizes = {"max_sequences": 64, "draft_tokens": 3}
    first, later, h100 = engine("vllm-0.8"), engine("vllm"), gpu("H100-SXM")
    assert first.draft_graph_tokens(h100, **sizes) == ()
    assert later.draft_graph_tokens(h100, **sizes) != ()
    assert first.graph_tokens(h100, **sizes) == later.graph_tokens(h100, **sizes)
    assert (first.host, first.sampler, first.scheduler) == (later.host, later.sampler, later.scheduler)


def test_scheduler_defaults_depend_on_memory():
    scheduler = engine("vllm").scheduler
    expected = {"B200-SXM": (16384, 1024), "H100-SXM": (8192, 1024), "A100-SXM-80GB": (2048, 256), "L4": (2048, 256)}
    for name, limits in expected.items():
        tier = scheduler.tier(gpu(name))
        assert (tier.max_batched_tokens, tier.max_sequences) == limits, name
    assert scheduler.memory_utilization_fraction == 0.92
    assert scheduler.block_tokens == 16


def test_model_names_are_files_of_the_catalogue():
    assert list(model_names()) == sorted(model_names())
