from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from example_study import example_study

from medjudge.errors import InputError
from medjudge.judge.study_summary import AgainstKind
from medjudge.scheme import LLMEVAL_MED, Gate
from medjudge.statistics.estimates import Estimate
from medjudge.validation.gate import gate_result, read_gate
from medjudge.validation.other_judges import NonInferiority, TeacherComparison
from medjudge.validation.probe_effect import ProbeEffect, ProbeStudy
from medjudge.validation.records import Study

CONFIG = Path(__file__).parents[2] / "configs" / "eval" / "gate.yaml"


def measure(value: float | None, low: float | None, high: float | None) -> Estimate:
    return Estimate(value=value, low=low, high=high)


ZERO = measure(0.0, 0.0, 0.018)
EFFECT = ProbeEffect(n=200, conversations=100, unscored=0, shift=ZERO, flips=ZERO, to_usable=ZERO, to_unusable=ZERO)


def teacher(n: int, difference: Estimate) -> TeacherComparison:
    return TeacherComparison(
        teacher="gpt",
        n=n,
        conversations=n,
        of_judge={},
        of_teacher={},
        difference={"usable_agreement": difference},
        non_inferiority=NonInferiority(margin=0.05, shown=True),
    )


def probes(not_applied: Sequence[str] = (), **effects: ProbeEffect) -> ProbeStudy:
    return ProbeStudy(
        answers=200, effects={"filler": EFFECT, "doubled": EFFECT} | effects, not_applied=list(not_applied)
    )


def passing(n: int = 400, **changed: Any) -> Study:
    kappa = measure(0.7, 0.5, 0.9)
    part = {"usable_agreement": measure(0.97, 0.95, 0.99), "cohen_kappa": kappa, "n": measure(n / 5, None, None)}
    measured: dict[str, Any] = {
        "n": n,
        "conversations": n,
        "overall": {"cohen_kappa": measure(0.8, 0.7, 0.9)},
        "by_category": dict.fromkeys(LLMEVAL_MED.category_ids, part),
        "conversations_by_category": dict.fromkeys(LLMEVAL_MED.category_ids, n // 5),
        "teacher": teacher(n, measure(0.0, -0.02, 0.02)),
        "probes": probes(),
    }
    return example_study(**{**measured, **changed})


def test_the_config_states_the_defaults() -> None:
    assert read_gate(CONFIG) == LLMEVAL_MED.gate
    assert set(yaml.safe_load(CONFIG.read_text())) == set(Gate.model_fields)


def test_a_judge_that_shows_everything_passes_and_an_open_check_says_why() -> None:
    outcome = gate_result(passing(), LLMEVAL_MED.gate)
    assert outcome.passed is True
    assert len(outcome.checks) == 10
    assert {check.state for check in outcome.checks} == {"passed"}
    # Says usable wherever a category mostly is: kappa is high over all categories and 0 within each.
    blind = {name: {**part, "cohen_kappa": measure(0.0, None, None)} for name, part in passing().by_category.items()}
    for changed, why in (
        ({"by_category": blind}, "within the category, agreement may be by chance"),
        ({"conversations": 12}, "400 answers in 12 conversations"),
        (CONSTRUCTED, "constructed levels, not physicians"),
    ):
        outcome = gate_result(passing(**changed), LLMEVAL_MED.gate)
        assert outcome.passed is None
        assert any(why in check.why for check in outcome.checks)


def kappa(value: float | None, low: float | None, high: float | None, **fields: Any) -> dict[str, Any]:
    return {"overall": {"cohen_kappa": measure(value, low, high)}, **fields}


def flips(value: float, low: float, high: float) -> dict[str, Any]:
    return {"probes": probes(filler=EFFECT.model_copy(update={"flips": measure(value, low, high)}))}


CONSTRUCTED = {"against": "constructed levels", "against_kind": AgainstKind.CONSTRUCTED}


@pytest.mark.parametrize(
    ("changed", "check", "state"),
    [
        (kappa(0.70, 0.62, 0.78), "Cohen's kappa", "passed"),
        (kappa(0.65, 0.55, 0.75), "Cohen's kappa", "inconclusive"),  # good, but not surely
        (kappa(0.55, 0.45, 0.65), "Cohen's kappa", "failed"),
        (kappa(None, None, None), "Cohen's kappa", "inconclusive"),
        (kappa(0.80, None, None), "Cohen's kappa", "inconclusive"),
        # Too few scores never pass, and fail only surely.
        (kappa(0.9, 0.8, 1.0, n=40), "Cohen's kappa", "inconclusive"),
        (kappa(0.1, -0.2, 0.4, n=40), "Cohen's kappa", "failed"),
        (kappa(0.1, 0.0, 0.2, n=40, conversations=4), "Cohen's kappa", "inconclusive"),
        (flips(0.05, 0.03, 0.09), "flips by probe filler", "failed"),
        (flips(0.01, 0.003, 0.03), "flips by probe filler", "inconclusive"),
        ({"probes": probes(not_applied=["reordered"])}, "flips by probe reordered", "inconclusive"),
        ({"teacher": teacher(100, ZERO)}, "usable agreement minus the teacher's", "inconclusive"),
        # A judge that keeps silent on hard answers fails.
        ({"coverage": 0.9}, "coverage", "failed"),
        # Constructed levels can fail a judge but not validate it.
        (CONSTRUCTED, "coverage", "inconclusive"),
        (kappa(0.1, 0.0, 0.2, **CONSTRUCTED), "Cohen's kappa", "failed"),
    ],
)
def test_each_check_passes_fails_or_stays_open(changed: dict[str, Any], check: str, state: str) -> None:
    outcome = gate_result(passing(**changed), LLMEVAL_MED.gate)
    assert {one.check: one.state for one in outcome.checks}[check] == state
    assert outcome.passed is {"passed": True, "failed": False, "inconclusive": None}[state]


def test_what_was_not_measured_is_inconclusive() -> None:
    study = passing(teacher=None, probes=None)
    del study.by_category["MTG"]
    outcome = gate_result(study, LLMEVAL_MED.gate)
    assert outcome.passed is None
    missing = {check.check: check.why for check in outcome.checks if check.state == "inconclusive"}
    assert set(missing) == {"usable agreement, MTG", "usable agreement minus the teacher's", "flips by probes"}
    assert "--teacher" in missing["usable agreement minus the teacher's"]


def test_a_file_that_names_one_category_keeps_the_others_and_is_not_the_usual_gate(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text("usable_agreement: {MK: 0.5}")
    gate = read_gate(tmp_path / "gate.yaml")
    assert gate.usable_agreement == {**LLMEVAL_MED.gate.usable_agreement, "MK": 0.5}
    assert gate_result(passing(), gate).usual is False
    assert gate_result(passing(), LLMEVAL_MED.gate).usual is True


def test_a_new_probe_enters_the_gate_only_with_a_stated_threshold(tmp_path: Path) -> None:
    bad = EFFECT.model_copy(update={"flips": measure(0.3, 0.25, 0.35)})
    study = passing(probes=probes(homoglyphs=bad, not_applied=["only-yes"]))
    assert gate_result(study, LLMEVAL_MED.gate) == gate_result(passing(), LLMEVAL_MED.gate)
    file = tmp_path / "gate.yaml"
    file.write_text("probe_flips_of: {homoglyphs: 0.1, only-yes: 0.2, filler: 0.5}")
    checks = {check.part: check for check in gate_result(study, read_gate(file)).checks if check.kind == "probe_flips"}
    assert {part: (check.required, check.state) for part, check in checks.items()} == {
        "filler": (0.5, "passed"),
        "doubled": (0.02, "passed"),
        "homoglyphs": (0.1, "failed"),
        "only-yes": (0.2, "inconclusive"),
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cohens_kappa: 0.6", "cohens_kappa: Extra inputs"),
        ("usable_agreement: {MK: 94.0}", "usable_agreement.MK: Input should be less than or equal to 1"),
        ("usable_agreement: {XY: 0.9}", "usable_agreement.XY"),
        ("probe_flips_of: {typo: 0.1}", "probe_flips_of.typo: no such probe; there are filler, "),
        *((text, "a mapping of requirements is expected") for text in ("- a list", "0", "", "null", "text")),
        ("a: [", "not valid YAML"),
    ],
)
def test_a_wrong_gate_file_is_one_line(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        read_gate(file)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)
