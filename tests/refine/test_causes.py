import pytest

from medjudge.records import Judgment
from medjudge.refine.disagreements import CauseKind, question_causes
from medjudge.validation.answers import paired

RIGHT = "At most 4 g of  paracetamol a day.\n"
STRICT = [(2, [5, 4], "Acetaminophen: four grams."), (2, [5, 5], "Four grams per 24 hours.")]
MISSING, DISPUTABLE = CauseKind.POINT_MISSING, CauseKind.REFERENCE_DISPUTABLE
MISREAD, UNSAFE, APART = CauseKind.JUDGE_MISREAD, CauseKind.SAFETY_OVERLOOKED, CauseKind.PHYSICIANS_DISAGREE


@pytest.mark.parametrize(
    ("rows", "shift", "fields", "kinds", "evidence"),
    [
        ([(5, [3, 3], "Up to 4 g."), (5, [3, 2], "4 g.")], 2.2, {}, [MISSING], "judge 5.0, physicians 2.8"),
        ([(5, [3, 3], "Up to 4 g.")], 2.2, {"checklist": None}, [MISSING], "the question has no checklist"),
        (STRICT, -2.5, {}, [DISPUTABLE], "judge 2.5 levels stricter than the physicians; mean scores: judge"),
        ([*STRICT, (2, [5, 5], RIGHT)], -2.5, {}, [MISREAD, DISPUTABLE], "judge gives 2 to 1 answers that equal the "),
        ([(2, [5, 4], RIGHT)], -2.5, {}, [DISPUTABLE], ""),
        ([(5, [5, 5], RIGHT)], -2.5, {}, [DISPUTABLE], ""),
        ([(5, [1, 2], "10 g"), (4, [4, 4], "4 g")], 1.9, {"category": "MSE"}, [UNSAFE, MISSING], "1 of 1 unsafe"),
        ([(3, [1, 4], "4 g"), (3, [2, 5], "4 g")], 0.5, {}, [APART, MISSING], "3.0 levels apart"),
        ([(5, [2, 2], "4 g")], 3, {}, [MISSING], ""),
    ],
)
def test_scores_suggest_a_cause(
    question, answer, physician_score, rows, shift: float, fields: dict, kinds: list[CauseKind], evidence: str
) -> None:
    asked = question(**{"reference": "At most 4 g of paracetamol a day.", "checklist": "1. at most 4 g", **fields})
    answers, judgments, scores = {}, [], []
    for place, (level, by_raters, text) in enumerate(rows):
        made = answer(model=f"m{place}", text=text)
        answers[made.key] = made
        judgments.append(Judgment(**made.key._asdict(), judge="j", score=level))
        scores += [physician_score(model=made.model, rater=f"dr{k}", score=score) for k, score in enumerate(by_raters)]
    causes = question_causes(shift, abs(shift), paired([asked], judgments, scores), asked, answers)
    assert [cause.kind for cause in causes] == kinds
    assert evidence in causes[0].evidence
