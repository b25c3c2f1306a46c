from typing import Any

from medjudge.validation.status import standing, states


def study(
    passed: bool | None,
    result: str = "passed",
    against: str = "physicians",
    kappa: str = "not shown",
    **changed: Any,
) -> dict[str, Any]:
    part = {
        "usable_agreement": {"value": 0.912, "low": 0.86, "high": 0.95},
        "cohen_kappa": {"value": None, "low": None, "high": None},
        "n": {"value": 57, "low": None, "high": None},
    }
    checks = [{"check": "usable agreement, MK", "result": result}, {"check": "Cohen's kappa", "result": kappa}]
    gate = {"passed": passed, "usual": True, "checks": checks}
    whole = {"file": "scores.xlsx", "against": against, "overall": part, "by_category": {"MK": part}, "gate": gate}
    return whole | changed


def test_never_validated_until_a_physician_scored() -> None:
    assert standing([]) == ("never validated", "never validated against physicians")
    only = standing([study(True, against="constructed levels")])
    assert only.state == "never validated"
    assert "constructed levels only" in only.line


def test_the_line_says_on_what_and_how_well() -> None:
    state, line = standing([study(True)])
    assert state == "validated"
    assert line == (
        "gate passed (1 passed, 1 not shown): agrees on usable with physicians on 91.2 % (86–95) of 57 answers, "
        "Cohen's kappa undefined (scores.xlsx)"
    )
    assert standing([study(False, "failed")]).state == "failed"
    assert standing([study(None)]).state == "not shown"


def test_a_category_has_its_own_standing() -> None:
    all_states = states([study(None, kappa="passed")])
    assert (all_states["OP"].state, all_states["MK"].state) == ("not shown", "validated")
    # It is no better than what holds for all categories.
    assert states([study(None)])["MK"].state == "not shown"
    assert states([study(False, kappa="failed")])["MK"].state == "failed"
    assert all_states["MTG"] == ("never validated", "never validated in MTG: no physicians' score")
    assert states([study(None, "failed")])["MK"].state == "failed"


def test_the_last_validation_against_physicians_counts() -> None:
    assert standing([study(True), study(False), study(True, against="gpt")]).state == "failed"
