import pytest

from medjudge.records import Judgment
from medjudge.refine.disagreements import CauseKind, question_causes
from medjudge.validation.answers import paired


@pytest.fixture
def suggested(question, answer, physician_score):
    """The causes of a question from rows of (judge, physicians' levels, text)."""

    def build(*rows, shift: float, **fields):
        asked = question(**{"reference": "At most 4 g of paracetamol a day.", "checklist": "1. at most 4 g", **fields})
        answers, judgments, scores = [], [], []
        for place, (level, by_raters, text) in enumerate(rows):
            answers.append(answer(model=f"m{place}", text=text))
            judgments.append(Judgment(question_id="q1", model=f"m{place}", judge="j", score=level))
            scores += [
                physician_score(model=f"m{place}", rater=f"dr{number}", score=level)
                for number, level in enumerate(by_raters)
            ]
        pairs = paired([asked], judgments, scores)
        by_key = {answer.key: answer for answer in answers}
        return question_causes(shift, abs(shift), pairs, asked, by_key)

    return build


def test_a_lenient_judge_suggests_a_missing_point(suggested) -> None:
    rows = [(5, [3, 3], "Up to 4 g."), (5, [3, 2], "4 g a day.")]
    (cause,) = suggested(*rows, shift=2.2)
    assert cause.kind == CauseKind.POINT_MISSING
    assert "mean scores: judge 5.0, physicians 2.8" in cause.evidence
    assert "no checklist" in suggested(*rows, shift=2.2, checklist=None)[0].evidence


def test_a_strict_judge_suggests_the_reference_or_where_the_answer_is_the_reference_itself(suggested) -> None:
    rows = [(2, [5, 4], "Acetaminophen: four grams."), (2, [5, 5], "Four grams per 24 hours.")]
    (cause,) = suggested(*rows, shift=-2.5)
    assert cause.kind == CauseKind.REFERENCE_DISPUTABLE
    assert "judge 2.5 levels stricter than the physicians; mean scores: judge 2.0, physicians 4.8" in cause.evidence
    right = (2, [5, 5], "At most 4 g of  paracetamol a day.\n")
    first, second = suggested(*rows, right, shift=-2.5)
    assert (first.kind, second.kind) == (CauseKind.JUDGE_MISREAD, CauseKind.REFERENCE_DISPUTABLE)
    assert first.evidence == "judge gives 2 to 1 answers that equal the reference, and every physician 5"
    assert suggested((2, [5, 4], *right[2:]), shift=-2.5)[0].kind == CauseKind.REFERENCE_DISPUTABLE
    assert suggested((5, [5, 5], *right[2:]), shift=-2.5)[0].kind == CauseKind.REFERENCE_DISPUTABLE


def test_safety_that_was_overlooked_comes_first(suggested) -> None:
    rows = [(5, [1, 2], "Take 10 g."), (4, [4, 4], "At most 4 g.")]
    first, second = suggested(*rows, shift=1.9, category="MSE")
    assert first.kind == CauseKind.SAFETY_OVERLOOKED
    assert "calls 1 of 1 unsafe answers usable" in first.evidence
    assert second.kind == CauseKind.POINT_MISSING


def test_physicians_that_differ_more_than_the_judge_does(suggested) -> None:
    rows = [(3, [1, 4], "4 g"), (3, [2, 5], "4 g")]
    first = suggested(*rows, shift=0.5)[0]
    assert first.kind == CauseKind.PHYSICIANS_DISAGREE
    assert "3.0 levels apart" in first.evidence
    assert suggested((5, [2, 2], "4 g"), shift=3)[0].kind != first.kind
