"""A study with next to nothing in it, for tests that need only some of its fields."""

from typing import Any

from medjudge.judge.study_summary import AgainstKind, GateResult
from medjudge.validation.records import Study


def example_study(**fields: Any) -> Study:
    """A study against physicians in which no part was measured; any field can be set."""
    measured = ("physicians", "teacher", "ranking", "confidence", "usability", "probes", "leave_out")
    defaults: dict[str, Any] = {
        **{key: {} for key in ("by_category", "by_subcategory", "by_model", "by_difficulty", "by_language")},
        **{key: [] for key in ("confusion", "weaknesses", "cannot_conclude")},
        **dict.fromkeys(measured),
        "judge": "j",
        "against": "physicians",
        "against_kind": AgainstKind.PHYSICIANS,
        "n": 8,
        "questions": 8,
        "conversations": 8,
        "raters": ["dr"],
        "coverage": 1.0,
        "interval": "95 %",
        "overall": {},
        "conversations_by_category": {},
        "confusion_by_category": {},
        "gate": GateResult(passed=None, usual=True, checks=[]),
    }
    return Study(**{**defaults, **fields})
