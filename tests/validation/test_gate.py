from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from example_study import example_study

from medjudge.errors import InputError
from medjudge.judge.study_summary import AgainstKind, CheckKind, CheckState
from medjudge.scheme import LLMEVAL_MED, Gate
from medjudge.statistics.estimates import Estimate
from medjudge.validation.gate import gate_result, read_gate
from medjudge.validation.other_judges import McNemar, NonInferiority, TeacherComparison
from medjudge.validation.probe_effect import ProbeEffect, ProbeStudy
from medjudge.validation.records import Study

CONFIG = Path(__file__).parents[2] / "configs" / "eval" / "gate.yaml"


def measure(value: float | None, low: float | None, high: float | None) -> Estimate:
    return Estimate(value=value, low=low, high=high)


ZERO = measure(0.0, 0.0, 0.018)
EFFECT = ProbeEffect(
    n=200, conversations=100, skipped=0, unscored=0, shift=ZERO, flips=ZERO, to_usable=ZERO, to_unusable=ZERO
)


def teacher(n: int, difference: Estimate) -> TeacherComparison:
    return TeacherComparison(
        teacher="gpt",
        n=n,
        conversations=n,
        of_judge={},
        of_teacher={},
        difference={"usable_agreement": difference},
        mcnemar=McNemar(judge_only=0, teacher_only=0, p_value=1.0),
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


def results(study: Study) -> dict[str, CheckState]:
    return {check.check: check.state for check in gate_result(study, LLMEVAL_MED.gate).checks}


def test_the_config_states_the_defaults() -> None:
    assert read_gate(CONFIG) == LLMEVAL_MED.gate
    assert set(yaml.safe_load(CONFIG.read_text())) == set(Gate.model_fields)


def test_a_judge_that_shows_everything_passes() -> None:
    outcome = gate_result(passing(), LLMEVAL_MED.gate)
    assert outcome.passed is True
    assert len(outcome.checks) == 10
    assert {check.state for check in outcome.checks} == {"passed"}


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (0.70, 0.62, 0.78, "passed"),
        (0.65, 0.55, 0.75, "inconclusive"),  # good, but not surely
        (0.55, 0.45, 0.65, "failed"),
        (None, None, None, "inconclusive"),
        (0.80, None, None, "inconclusive"),
    ],
)
def test_kappa(value: float, low: float, high: float, expected: str) -> None:
    study = passing(overall={"cohen_kappa": measure(value, low, high)})
    assert results(study)["Cohen's kappa"] == expected


def test_too_few_scores_never_pass_and_fail_only_surely() -> None:
    for kappa, expected in (
        ((0.9, 0.8, 1.0), "inconclusive"),
        ((0.5, 0.3, 0.7), "inconclusive"),
        ((0.1, -0.2, 0.4), "failed"),
    ):
        study = passing(n=40, overall={"cohen_kappa": measure(*kappa)})
        outcome = gate_result(study, LLMEVAL_MED.gate)
        assert outcome.passed is not True
        assert results(study)["Cohen's kappa"] == expected
    assert results(passing(n=40, conversations=4, overall={"cohen_kappa": measure(0.1, 0.0, 0.2)}))[
        "Cohen's kappa"
    ] == ("inconclusive")
    crowded = passing(conversations=12)
    check = next(
        check for check in gate_result(crowded, LLMEVAL_MED.gate).checks if check.kind == CheckKind.COHEN_KAPPA
    )
    assert check.state == CheckState.INCONCLUSIVE
    assert "400 answers in 12 conversations" in check.why


def test_what_was_not_measured_is_inconclusive() -> None:
    study = passing(teacher=None, probes=None)
    del study.by_category["MTG"]
    outcome = gate_result(study, LLMEVAL_MED.gate)
    assert outcome.passed is None
    missing = {check.check: check.why for check in outcome.checks if check.state == "inconclusive"}
    assert set(missing) == {"usable agreement, MTG", "usable agreement minus the teacher's", "flips by probes"}
    assert "--teacher" in missing["usable agreement minus the teacher's"]


def test_agreement_that_a_blind_judge_would_reach_is_inconclusive() -> None:
    # Says usable wherever a category mostly is: kappa is high over all categories and 0 within each.
    blind = {name: {**part, "cohen_kappa": measure(0.0, None, None)} for name, part in passing().by_category.items()}
    study = passing(by_category=blind)
    outcome = gate_result(study, LLMEVAL_MED.gate)
    assert outcome.passed is None
    assert outcome.checks[0].why == "within the category, agreement may be by chance"


def test_a_probe_that_applied_to_nothing_and_a_teacher_that_hardly_scored_are_inconclusive() -> None:
    study = passing(probes=probes(not_applied=["reordered"]))
    assert results(study)["flips by probe reordered"] == "inconclusive"
    assert gate_result(study, LLMEVAL_MED.gate).passed is None
    study = passing(teacher=teacher(100, measure(0.0, -0.02, 0.02)))
    assert results(study)["usable agreement minus the teacher's"] == "inconclusive"


def test_a_file_that_names_one_category_keeps_the_others_and_is_not_the_usual_gate(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text("usable_agreement: {MK: 0.5}")
    gate = read_gate(tmp_path / "gate.yaml")
    assert gate.usable_agreement == {**LLMEVAL_MED.gate.usable_agreement, "MK": 0.5}
    assert gate_result(passing(), gate).usual is False
    assert gate_result(passing(), LLMEVAL_MED.gate).usual is True


def test_probes_may_flip_few_answers() -> None:
    for flips, expected in (
        (measure(0.05, 0.03, 0.09), "failed"),
        (measure(0.01, 0.003, 0.03), "inconclusive"),
        (measure(0.03, 0.01, 0.05), "failed"),
    ):
        study = passing(probes=probes(filler=EFFECT.model_copy(update={"flips": flips})))
        assert results(study)["flips by probe filler"] == expected


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


def test_a_judge_that_keeps_silent_on_hard_answers_fails() -> None:
    outcome = gate_result(passing(coverage=0.9), LLMEVAL_MED.gate)
    assert outcome.passed is False
    assert results(passing(coverage=0.9))["coverage"] == "failed"


def test_constructed_levels_can_fail_a_judge_but_not_validate_it() -> None:
    constructed = {"against": "constructed levels", "against_kind": AgainstKind.CONSTRUCTED}
    outcome = gate_result(passing(**constructed), LLMEVAL_MED.gate)
    assert outcome.passed is None
    assert "constructed levels, not physicians" in outcome.checks[0].why
    low = passing(**constructed, overall={"cohen_kappa": measure(0.1, 0.0, 0.2)})
    assert gate_result(low, LLMEVAL_MED.gate).passed is False


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cohens_kappa: 0.6", "cohens_kappa: Extra inputs"),
        ("usable_agreement: {MK: 94.0}", "usable_agreement.MK: Input should be less than or equal to 1"),
        ("cohen_kappa: high", "cohen_kappa: Input should be a valid number"),
        ("usable_agreement: {XY: 0.9}", "usable_agreement.XY"),
        ("probe_flips_of: {typo: 0.1}", "probe_flips_of.typo: no such probe; there are filler, "),
        ("- a list", "a mapping of requirements is expected"),
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
