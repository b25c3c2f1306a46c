from typing import Any

import pytest
from example_study import example_study

from medjudge.judge.study_summary import AgainstKind, CheckKind, CheckState, GateCheck, GateResult, StudySummary
from medjudge.scheme import LLMEVAL_MED, open_scheme
from medjudge.statistics.estimates import Estimate
from medjudge.validation.status import Use, ValidationState, validation_status, validation_statuses


def check(kind: CheckKind, part: str | None, state: str) -> GateCheck:
    measured = {"required": 0.5, "value": 0.6, "low": 0.5, "high": 0.7, "n": 57}
    return GateCheck(kind=kind, part=part, check="its title is not read", **measured, state=CheckState(state), why="")


def study(
    passed: bool | None,
    mk: str = "passed",
    kappa: str = "inconclusive",
    against: str = "physicians",
    kind: AgainstKind = AgainstKind.PHYSICIANS,
    **changed: Any,
) -> StudySummary:
    part = {
        "usable_agreement": Estimate(value=0.912, low=0.86, high=0.95),
        "cohen_kappa": Estimate(value=None, low=None, high=None),
        "n": Estimate(value=57, low=None, high=None),
    }
    checks = [check(CheckKind.USABLE_AGREEMENT, "MK", mk), check(CheckKind.COHEN_KAPPA, None, kappa)]
    fields = {"file": "scores.xlsx", "against": against, "against_kind": kind, "overall": part}
    fields |= {"by_category": {"MK": part}, "gate": GateResult(passed=passed, usual=True, checks=checks)}
    return example_study(**(fields | changed)).summary()


def test_never_validated_until_a_physician_scored() -> None:
    assert validation_status([]) == ("never validated", "never validated against physicians")
    only = validation_status([study(True, against="constructed levels", kind=AgainstKind.CONSTRUCTED)])
    assert only.state == ValidationState.NEVER_VALIDATED
    assert "constructed levels only" in only.line
    # A judge named physicians is not physicians.
    assert validation_status([study(True, kind=AgainstKind.JUDGE)]).state == ValidationState.NEVER_VALIDATED


def test_the_line_says_on_what_and_how_well() -> None:
    state, line = validation_status([study(True)])
    assert state == ValidationState.VALIDATED
    assert line == (
        "gate passed (1 passed, 1 inconclusive): agrees on usable with physicians on 91.2 % (86–95) of 57 answers, "
        "Cohen's kappa undefined (scores.xlsx)"
    )
    with_danger = validation_status([study(True, confusion_usable=[[44, 3], [16, 40]])]).line
    assert "inconclusive): calls 16 of 60 unusable answers usable; agrees on usable with" in with_danger


def test_a_category_has_its_own_status() -> None:
    statuses = validation_statuses([study(None, kappa="passed")])
    assert (statuses["OP"].state, statuses["MK"].state) == ("inconclusive", "validated")
    # It is no better than what holds for all categories.
    assert validation_statuses([study(None)])["MK"].state == ValidationState.INCONCLUSIVE
    # What failed over all categories fails none of them.
    assert validation_statuses([study(False, kappa="failed")])["MK"].state == ValidationState.INCONCLUSIVE
    assert statuses["MTG"] == ("never validated", "never validated in MTG: no physicians' score")
    assert validation_statuses([study(None, "failed")])["MK"].state == ValidationState.FAILED


def test_a_validation_on_another_scheme_does_not_count() -> None:
    consumer = open_scheme("consumer-health")
    passed = study(True).model_copy(update={"scheme": consumer.summary})
    assert validation_status([passed]) == (
        "never validated",
        "never validated against physicians; validated on consumer-health only",
    )
    assert validation_status([passed], scheme="consumer-health").state == ValidationState.VALIDATED
    assert list(validation_statuses([passed], consumer)) == ["OP", "CHQ"]


MEASURED = {"judge_sha256": "j", "rubrics_sha256": "r", "models": {"a": 30, "b": 27}}
SAME = Use("j", "r", LLMEVAL_MED.sha256, frozenset({"a"}), "medjudge validate runs/x --judge j --physicians FILE")


def test_a_validation_holds_for_what_it_was_measured_with() -> None:
    passed = study(True, **MEASURED)
    assert validation_status([passed], use=SAME) == validation_status([passed])
    assert validation_status([], use=SAME).state == ValidationState.NEVER_VALIDATED
    # What an earlier version measured names no models.
    assert validation_status([passed.model_copy(update={"models": {}})], use=SAME).state == ValidationState.VALIDATED
    # Judgments without a judge have no files.
    assert validation_status([passed], use=SAME._replace(judge_sha256="")).state == ValidationState.VALIDATED


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (SAME._replace(judge_sha256="k"), "validated with other files of this judge"),
        (SAME._replace(rubrics_sha256="s"), "validated with other rubrics"),
        (SAME._replace(scheme_sha256="t"), "validated with another state of scheme llmeval-med"),
        (SAME._replace(models=frozenset({"a", "d", "c"})), "not validated on answers of c, d"),
        (SAME._replace(models=frozenset("acdef")), "not validated on answers of c, d, e and 1 more"),
    ],
)
def test_a_validation_of_anything_else_is_stale_and_says_what_to_run(use: Use, reason: str) -> None:
    state, line = validation_status([study(True, **MEASURED)], use=use)
    assert state == ValidationState.STALE
    assert line.startswith(f"stale: {reason}; run `{SAME.command}`; before that: gate passed (1 passed")
    in_category = validation_statuses([study(True, **MEASURED)], use=use)["MK"]
    assert in_category.state == ValidationState.STALE


def test_of_several_validations_the_last_that_holds_counts() -> None:
    against_judge = study(True, against="gpt", kind=AgainstKind.JUDGE)
    assert validation_status([study(True), study(False), against_judge]).state == ValidationState.FAILED
    before, other = study(True, **MEASURED), study(False, **(MEASURED | {"judge_sha256": "k"}))
    assert validation_status([before, other], use=SAME).state == ValidationState.VALIDATED
    assert validation_status([other, before], use=SAME._replace(judge_sha256="k")).state == ValidationState.FAILED
    more = study(True, **(MEASURED | {"models": {"c": 5}}))
    assert validation_status([before, more], use=SAME._replace(models=frozenset("ac"))).state == "validated"


def test_a_custom_gate_does_not_validate() -> None:
    passed = study(True, kappa="passed")
    custom = passed.model_copy(update={"gate": passed.gate.model_copy(update={"usual": False})})
    statuses = validation_statuses([custom])
    assert (statuses["OP"].state, statuses["MK"].state) == (ValidationState.CUSTOM_GATE, ValidationState.CUSTOM_GATE)
    assert statuses["OP"].line.startswith("gate passed (2 passed; requirements set by the user")
    failed = study(False, "failed", gate=GateResult(passed=False, usual=False, checks=custom.gate.checks))
    assert validation_status([failed]).state == ValidationState.FAILED
