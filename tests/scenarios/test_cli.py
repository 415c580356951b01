import json
import subprocess
import sys
import time
from typing import get_args

import pytest

from roofline.calibration import Domain
from roofline.catalog import engine, gpu, model_config_path
from roofline.efficiency import catalogue_calibration
from roofline.errors import InvalidInput
from scenarios.cli.init import TEMPLATE
from scenarios.cli.main import run
from scenarios.cli.options import scenario_table
from scenarios.drafting import Method
from scenarios.files import load_scenario, scenario_from_dict

SERVE = (
    "vllm serve meta-llama/Llama-3.1-8B-Instruct "
    """--speculative-config '{"method":"eagle3","num_speculative_tokens":3}'"""
)
HEAD = ("--draft-config", "SafeAILab--EAGLE3-LLaMA3.1-8B.json")
POISSON = ("--rate", "4", "--input-tokens", "200", "--output-tokens", "100", "--requests", "100", "--seeds", "1")
QUICK = ("--gpu", "H100-SXM", *HEAD, *POISSON, "--loads", "2,4", "--workers", "1")
COMPLETE = ("decide", "--serve", SERVE, *QUICK, "--acceptance-length", "2.5@3")


def test_help_is_quick_and_imports_nothing_heavy():
    script = (
        "import sys; from scenarios.cli.main import run; code = run(['--help']);"
        "heavy = {'torch', 'matplotlib', 'numba', 'scipy', 'pydantic', 'numpy', 'rich', 'pandas'} & "
        "set(sys.modules);"
        "print('heavy:', sorted(heavy)); sys.exit(code)"
    )
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - began
    assert "heavy: []" in done.stdout
    assert "decide" in done.stdout
    assert seconds < 2.0, "a loaded machine may be slow, but not that slow"


def test_python_m_scenarios_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "scenarios", "decide", "--alpha", "1.2", *QUICK, "--serve", SERVE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_the_verdict_comes_first_then_reasons_table_assumptions_and_flags(capsys):
    assert run(list(COMPLETE)) == 0
    text = capsys.readouterr().out
    assert text.startswith("ON at every load asked (2 req/s to 4 req/s), K = 3\n")
    places = [
        text.index(part) for part in ("Why ", "Margin ", "Best K ", "Costs ", "TTFT p50", "Rests on", "Serve flags")
    ]
    assert places == sorted(places)
    assert "[catalogue]" in text
    assert "[assumed]" in text
    assert "num_speculative_tokens_per_batch_size" in text


def test_json_prints_one_document_and_nothing_else(capsys):
    assert run([*COMPLETE, "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["verdict"] == "ON"
    assert captured.err == ""


def test_explain_adds_the_account_of_one_step(capsys):
    assert run([*COMPLETE, "--explain"]) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("Plain step: ", "Verification of K = 3: ", "lm_head", "launches", "Host: "))


def test_out_writes_four_files_and_nothing_beside_them(capsys, tmp_path):
    assert run([*COMPLETE, "--out", str(tmp_path / "out")]) == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"result.json", "loads.csv", "speedup_vs_load.png", "al_vs_round_cost.png"}
    assert all(path.stat().st_size > 200 for path in (tmp_path / "out").iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_out_folder_that_cannot_be_made_leaves_nothing(capsys, tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert run([*COMPLETE, "--out", str(tmp_path / "file" / "out")]) == 2
    assert "--out" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_model_that_does_not_fit_is_infeasible_with_its_bytes(capsys):
    serve = SERVE.replace("8B", "70B")
    head = ("--draft-config", "SpecForge/EAGLE3-llama3-70B")
    arguments = ["decide", "--serve", serve, "--gpu", "H100-SXM", *head, *POISSON, "--alpha", "0.5"]
    assert run(arguments) == 3
    error = capsys.readouterr().err
    assert error.startswith("INFEASIBLE: ")
    assert all(word in error for word in ("weights 131.4 GiB", "usable", "missing"))
    assert run([*arguments, "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["verdict"] == "INFEASIBLE"


def test_saturated_at_every_load_exits_with_four(capsys):
    arguments = ["decide", "--serve", SERVE, "--gpu", "H100-SXM", *HEAD, "--alpha", "0.6", "--workers", "1"]
    flood = ["--input-tokens", "2000", "--output-tokens", "500", "--requests", "1500", "--seeds", "1"]
    assert run([*arguments, *flood, "--loads", "200"]) == 4
    assert capsys.readouterr().out.startswith("SATURATED")


TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (("--gpu", "H100-SMX"), ("H100-SMX", "h100-sxm")),
        (("--rate", "nan"), ("--rate", "nan", "finite")),
        (("--alpha", "1.2"), ("acceptance.alpha", "1.2", "0 to 1")),
        (("--acceptance-length", "4.5@3"), ("4.5", "1..4")),
        (("--acceptance-length", "2.4"), ("2.4", "2.4@3")),
        (("--tp", "3"), ("hardware.tensor_parallel", "32 attention heads", "got 3")),
        (("--serve", "vllm serve x -sc {method}"), ("{method}", "JSON object")),
        (("--serve", SERVE.replace(":3", ":-1")), ("num_speculative_tokens", "-1", "at least 1")),
        (("--task", "codex"), ("codex", "code")),
        (("--slo", "tpot_p95=40"), ("tpot_p95=40", "unit")),
        (("--calibration", "none.json"), ("none.json", "cannot be read")),
        (("--trace", "none.csv"), ("--rate", "--trace")),
        (("--seeds", "0"), ("run.seeds", "0")),
        (("--workers", "0"), ("--workers", "0")),
        (("--workers", "²"), ("--workers", "²")),
        (("--loads", "1,x"), ("--loads", "x")),
        (("--nonsense",), ("--nonsense",)),
    ],
)
def test_bad_input_is_one_sentence_with_value_and_fix_and_exit_code_two(capsys, changes, words):
    options = {"--serve": SERVE, "--draft-config": HEAD[1], "--gpu": "H100-SXM", "--rate": "4", "--input-tokens": "200"}
    options |= {"--output-tokens": "100"}
    pairs = {**options, **dict(zip(changes[::2], changes[1::2], strict=False))}
    if "--tp" in changes:
        pairs["--serve"] = "vllm serve meta-llama/Llama-3.1-8B-Instruct"
        pairs |= {"--method": "eagle3", "--draft-tokens": "3"}
        pairs["--model"] = "meta-llama/Llama-3.1-8B-Instruct"
        del pairs["--serve"]
    arguments = ["decide", *(part for pair in pairs.items() for part in pair), *changes[len(changes) // 2 * 2 :]]
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert all(word in captured.err for word in words), captured.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("is empty",)),
        ("TIMESTAMP,ContextTokens\n0,5\n", ("GeneratedTokens",)),
        (TRACE + "2,5,5\n1,5,5\n", ("line 3", "goes back")),
        (TRACE + "-2,5,5\n", ("line 2", "-2")),
        (TRACE + "0,5,0\n", ("line 2", "got 0")),
    ],
)
def test_a_bad_trace_is_refused_on_the_command_line(capsys, tmp_path, text, words):
    (tmp_path / "trace.csv").write_text(text)
    arguments = ["decide", "--serve", SERVE, *HEAD, "--gpu", "H100-SXM", "--alpha", "0.5"]
    assert run([*arguments, "--trace", str(tmp_path / "trace.csv")]) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in words), error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"model_type": "llama", "hidden', ("not valid JSON",)),
        ('{"model_type": "llama", "hidden_size": 64}', ("is missing",)),
    ],
)
def test_a_truncated_or_incomplete_config_is_refused(capsys, tmp_path, text, words):
    (tmp_path / "config.json").write_text(text)
    serve = SERVE.replace("meta-llama/Llama-3.1-8B-Instruct", str(tmp_path / "config.json"))
    assert run(["decide", "--serve", serve, *QUICK, "--alpha", "0.5"]) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in words), error
    assert error.count("\n") == 1


def test_an_unknown_key_and_a_newer_schema_are_refused_from_a_file(capsys, tmp_path):
    file = tmp_path / "scenario.toml"
    file.write_text('schema_version = 1\n[hardware]\ngpu = "H100-SXM"\ntensor_paralel = 2\n')
    assert run(["decide", str(file)]) == 2
    assert "unknown key 'hardware.tensor_paralel'; nearest: tensor_parallel" in capsys.readouterr().err
    file.write_text("schema_version = 9\n")
    assert run(["decide", str(file)]) == 2
    assert "schema_version 9 is newer" in capsys.readouterr().err


def test_a_gpu_and_a_draft_that_the_catalogue_lacks_come_from_files(capsys, tmp_path):
    sheet = tmp_path / "mine.toml"
    sheet.write_text(
        'name = "Mine"\nvendor = "me"\narchitecture = "Hopper sm90"\nmemory_bytes = 8.5e10\nhbm_bytes_per_s = 3.0e12\n'
        'peak_flops_per_s = { bf16 = 9.0e14 }\nlink_bytes_per_s = 1e11\nlink = "nvlink"\n'
        'source = { title = "data sheet", url = "https://example.org/mine", retrieved = 2026-01-01 }\n'
    )
    draft = tmp_path / "draft.json"
    draft.write_text(model_config_path("SafeAILab--EAGLE3-LLaMA3.1-8B").read_text(encoding="utf-8"))
    changes = ["--gpu", str(sheet), "--draft-config", str(draft), "--acceptance-length", "2.5@3"]
    assert run(["decide", "--serve", SERVE, *POISSON, "--loads", "2", "--workers", "1", *changes]) == 0
    assert "Mine: data sheet (2026-01-01)" in capsys.readouterr().out


def read_over(preset, **options):
    table, origin = scenario_table(preset, options)
    return scenario_from_dict(table, origin=origin)


def test_options_lie_over_the_file():
    plain = load_scenario("llama8b_h100_chat")
    changed = read_over("llama8b_h100_chat", alpha="0.7", gpu="H200-SXM", slo=("tpot=9ms",), seeds="2", rate="3")
    assert (changed.acceptance.alpha, changed.acceptance.length) == (0.7, None)
    assert changed.hardware.gpu == "H200-SXM"
    assert changed.slo == ("tpot=9ms",)
    assert changed.run.seeds == 2
    assert changed.workload.rate_per_s == 3.0
    assert changed.workload.input_tokens == plain.workload.input_tokens
    assert changed.speculation == plain.speculation


def test_another_method_drops_the_files_draft_and_another_workload_its_sweep():
    changed = read_over("llama8b_h100_chat", method="ngram", proposal_fraction="0.5")
    assert changed.speculation.draft is None
    assert changed.speculation.draft_tokens == 3
    closed = read_over("llama70b_h100_azure", concurrency="8", input_tokens="100", output_tokens="50", loads="1,2")
    assert closed.workload.kind == "closed"
    assert closed.loads.concurrencies == (1, 2)
    multiples = read_over("llama70b_h100_azure", loads="0.5x,2x")
    assert multiples.loads.factors == (0.5, 2.0)
    assert multiples.workload.kind == "trace"


GAMMA = {"kind": "gamma", "rate_per_s": 4.0, "burstiness": 0.5, "input_tokens": 200, "output_tokens": 100}
SWINGING = {
    "kind": "poisson", "rate_per_s": 4.0, "swing": {"on_s": 5, "off_s": 5}, "input_tokens": 200, "output_tokens": 100,
}  # fmt: skip
CLOSED = {"kind": "closed", "concurrency": 8, "input_tokens": 200, "output_tokens": 100}


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)


def read_over_workload(tmp_path, workload, loads="", **options):
    file = tmp_path / "mine.toml"
    tables = f'target.model = "Qwen/Qwen3-8B"\nhardware.gpu = "H100-SXM"\nworkload = {toml(workload)}\n{loads}\n'
    file.write_text(f"schema_version = 1\n{tables}", encoding="utf-8")
    return read_over(str(file), **options)


def test_a_rate_opens_a_closed_loop_and_a_concurrency_closes_an_open_one(tmp_path):
    opened = read_over_workload(tmp_path, CLOSED, "loads.concurrencies = [1, 2]", rate="3")
    assert (opened.workload.kind, opened.workload.rate_per_s, opened.loads.concurrencies) == ("poisson", 3.0, ())
    bursty = read_over_workload(tmp_path, CLOSED, rate="3", burstiness="0.5")
    assert (bursty.workload.kind, bursty.workload.burstiness) == ("gamma", 0.5)
    for workload in (GAMMA, SWINGING):
        closed = read_over_workload(tmp_path, workload, "loads.rates_per_s = [1, 2]", concurrency="6").workload
        assert (closed.kind, closed.concurrency, closed.input_tokens) == ("closed", 6, 200)
    assert read_over_workload(tmp_path, GAMMA, rate="3").workload.burstiness == 0.5
    assert read_over_workload(tmp_path, SWINGING, rate="3").workload.swing is not None
    assert read_over_workload(tmp_path, CLOSED, requests="50").workload.concurrency == 8


def test_loads_of_two_kinds_are_refused_together(tmp_path):
    with pytest.raises(InvalidInput, match="--rate means nothing beside --concurrency"):
        read_over_workload(tmp_path, CLOSED, rate="3", concurrency="6")


def test_a_key_of_another_workload_is_not_called_a_misspelling(tmp_path):
    with pytest.raises(InvalidInput, match=r"workload\.rate_per_s does not belong to kind 'closed'; remove it"):
        read_over_workload(tmp_path, {**CLOSED, "rate_per_s": 3.0})


def test_help_and_template_name_every_method(capsys):
    run(["decide", "--help"])
    printed = capsys.readouterr().out
    for method in get_args(Method):
        assert method == "none" or (method in printed and method in TEMPLATE), method


def test_a_calibration_is_left_only_when_told_to_clip(capsys, tmp_path):
    catalogue = catalogue_calibration(gpu("H100-SXM"), engine("vllm"))
    narrow = catalogue.model_copy(update={"label": "calibrated", "domain": Domain(draft_tokens=(1, 2))})
    file = tmp_path / "mine.json"
    file.write_text(narrow.model_dump_json(), encoding="utf-8")
    assert run([*COMPLETE, "--calibration", str(file)]) == 2
    assert "draft_tokens = 3 is outside the measured 1..2" in capsys.readouterr().err
    assert run([*COMPLETE, "--calibration", str(file), "--clip"]) == 0
    text = capsys.readouterr().out
    assert "[calibrated]" in text
    assert "extrapolated: draft_tokens = 3" in text


def test_init_writes_a_scenario_that_loads_and_does_not_overwrite(capsys, tmp_path):
    file = tmp_path / "mine.toml"
    assert run(["init", str(file)]) == 0
    scenario = load_scenario(file)
    assert scenario.speculation.draft_tokens == 3
    assert scenario.acceptance.length == "2.4@3"
    assert run(["init", str(file)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert run(["init", str(file), "--force"]) == 0


@pytest.mark.parametrize(
    ("what", "name"),
    [("gpus", "H100-SXM"), ("models", "Qwen/Qwen3-8B"), ("engines", "vllm"), ("presets", "llama70b_h100_azure")],
)
def test_what_is_listed_can_be_shown(capsys, what, name):
    assert run(["list", what]) == 0
    listed = capsys.readouterr().out.split()
    assert name in listed or name.replace("/", "--") in listed
    assert run(["show", name]) == 0
    assert len(capsys.readouterr().out) > 100


def test_the_printed_schema_is_that_of_the_scenario(capsys):
    assert run(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert {"target", "hardware", "engine", "speculation", "acceptance", "workload"} <= set(schema["properties"])
    assert schema["additionalProperties"] is False


def test_simulate_prints_requests_and_writes_them_all(capsys, tmp_path):
    arguments = ["simulate", "--serve", SERVE, "--gpu", "H100-SXM", *HEAD, *POISSON, "--acceptance-length", "2.5@3"]
    assert run([*arguments, "--out", str(tmp_path / "requests.csv")]) == 0
    header, *rows = (tmp_path / "requests.csv").read_text().splitlines()
    assert len(rows) == 100
    assert header.startswith("request,class,arrival_s,")
    assert run([*arguments, "--arm", "off", "--at", "2x", "--json"]) == 0
    captured = capsys.readouterr().out
    content = json.loads(captured[captured.index("{") :])
    assert content["load"] == {"kind": "rate", "value": 8.0}
    assert content["acceptance_length"] == 1.0


@pytest.mark.parametrize(("at", "load"), [("2.6", "2.6"), ("0.5", "0.5"), ("0.7x", "1.4")])
def test_a_closed_loop_is_simulated_at_whole_numbers_only(capsys, at, load):
    closed = ("--concurrency", "2", "--input-tokens", "200", "--output-tokens", "20", "--requests", "20")
    service = ("--model", "Qwen/Qwen3-8B", "--gpu", "H100-SXM", "--arm", "off")
    assert run(["simulate", *service, *closed, "--at", at]) == 2
    error = capsys.readouterr().err
    assert "--at must be a whole number of requests in flight in a closed loop" in error
    assert f"got {load};" in error
    assert run(["simulate", *service, *closed, "--at", "1.5x"]) == 0
    assert "at 3 in flight" in capsys.readouterr().out


def test_simulating_drafts_of_unknown_acceptance_is_refused(capsys):
    assert run(["simulate", "--serve", SERVE, "--gpu", "H100-SXM", *HEAD, *POISSON]) == 2
    assert "none is invented" in capsys.readouterr().err


def test_unknown_commands_and_the_version_are_answered(capsys):
    assert run(["decid"]) == 2
    assert "commands are decide, plan, simulate" in capsys.readouterr().err
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("specdec-sim")
