import pytest

from roofline.errors import InvalidInput, UnknownName
from scenarios import load_scenario, preset_names
from scenarios.build import build_service
from scenarios.files import check_can_write, folder_written_at_once, scenario_from_dict
from scenarios.schema import Scenario

VALID = {
    "schema_version": 1,
    "target": {"model": "meta-llama/Llama-3.1-8B-Instruct"},
    "hardware": {"gpu": "H100-SXM"},
    "speculation": {"method": "eagle3", "draft": "SafeAILab/EAGLE3-LLaMA3.1-8B", "draft_tokens": 3},
    "workload": {"kind": "poisson", "rate_per_s": 4.0, "input_tokens": 600, "output_tokens": 250},
}


def with_changes(**tables):
    return {**VALID, **tables}


def refusal(content):
    with pytest.raises(InvalidInput) as caught:
        scenario_from_dict(content)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_valid_scenario_survives_its_own_dump():
    scenario = scenario_from_dict(VALID)
    assert Scenario.model_validate(scenario.model_dump()) == scenario


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_loads_and_builds(name):
    service = build_service(load_scenario(name))
    assert service.on is not None
    assert service.cases


def lengths(**given):
    return {"workload": {**VALID["workload"], "input_tokens": given}}


def test_unknown_keys_name_the_nearest_ones_of_their_table():
    assert "tensor_parallel" in refusal(with_changes(hardware={"gpu": "H100-SXM", "tensor_paralel": 2}))
    assert "rate_per_s" in refusal(with_changes(workload={**VALID["workload"], "rate": 2}))
    assert "speculation" in refusal(with_changes(speculaton={}))


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"acceptance": {"alpha": 1.2}}, ("acceptance.alpha", "1.2", "0 to 1")),
        ({"acceptance": {"alpha": float("nan")}}, ("acceptance.alpha", "finite")),
        ({"acceptance": {"length": "2.4"}}, ("2.4", "@3")),
        ({"acceptance": {"length": "4.5@3"}}, ("4.5", "1..4")),
        ({"acceptance": {}}, ("exactly one way", "none")),
        ({"acceptance": {"alpha": 0.5, "task": "chat"}}, ("alpha and task",)),
        ({"acceptance": {"per_position": [0.5, 0.6]}}, ("0.6", "position 2", "0.5")),
        ({"speculation": {**VALID["speculation"], "draft_tokens": -1}}, ("speculation.draft_tokens", "-1")),
        ({"speculation": {"method": "eagle3", "draft_tokens": 3}}, ("speculation.draft", "--draft-config")),
        ({"speculation": {"method": "eagle3", "draft": "x"}}, ("speculation.draft_tokens", "eagle3")),
        ({"speculation": {"method": "eagle4", "draft": "x"}}, ("speculation.method", "eagle4", "eagle3")),
        ({"speculation": {"method": "ngram", "draft_tokens": 3}}, ("proposal_fraction", "ngram")),
        (
            {"speculation": {**VALID["speculation"], "draft_tokens_by_batch": [[2, 4, 1]]}},
            ("start at batch 1", "[2, 4, 1]"),
        ),
        (
            {"speculation": {**VALID["speculation"], "draft_tokens_by_batch": [[1, 4, 2], [4, 8, 1]]}},
            ("without overlap", "[4, 8, 1]"),
        ),
        ({"workload": {**VALID["workload"], "rate_per_s": float("nan")}}, ("workload.rate_per_s", "finite")),
        ({"workload": {**VALID["workload"], "rate_per_s": -1.0}}, ("workload.rate_per_s", "-1")),
        ({"workload": {"kind": "poisson", "rate_per_s": 1.0}}, ("lengths are missing", "--input-tokens")),
        ({"workload": {"kind": "poison"}}, ("workload.kind", "poison", "poisson")),
        (lengths(mean_tokens=600, max_tokens=100), ("mean_tokens = 600", "max_tokens = 100", "raise max_tokens")),
        (lengths(mean_tokens=600, sigma=0.8, max_tokens=100), ("mean_tokens = 600", "max_tokens = 100")),
        (lengths(mean_tokens=200_000), ("mean_tokens = 200000", "its default")),
        (lengths(from_trace="t.csv", sigma=0.5), ("sigma = 0.5", "from_trace")),
        (lengths(mean_tokns=600), ("mean_tokns", "nearest: mean_tokens")),
        ({"workload": {**VALID["workload"], "input_tokens": 0}}, ("workload.input_tokens must be greater than 0",)),
        (lengths(mean_tokens=5, from_trace="t.csv"), ("either mean_tokens or from_trace",)),
        ({"slo": ["tpot_p95=40"]}, ("tpot_p95=40", "ms")),
        ({"hardware": {"gpu": "H100-SXM", "tensor_parallel": 4, "draft_tensor_parallel": 2}}, ("1 or", "got 2")),
        ({"loads": {"factors": [1.0], "rates_per_s": [1.0]}}, ("factors and rates_per_s",)),
        ({"loads": {"concurrencies": [1]}}, ("loads.concurrencies", "closed")),
    ],
)
def test_wrong_fields_are_refused_with_field_value_and_fix(tables, words):
    message = refusal(with_changes(**tables))
    assert all(word in message for word in words), message


def test_a_key_that_contradicts_the_serve_line_is_refused():
    serve = "vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 2"
    message = refusal({**VALID, "serve": serve, "hardware": {"gpu": "H100-SXM", "tensor_parallel": 4}})
    assert "hardware.tensor_parallel is 4" in message
    assert "serve command" in message


def test_a_serve_line_fills_what_the_tables_leave_out():
    serve = "vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 2 --max-num-seqs 64"
    scenario = scenario_from_dict({**VALID, "serve": serve})
    assert scenario.hardware.tensor_parallel == 2
    assert scenario.engine.max_sequences == 64
    assert scenario.hardware.gpu == "H100-SXM"


def test_files_of_another_schema_version_are_refused(tmp_path):
    newer, missing = tmp_path / "newer.toml", tmp_path / "missing.toml"
    newer.write_text("schema_version = 2\n")
    missing.write_text("name = 'x'\n")
    with pytest.raises(InvalidInput, match="newer than the 1 this specdec reads"):
        load_scenario(newer)
    with pytest.raises(InvalidInput, match="schema_version must be 1, got None"):
        load_scenario(missing)


def test_a_file_that_is_not_toml_and_a_name_that_is_nothing_are_refused(tmp_path):
    broken = tmp_path / "broken.toml"
    broken.write_text("schema_version = \n")
    with pytest.raises(InvalidInput, match="is not TOML"):
        load_scenario(broken)
    with pytest.raises(UnknownName, match="llama70b_h100_azure"):
        load_scenario("llama70b_h100_azur")


def test_paths_are_taken_from_the_scenarios_folder(tmp_path):
    (tmp_path / "requests.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n0,5,5\n1,5,5\n")
    file = tmp_path / "here.toml"
    file.write_text(
        'schema_version = 1\ntarget = { model = "meta-llama/Llama-3.1-8B-Instruct" }\n'
        'hardware = { gpu = "H100-SXM" }\nworkload = { kind = "trace", path = "requests.csv" }\n'
    )
    assert load_scenario(file).workload.path == str(tmp_path / "requests.csv")


def test_a_folder_is_written_whole_or_not_at_all(tmp_path):
    def interrupted(target):
        with folder_written_at_once(target) as draft:
            (draft / "a.txt").write_text("half")
            raise KeyError("interrupted")

    with pytest.raises(KeyError):
        interrupted(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    with folder_written_at_once(tmp_path / "out") as draft:
        (draft / "a.txt").write_text("whole")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.txt"]


def test_public_names_stay_functions_after_everything_was_imported():
    import scenarios
    import scenarios.build
    import scenarios.questions.decide

    assert callable(scenarios.build_service)
    assert callable(scenarios.decide)
    assert isinstance(scenarios.Scenario, type)


def test_an_output_folder_that_cannot_be_made_is_refused_before_any_work(tmp_path):
    file = tmp_path / "taken"
    file.write_text("a file, not a folder")
    for folder in (file, file / "below"):
        with pytest.raises(InvalidInput, match="give another folder"):
            check_can_write(folder)
    check_can_write(tmp_path / "new" / "deeper")
    assert not (tmp_path / "new").exists()
