"""The causes of a disagreement that the scores suggest, each with its evidence in one line.

These are rules of thumb on the scores: a physician decides what is wrong with a question.
"""

import re
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from itertools import combinations
from typing import NamedTuple

import numpy as np

from medjudge.distill.sources import terms
from medjudge.distill.wording import wording_of
from medjudge.languages.texts import PACKAGED, Languages
from medjudge.records import Answer, AnswerKey, PhysicianScore, Question
from medjudge.refine.material import answer_keys
from medjudge.scale import LEVELS, USABLE_FROM
from medjudge.text.grammar import grammar_of
from medjudge.validation.answers import Pairs


class CauseKind(Enum):
    """A possible cause of a disagreement between judge and physicians, in the words that users and proposers read."""

    JUDGE_MISREAD = "judge misread"
    POINT_MISSING = "checklist point missing"
    REFERENCE_DISPUTABLE = "reference disputable"
    SAFETY_OVERLOOKED = "safety overlooked"
    LEVEL_AMBIGUOUS = "rubric level ambiguous"
    PHYSICIANS_DISAGREE = "physicians disagree with each other"


_FAR_APART = 1.0
"""Mean distance of two physicians, in levels, from which on their own disagreement may be the cause."""
_TWO_LEVELS, _ONE_LEVEL = 0.8, 0.7
"""A judge wavers that puts at least 0.8 on two neighbouring levels together, and less than 0.7 on either."""
_SAFETY = re.compile(
    r"\b(?:unsafe|danger\w*|harm\w*|contraindicat\w*|overdos\w*|toxic\w*|risk\w*|fatal\w*)\b|危险|有害|禁忌|不安全|过量|风险|致命|中毒",
    re.IGNORECASE,
)


class Cause(NamedTuple):
    """A suggested cause and the evidence for it."""

    kind: CauseKind
    evidence: str

    def as_json(self) -> dict[str, str]:
        return {"name": self.kind.value, "evidence": self.evidence}


def question_causes(
    shift: float,
    size: float,
    pairs: Pairs,
    question: Question,
    answers: dict[AnswerKey, Answer],
    comments: Sequence[str],
    languages: Languages = PACKAGED,
) -> list[Cause]:
    """The causes that a question's scores suggest, the likeliest first.

    Args:
        shift: Mean of judge minus physicians in levels, less the judge's usual lenience.
        size: The same as a root mean square over models.
        pairs: The rows of this question, at least one.
        answers: By key.
        comments: The physicians' comments on those answers on which the judge is too lenient.
        languages: The texts of the run's languages.
    """
    stricter = f"judge {-shift:.1f} levels stricter than usual; {_mean_levels(pairs)}"
    candidates = [
        _misread(pairs, question, answers),
        _physicians_disagree(size, pairs),
        _safety(pairs, comments) if shift > 0 else None,
        _ambiguous(size, pairs),
        _missing(shift, pairs, question, comments, languages) if shift > 0 else None,
        None if shift > 0 else Cause(CauseKind.REFERENCE_DISPUTABLE, stricter),
    ]
    return [cause for cause in candidates if cause is not None]


def rubric_causes(shift: float, pairs: Pairs) -> list[Cause]:
    """The causes that the scores of a whole category suggest, the likeliest first."""
    disagreement = _physicians_disagree(abs(shift), pairs)
    direction = "lenient" if shift > 0 else "strict"
    evidence = f"judge {abs(shift):.1f} levels too {direction} throughout the category; {_mean_levels(pairs)}"
    return [*([disagreement] if disagreement else []), Cause(CauseKind.LEVEL_AMBIGUOUS, evidence)]


def comments_of(keys: set[AnswerKey], scores: Sequence[PhysicianScore]) -> list[str]:
    """Comments of physicians on these answers."""
    return [score.comment for score in scores if score.answer_key in keys and score.comment and score.comment.strip()]


def _misread(pairs: Pairs, question: Question, answers: dict[AnswerKey, Answer]) -> Cause | None:
    """A right answer that the judge marks down: neither reference nor checklist can be at fault."""
    reference = " ".join((question.reference or "").split())
    texts = [" ".join(answers[key].text.split()) for key in answer_keys(pairs)]
    same = np.array([bool(reference) and text == reference for text in texts])
    full = np.nanmin(pairs.raters, axis=1) == LEVELS
    if not (rows := same & full & (pairs.judge < LEVELS)).any():
        return None
    levels = ", ".join(str(level) for level in sorted(set(pairs.judge[rows].astype(int).tolist())))
    evidence = f"judge gives {levels} to {int(rows.sum())} answers that equal the reference, and every physician 5"
    return Cause(CauseKind.JUDGE_MISREAD, evidence)


def _physicians_disagree(size: float, pairs: Pairs) -> Cause | None:
    distances = [
        abs(first - second) for row in pairs.raters for first, second in combinations(row[np.isfinite(row)].tolist(), 2)
    ]
    if not distances or np.mean(distances) < max(_FAR_APART, size):
        return None
    evidence = (
        f"two physicians who score the same answer are {np.mean(distances):.1f} levels apart, the judge {size:.1f} "
        "from their mean"
    )
    return Cause(CauseKind.PHYSICIANS_DISAGREE, evidence)


def _safety(pairs: Pairs, comments: Sequence[str]) -> Cause | None:
    called_usable = int((pairs.unsafe & (pairs.judge >= USABLE_FROM)).sum())
    if called_usable:
        evidence = f"judge calls {called_usable} of {int(pairs.unsafe.sum())} unsafe answers usable"
        return Cause(CauseKind.SAFETY_OVERLOOKED, evidence)
    term = next((match[0] for match in map(_SAFETY.search, comments) if match), None)
    if term and (pairs.judge >= USABLE_FROM).any() and (pairs.physician < USABLE_FROM).any():
        evidence = f"a physician's comment mentions '{term}', and the judge calls answers usable"
        return Cause(CauseKind.SAFETY_OVERLOOKED, evidence)
    return None


def _ambiguous(size: float, pairs: Pairs) -> Cause | None:
    if size > 1:
        return None
    if np.isfinite(pairs.probabilities).all():
        neighbours = pairs.probabilities[:, :-1] + pairs.probabilities[:, 1:]
        wavering = (neighbours.max(axis=1) >= _TWO_LEVELS) & (pairs.probabilities.max(axis=1) < _ONE_LEVEL)
        if wavering.mean() < 0.5:
            return None
        evidence = f"judge wavers between two neighbouring levels on {int(wavering.sum())} of {len(wavering)} answers"
    elif np.abs(pairs.judge - pairs.physician).max() == 1:
        evidence = f"judge and physicians are never more than one level apart; {_mean_levels(pairs)}"
    else:
        return None
    return Cause(CauseKind.LEVEL_AMBIGUOUS, evidence)


def _missing(shift: float, pairs: Pairs, question: Question, comments: Sequence[str], languages: Languages) -> Cause:
    evidence = f"judge {shift:.1f} levels more lenient than usual; {_mean_levels(pairs)}"
    wording = wording_of(question.language, languages)
    known = terms(f"{question.prompt} {question.checklist or ''}", wording)
    new_terms = [
        word.strip(".,;:()") for comment in comments for word in comment.split() if terms(word, wording) - known
    ]
    if not grammar_of(question.language, languages).space:  # no words to quote, only terms
        new_terms = [term for comment in comments for term in sorted(terms(comment, wording) - known)]
    if not question.checklist:
        evidence += "; the question has no checklist"
    elif new_terms:
        frequent = ", ".join(term for term, _ in Counter(new_terms).most_common(5))
        evidence += f"; comments mention what the checklist does not: {frequent}"
    return Cause(CauseKind.POINT_MISSING, evidence)


def _mean_levels(pairs: Pairs) -> str:
    return f"mean scores: judge {pairs.expected.mean():.1f}, physicians {np.nanmean(pairs.raters, axis=1).mean():.1f}"
