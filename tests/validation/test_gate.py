from pathlib import Path
from typing import Any

import pytest
import yaml

from medjudge.errors import InputError
from medjudge.records import CATEGORIES
from medjudge.validation.gate import Gate, gate_result, read_gate

CONFIG = Path(__file__).parents[2] / "configs" / "eval" / "gate.yaml"


def measure(value: float | None, low: float | None, high: float | None) -> dict[str, float | None]:
    return {"value": value, "low": low, "high": high}


def passing(n: int = 400, **changed: Any) -> dict[str, Any]:
    kappa = measure(0.7, 0.5, 0.9)
    part = {"usable_agreement": measure(0.97, 0.95, 0.99), "cohen_kappa": kappa, "n": measure(n / 5, None, None)}
    study: dict[str, Any] = {
        "against": "physicians",
        "n": n,
        "conversations": n,
        "coverage": 1.0,
        "overall": {"cohen_kappa": measure(0.8, 0.7, 0.9)},
        "by_category": dict.fromkeys(CATEGORIES, part),
        "conversations_by_category": dict.fromkeys(CATEGORIES, n // 5),
        "teacher": {"n": n, "conversations": n, "difference": {"usable_agreement": measure(0.0, -0.02, 0.02)}},
        "probes": {
            "effects": {
                name: {
                    "n": 200,
                    "conversations": 100,
                    "flips": measure(0.0, 0.0, 0.018),
                }
                for name in ("filler", "doubled")
            },
            "not_applied": [],
        },
    }
    return {**study, **changed}


def results(study: dict[str, Any]) -> dict[str, str]:
    return {check["check"]: check["result"] for check in gate_result(study, Gate())["checks"]}


def test_the_config_states_the_defaults() -> None:
    assert read_gate(CONFIG) == Gate()
    assert set(yaml.safe_load(CONFIG.read_text())) == set(Gate.model_fields)


def test_a_judge_that_shows_everything_passes() -> None:
    outcome = gate_result(passing(), Gate())
    assert outcome["passed"] is True
    assert len(outcome["checks"]) == 10
    assert {check["result"] for check in outcome["checks"]} == {"passed"}


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (0.70, 0.62, 0.78, "passed"),
        (0.65, 0.55, 0.75, "not shown"),  # good, but not surely
        (0.55, 0.45, 0.65, "failed"),
        (None, None, None, "not shown"),
        (0.80, None, None, "not shown"),
    ],
)
def test_kappa(value: float, low: float, high: float, expected: str) -> None:
    study = passing(overall={"cohen_kappa": measure(value, low, high)})
    assert results(study)["Cohen's kappa"] == expected


def test_too_few_scores_never_pass_and_fail_only_surely() -> None:
    for kappa, expected in (
        ((0.9, 0.8, 1.0), "not shown"),
        ((0.5, 0.3, 0.7), "not shown"),
        ((0.1, -0.2, 0.4), "failed"),
    ):
        study = passing(n=40, overall={"cohen_kappa": measure(*kappa)})
        outcome = gate_result(study, Gate())
        assert outcome["passed"] is not True
        assert results(study)["Cohen's kappa"] == expected
    assert results(passing(n=40, conversations=4, overall={"cohen_kappa": measure(0.1, 0.0, 0.2)}))[
        "Cohen's kappa"
    ] == ("not shown")
    crowded = passing(conversations=12)
    check = next(one for one in gate_result(crowded, Gate())["checks"] if one["check"] == "Cohen's kappa")
    assert check["result"] == "not shown"
    assert "400 answers in 12 conversations" in check["why"]


def test_what_was_not_measured_is_not_shown() -> None:
    study = passing(teacher=None, probes=None)
    del study["by_category"]["MTG"]
    outcome = gate_result(study, Gate())
    assert outcome["passed"] is None
    missing = {check["check"]: check["why"] for check in outcome["checks"] if check["result"] == "not shown"}
    assert set(missing) == {"usable agreement, MTG", "usable agreement minus the teacher's", "flips by probes"}
    assert "--teacher" in missing["usable agreement minus the teacher's"]


def test_agreement_that_a_blind_judge_would_reach_is_not_shown() -> None:
    # Says usable wherever a category mostly is: kappa is high over all categories and 0 within each.
    study = passing()
    study["by_category"] = {
        name: {**part, "cohen_kappa": measure(0.0, None, None)} for name, part in study["by_category"].items()
    }
    outcome = gate_result(study, Gate())
    assert outcome["passed"] is None
    assert "beyond chance" in outcome["checks"][0]["why"]


def test_a_probe_that_applied_to_nothing_and_a_teacher_that_hardly_scored_show_nothing() -> None:
    study = passing()
    study["probes"]["not_applied"] = ["reordered"]
    assert results(study)["flips by probe reordered"] == "not shown"
    assert gate_result(study, Gate())["passed"] is None
    study = passing()
    study["teacher"]["n"] = 100
    assert results(study)["usable agreement minus the teacher's"] == "not shown"


def test_a_file_that_names_one_category_keeps_the_others_and_is_not_the_usual_gate(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text("usable_agreement: {MK: 0.5}")
    gate = read_gate(tmp_path / "gate.yaml")
    assert gate.usable_agreement == {**Gate().usable_agreement, "MK": 0.5}
    assert gate_result(passing(), gate)["usual"] is False
    assert gate_result(passing(), Gate())["usual"] is True


def test_one_failure_fails_the_gate() -> None:
    worse = {"n": 400, "conversations": 400, "difference": {"usable_agreement": measure(-0.1, -0.14, -0.06)}}
    assert gate_result(passing(teacher=worse), Gate())["passed"] is False


def test_probes_may_flip_few_answers() -> None:
    study = passing()
    study["probes"]["effects"]["filler"]["flips"] = measure(0.05, 0.03, 0.09)
    assert results(study)["flips by probe filler"] == "failed"
    study["probes"]["effects"]["filler"]["flips"] = measure(0.01, 0.003, 0.03)
    assert results(study)["flips by probe filler"] == "not shown"
    study["probes"]["effects"]["filler"]["flips"] = measure(0.03, 0.01, 0.05)
    assert results(study)["flips by probe filler"] == "failed"


def test_a_judge_that_keeps_silent_on_hard_answers_fails() -> None:
    outcome = gate_result(passing(coverage=0.9), Gate())
    assert outcome["passed"] is False
    assert results(passing(coverage=0.9))["coverage"] == "failed"


def test_constructed_levels_can_fail_a_judge_but_not_validate_it() -> None:
    outcome = gate_result(passing(against="constructed levels"), Gate())
    assert outcome["passed"] is None
    assert "constructed levels, not physicians" in outcome["checks"][0]["why"]
    low = passing(against="constructed levels", overall={"cohen_kappa": measure(0.1, 0.0, 0.2)})
    assert gate_result(low, Gate())["passed"] is False


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cohens_kappa: 0.6", "cohens_kappa: Extra inputs"),
        ("usable_agreement: {MK: 94.0}", "usable_agreement.MK: Input should be less than or equal to 1"),
        ("cohen_kappa: high", "cohen_kappa: Input should be a valid number"),
        ("usable_agreement: {XY: 0.9}", "usable_agreement.XY"),
        ("- a list", "valid dictionary"),
        ("a: [", "cannot be read as YAML"),
    ],
)
def test_a_wrong_gate_file_is_one_line(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        read_gate(file)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)
