"""A run of one's own against its prediction: what is off, and the host time that would explain it."""

import json
from dataclasses import replace

import pytest

from roofline.calibration import load_calibration
from roofline.errors import InvalidInput
from scenarios.build import build_service
from scenarios.cli.main import run
from scenarios.files import scenario_from_dict
from scenarios.loads import workload_at
from scenarios.questions.break_even import simulate_arm
from scenarios.questions.simulate import asked_load
from scenarios.report.own_run_text import own_run_lines
from scenarios.validate.own_run import own_run
from tests.source_tree import ROOT

DATA = ROOT / "tests" / "data" / "measured" / "requests" / "requests.jsonl"


def scenario(**changes):
    content = {
        "name": "mine",
        "target": {"model": "meta-llama/Llama-3.1-8B-Instruct"},
        "hardware": {"gpu": "H100-SXM"},
        "workload": {
            "kind": "poisson", "rate_per_s": 8.0, "requests": 120, "input_tokens": 200, "output_tokens": 100,
        },
        "run": {"seeds": 1},
    }  # fmt: skip
    return scenario_from_dict({**content, **changes})


def measured_with(extra_host_s, **changes):
    """The scenario with what a machine would show that is predicted exactly, but for its host time."""
    service = build_service(scenario(**changes))
    arm = replace(
        service.off, costs=replace(service.off.costs, step_host_s=service.off.costs.step_host_s + extra_host_s)
    )
    requests = workload_at(service.scenario, asked_load(service, None), trace=None, seed=0)
    result = simulate_arm(arm, requests, seed=0)
    told = {
        "ttft_s": {"mean": result.mean("ttft"), "p95": result.percentile("ttft", 0.95)},
        "tpot_s": {"mean": result.mean("tpot")},
        "latency_s": {"mean": result.mean("latency")},
        "queue_s": {"mean": float((result.admitted_s - result.arrival_s).mean())},
        "output_tokens_per_s": result.throughput_tokens_per_s,
    }
    return scenario(measured=told, **changes)


def test_a_run_that_went_as_predicted_has_no_residual():
    found = own_run(measured_with(0.0))
    assert all(line.error_fraction == pytest.approx(0.0, abs=1e-9) for line in found.lines)
    assert all(part.residual_s == pytest.approx(0.0, abs=1e-9) for part in found.parts)


def test_host_time_that_the_calibration_lacks_is_found_and_named():
    found = own_run(measured_with(0.002))
    assert found.host.extra_s == pytest.approx(0.002, rel=0.03)
    assert max(found.parts, key=lambda part: abs(part.residual_s)).name == "decode"
    assert sum(abs(part.with_host_s) for part in found.parts) < 0.05 * sum(abs(part.residual_s) for part in found.parts)
    text = "\n".join(own_run_lines(found))
    assert "ms more a step" in text
    assert "calibrated step times" in text


def test_the_parts_of_the_residual_add_up_to_that_of_the_mean_latency():
    found = own_run(measured_with(0.001))
    by_name = {line.name: line for line in found.lines}
    latency = by_name["latency mean s"]
    assert sum(part.residual_s for part in found.parts) == pytest.approx(latency.measured - latency.predicted, rel=1e-6)


def test_the_fitted_calibration_predicts_the_run(tmp_path):
    own = measured_with(0.003)
    found = own_run(own)
    assert found.host.calibration is not None
    file = tmp_path / "host.json"
    file.write_text(found.host.calibration.model_dump_json())
    assert load_calibration(file).host.step_s > 0.0029
    again = own_run(own.model_copy(update={"hardware": own.hardware.model_copy(update={"calibration": str(file)})}))
    assert abs(next(line for line in again.lines if line.name == "TPOT mean s").error_fraction) < 0.003


def test_a_prediction_that_is_slower_than_the_run_gets_no_host_time():
    own = measured_with(0.0)
    faster = own.measured.model_copy(update={"tpot_s": own.measured.tpot_s.model_copy(update={"mean": 0.001})})
    found = own_run(own.model_copy(update={"measured": faster}))
    assert found.host.calibration is None
    assert "slower than the measurement" in found.host.refused


def test_gaps_between_chunks_tell_a_slow_step_from_few_tokens():
    drafting = {
        "speculation": {"method": "eagle3", "draft": "SafeAILab/EAGLE3-LLaMA3.1-8B", "draft_tokens": 3},
        "acceptance": {"alpha": 0.6},
    }
    plain = own_run(scenario(measured={"ttft_s": {"mean": 0.02}, "latency_s": {"mean": 1.0}, "tpot_s": {"mean": 0.01},
                                       "itl_s": {"mean": 0.012}}, **drafting))  # fmt: skip
    by_name = {part.name: part.residual_s for part in plain.parts}
    assert set(by_name) == {"queue and prefill", "step", "acceptance"}
    assert plain.arm == "on"


def test_a_scenario_without_measured_times_is_refused():
    with pytest.raises(InvalidInput, match=r"holds no measured times.*specdec import"):
        own_run(scenario())


def test_the_command_reads_a_measured_run_and_writes_the_host_calibration(capsys, tmp_path):
    line = [
        "validate", "--mine", str(DATA), "--model", "meta-llama/Meta-Llama-3.1-8B", "--gpu", "RTX-PRO-6000-Server",
    ]  # fmt: skip
    assert run(line) == 0
    said = capsys.readouterr().out
    assert "TPOT mean s" in said
    assert "Residual" in said
    host = tmp_path / "host.json"
    code = run([*line, "--calibrate-host", str(host)])
    written = capsys.readouterr()
    assert (code == 0) == host.exists()
    assert "host" in (written.out + written.err)
    assert run(["validate", "--mine", str(DATA), "--gpu", "no such"]) == 2


def test_the_command_reads_what_import_wrote(capsys, tmp_path):
    out = tmp_path / "mine.toml"
    assert run(["import", str(DATA), "--out", str(out)]) == 0
    assert run(["validate", "--mine", str(out), "--model", "meta-llama/Meta-Llama-3.1-8B",
                "--gpu", "RTX-PRO-6000-Server"]) == 0  # fmt: skip
    assert json.dumps(capsys.readouterr().out).count("TTFT") >= 3
