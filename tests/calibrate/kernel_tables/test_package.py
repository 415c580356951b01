import importlib.util

import pytest

from calibrate.kernel_tables.importing import import_tables
from calibrate.kernel_tables.package import PACKAGE, open_package
from calibrate.kernel_tables.reading import read_rows
from roofline.errors import InvalidInput, UnknownName

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
GEMM = {
    "framework": ["VLLM"], "version": ["0.24.0"], "device": ["NVIDIA H200"], "op_name": ["gemm"],
    "kernel_source": ["torch"], "gemm_dtype": ["bfloat16"], "m": [1], "n": [4096], "k": [4096], "latency": [0.02],
}  # fmt: skip


def unpacked(folder, *, version="0.12.0", columns=None):
    """A wheel with one table of one row."""
    table = folder / PACKAGE / "systems" / "data" / "h200_sxm" / "gemm" / "vllm" / "0.24.0"
    table.mkdir(parents=True)
    (folder / f"{PACKAGE}-{version}.dist-info").mkdir()
    parquet.write_table(pyarrow.table(columns or GEMM), table / "gemm_perf.parquet")
    return folder


def test_rows_are_read_in_seconds(tmp_path):
    package = open_package(unpacked(tmp_path))
    rows = read_rows(package.table("h200_sxm", "vllm", "gemm/gemm"), "gemm")
    assert rows["seconds"].tolist() == pytest.approx([2e-5])
    assert rows["n"].tolist() == [4096]


def test_an_absent_package_says_what_to_install():
    if importlib.util.find_spec(PACKAGE) is not None:
        pytest.skip("the package is installed here")
    with pytest.raises(InvalidInput, match=r"pip install --no-deps aiconfigurator-core==0\.12\.0"):
        open_package()


def test_a_folder_without_tables_says_what_to_give(tmp_path):
    with pytest.raises(InvalidInput, match="unpacked wheel"):
        open_package(tmp_path)


def test_another_version_of_the_package_is_named_and_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"0\.13\.1.*0\.12\.0"):
        open_package(unpacked(tmp_path, version="0.13.1"))


def test_an_unknown_system_or_engine_says_what_exists(tmp_path):
    package = open_package(unpacked(tmp_path))
    with pytest.raises(UnknownName, match="h200_sxm"):
        import_tables(package, "mi300x", "vllm")
    with pytest.raises(UnknownName, match="vllm"):
        import_tables(package, "h200_sxm", "llama.cpp")


def test_the_name_of_the_gpu_is_understood_too(tmp_path):
    assert open_package(unpacked(tmp_path)).system("H200-SXM").name == "h200_sxm"


def test_a_column_more_or_less_is_named_and_refused(tmp_path):
    more = open_package(unpacked(tmp_path / "more", columns={**GEMM, "split_k": [1]}))
    with pytest.raises(InvalidInput, match="split_k"):
        read_rows(more.table("h200_sxm", "vllm", "gemm/gemm"), "gemm")
    fewer = open_package(unpacked(tmp_path / "fewer", columns={k: v for k, v in GEMM.items() if k != "k"}))
    with pytest.raises(InvalidInput, match="missing"):
        read_rows(fewer.table("h200_sxm", "vllm", "gemm/gemm"), "gemm")
