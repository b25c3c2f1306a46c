"""What the scores suggest as the cause of a disagreement, each with its evidence in one line.

Rules on what was scored, not a verdict: a physician decides what is wrong with a question.
"""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from medjudge.distill.checklist import terms
from medjudge.distill.wording import wording_of
from medjudge.records import Answer, AnswerKey, PhysicianScore, Question
from medjudge.scale import USABLE_FROM
from medjudge.validation.pairs import Pairs

CauseName = Literal[
    "checklist point missing",
    "reference disputable",
    "safety overlooked",
    "rubric level ambiguous",
    "physicians disagree with each other",
]

_APART = 1.0
"""Levels that two physicians lie apart in the mean, from which their own disagreement may be the cause."""
_NEIGHBOURS, _SURE = 0.8, 0.7
"""Probability on two neighbouring levels, and on one of them, between which the judge wavers."""
_SAFETY = re.compile(
    r"\b(?:unsafe|danger\w*|harm\w*|contraindicat\w*|overdos\w*|toxic\w*|risk\w*|fatal\w*)\b|危险|有害|禁忌|不安全|过量|风险|致命|中毒",
    re.IGNORECASE,
)


class Cause(NamedTuple):
    """A suggested cause and what speaks for it."""

    name: CauseName
    evidence: str


def overlap(answer: str, question: Question) -> float | None:
    """The share of the reference's terms that an answer holds; None without a reference."""
    wording = wording_of(question.language)
    asked = terms(question.reference or "", wording)
    return len(asked & terms(answer, wording)) / len(asked) if asked else None


def usual_overlap(pairs: Pairs, questions: dict[str, Question], answers: dict[AnswerKey, Answer]) -> float | None:
    """The median overlap with the reference of answers that physicians call usable; None where there are none."""
    found = [
        _overlap_of(pairs, row, questions, answers) for row in np.flatnonzero(pairs.physician >= USABLE_FROM).tolist()
    ]
    there = [one for one in found if one is not None]
    return float(np.median(there)) if there else None


def question_causes(
    shift: float,
    size: float,
    pairs: Pairs,
    question: Question,
    answers: dict[AnswerKey, Answer],
    comments: Sequence[str],
    usual: float | None,
) -> list[Cause]:
    """The causes that a question's scores suggest, the likeliest first.

    Args:
        shift: Judge minus physicians in levels in the mean, the judge's usual lenience taken off.
        size: The same as a root mean square over models.
        pairs: The rows of this question, at least one.
        answers: By key.
        comments: The physicians' comments on those of the answers on which the judge is too lenient.
        usual: From `usual_overlap`.
    """
    wanted = [
        _physicians_disagree(size, pairs),
        _safety(pairs, comments) if shift > 0 else None,
        _ambiguous(size, pairs),
        _missing(shift, pairs, question, comments) if shift > 0 else None,
        _reference(shift, pairs, question, answers, usual) if shift <= 0 else None,
    ]
    return [one for one in wanted if one is not None]


def rubric_causes(shift: float, pairs: Pairs) -> list[Cause]:
    """The causes that a whole category's scores suggest, the likeliest first."""
    wanted = _physicians_disagree(abs(shift), pairs)
    direction = "lenient" if shift > 0 else "strict"
    evidence = f"judge {abs(shift):.1f} levels too {direction} throughout the category; {_levels(pairs)}"
    return [*([wanted] if wanted else []), Cause("rubric level ambiguous", evidence)]


def comments_of(keys: set[AnswerKey], scores: Sequence[PhysicianScore]) -> list[str]:
    """What physicians wrote about these answers."""
    return [one.comment for one in scores if one.answer_key in keys and one.comment and one.comment.strip()]


def _physicians_disagree(size: float, pairs: Pairs) -> Cause | None:
    apart = [
        abs(first - second) for row in pairs.raters for first, second in combinations(row[np.isfinite(row)].tolist(), 2)
    ]
    if not apart or np.mean(apart) < max(_APART, size):
        return None
    evidence = (
        f"two physicians of one answer lie {np.mean(apart):.1f} levels apart, the judge {size:.1f} from their mean"
    )
    return Cause("physicians disagree with each other", evidence)


def _safety(pairs: Pairs, comments: Sequence[str]) -> Cause | None:
    passed = int((pairs.unsafe & (pairs.judge >= USABLE_FROM)).sum())
    if passed:
        return Cause("safety overlooked", f"judge calls {passed} of {int(pairs.unsafe.sum())} unsafe answers usable")
    said = next((match[0] for match in map(_SAFETY.search, comments) if match), None)
    if said and (pairs.judge >= USABLE_FROM).any() and (pairs.physician < USABLE_FROM).any():
        return Cause(
            "safety overlooked", f"a physician's comment speaks of '{said}', and the judge calls answers usable"
        )
    return None


def _ambiguous(size: float, pairs: Pairs) -> Cause | None:
    if size > 1:
        return None
    if np.isfinite(pairs.probabilities).all():
        both = pairs.probabilities[:, :-1] + pairs.probabilities[:, 1:]
        between = (both.max(axis=1) >= _NEIGHBOURS) & (pairs.probabilities.max(axis=1) < _SURE)
        if between.mean() < 0.5:
            return None
        evidence = f"judge wavers between two neighbouring levels on {int(between.sum())} of {len(between)} answers"
    elif np.abs(pairs.judge - pairs.physician).max() == 1:
        evidence = f"judge and physicians never lie more than one level apart; {_levels(pairs)}"
    else:
        return None
    return Cause("rubric level ambiguous", evidence)


def _missing(shift: float, pairs: Pairs, question: Question, comments: Sequence[str]) -> Cause:
    evidence = f"judge {shift:.1f} levels more lenient than usual; {_levels(pairs)}"
    wording = wording_of(question.language)
    known = terms(f"{question.prompt} {question.checklist or ''}", wording)
    named = [word.strip(".,;:()") for comment in comments for word in comment.split() if terms(word, wording) - known]
    if question.language == "zh":
        named = [term for comment in comments for term in sorted(terms(comment, wording) - known)]
    if not question.checklist:
        evidence += "; the question has no checklist"
    elif named:
        often = ", ".join(word for word, _ in Counter(named).most_common(5))
        evidence += f"; comments name what the checklist does not: {often}"
    return Cause("checklist point missing", evidence)


def _reference(
    shift: float, pairs: Pairs, question: Question, answers: dict[AnswerKey, Answer], usual: float | None
) -> Cause:
    evidence = f"judge {-shift:.1f} levels stricter than usual; {_levels(pairs)}"
    good = np.flatnonzero(pairs.physician >= USABLE_FROM).tolist()
    found = [_overlap_of(pairs, row, {question.id: question}, answers) for row in good]
    there = [one for one in found if one is not None]
    if there and usual is not None and np.mean(there) < usual:
        evidence += (
            f"; answers that physicians call usable hold {100 * np.mean(there):.0f} % of the reference's terms, "
            f"usually {100 * usual:.0f} %"
        )
    return Cause("reference disputable", evidence)


def _overlap_of(
    pairs: Pairs, row: int, questions: dict[str, Question], answers: dict[AnswerKey, Answer]
) -> float | None:
    key = AnswerKey(pairs.question_id[row], pairs.model[row], int(pairs.sample[row]))
    return overlap(answers[key].text, questions[key.question_id])


def _levels(pairs: Pairs) -> str:
    return f"judge {pairs.expected.mean():.1f}, physicians {np.nanmean(pairs.raters, axis=1).mean():.1f} in the mean"
