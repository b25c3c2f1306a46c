import pytest

from medjudge.errors import InputError
from medjudge.records import Judgment
from medjudge.validation.other_judges import leave_out_rows


def judged(judge: str, keys: list[tuple[str, str]], levels: list[int | None]) -> list[Judgment]:
    return [
        Judgment(question_id=q, model=m, judge=judge, score=level, error=None if level else "unreadable")
        for (q, m), level in zip(keys, levels, strict=True)
    ]


def test_each_row_compares_both_judges_on_the_answers_of_its_own_value(question, physician_score) -> None:
    questions = [question(id=f"q{n}", group=f"g{n // 2}") for n in range(4)]
    keys = [(f"q{n}", model) for model in ("a", "b") for n in range(4)]
    scores = [physician_score(question_id=q, model=m, score=5) for q, m in keys]
    rows = leave_out_rows(
        "model",
        questions,
        # What a judge said about values that it did see must not count; nor an answer that one of both left unscored.
        {"a": judged("without-a", keys, [1, 5, 5, 5, 1, 1, 1, 1]), "b": judged("without-b", keys[4:], [1, 1, 5, None])},
        judged("all", keys, [5] * 8),
        scores,
        resamples=100,
    )
    assert [row.left_out for row in rows] == ["a", "b", None]
    assert [row.n for row in rows] == [4, 3, 7]
    assert [row.coverage for row in rows] == [1.0, 0.75, 0.875]
    assert rows[0].unseen["usable_agreement"]["value"] == 0.75
    assert rows[0].difference["bias"] == {"value": -1.0, "low": None, "high": None}
    assert rows[1].difference["usable_agreement"]["value"] == pytest.approx(-2 / 3, abs=1e-6)
    assert rows[2].unseen["usable_agreement"]["value"] == pytest.approx(4 / 7, abs=1e-6)


def test_categories_raters_and_rounds(question, physician_score) -> None:
    questions = [question(id="q1", category="MK"), question(id="q2", category="MTG")]
    scores = [physician_score(question_id="q2", rater=rater, score=level) for rater, level in (("x", 5), ("y", 4))]
    rounds = [
        judgment.model_copy(update={"round": n + 1})
        for n, judgment in enumerate(judged("j", [("q2", "m")] * 2, [4, 3]))
    ]
    (row,) = leave_out_rows("category", questions, {"MTG": rounds}, judged("all", [("q2", "m")], [4]), scores)
    assert (row.left_out, row.n) == ("MTG", 1)
    assert row.unseen["usable_agreement"]["value"] == 0  # 3.5 by the judge, 4.5 by physicians
    (nothing,) = leave_out_rows("category", questions, {"MTG": []}, judged("all", [("q2", "m")], [4]), scores)
    assert (nothing.n, nothing.coverage, nothing.difference) == (0, 0.0, None)
    with pytest.raises(InputError, match="category MK: physicians scored no answer"):
        leave_out_rows("category", questions, {"MK": []}, [], scores)
