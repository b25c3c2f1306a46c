"""Assembles the agreement of a judge with physicians into what `agreement/JUDGE.json` holds."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from medjudge.errors import InputError
from medjudge.records import CATEGORIES, CONSTRUCTED, Judgment, PhysicianScore, Question
from medjudge.rounds import raters_of
from medjudge.statistics.bootstrap import RESAMPLES, Method
from medjudge.statistics.estimates import Estimate
from medjudge.statistics.measures import confusion, two_by_two
from medjudge.validation.against_teacher import MARGIN, against_teacher
from medjudge.validation.confidence import confidence
from medjudge.validation.gate import Gate, gate_result
from medjudge.validation.measured import measured
from medjudge.validation.narrative import cannot_conclude, weaknesses
from medjudge.validation.pairs import Pairs, paired
from medjudge.validation.physicians import among_physicians
from medjudge.validation.ranking import ranking
from medjudge.validation.rates import usability_rates

_PARTS = ("model", "difficulty", "language")


class Settings(NamedTuple):
    """How a study is made.

    `error_rate` is that of the conformal sets; `margin` that of non-inferiority to the teacher; `width` the full
    width of a usability rate's interval that scores are planned for.
    """

    resamples: int = RESAMPLES
    seed: int = 0
    interval: Method = "bca"
    margin: float = MARGIN
    error_rate: float = 0.1
    width: float | None = None


def agreement_study(
    judge: str,
    questions: Sequence[Question],
    judgments: Sequence[Judgment],
    scores: Sequence[PhysicianScore],
    against: str | None = None,
    teacher: Sequence[Judgment] = (),
    settings: Settings = Settings(),
) -> dict[str, Any]:
    """Compares a judge with physicians: overall and by part, with physicians among each other, and with its teacher.

    Args:
        judge: The judge's name.
        judgments: Its judgments; those of answers that no physician scored serve the prediction-powered rates.
        scores: The physicians' scores; answers with no judgment lower the coverage.
        against: Who stands on the other side; physicians unless given, or the constructed levels where all scores are.
        teacher: Judgments of the judge that this one is to replace.

    Returns:
        The object of `agreement/JUDGE.json`, but for the gate, which `with_gate` adds.

    Raises:
        InputError: No answer was scored by both.
    """
    raters = [rater for rater in raters_of(scores) if rater != CONSTRUCTED]
    if raters:  # a level that was constructed is no physician's word
        scores = [score for score in scores if score.rater != CONSTRUCTED]
    named = against or ("physicians" if raters else "constructed levels")
    raters = raters or [CONSTRUCTED]
    pairs = paired(questions, judgments, scores, teacher)
    n = len(pairs.judge)
    if n == 0:
        raise InputError(f"judge {judge}: no answer has both a score of this judge and a physician's")
    wanted = len({score.answer_key for score in scores})
    options = (settings.resamples, settings.seed, settings.interval)
    methods = {"percentile": "percentile", "bca": "bias-corrected and accelerated"}
    # Rounds of another judge are no raters.
    ceiling = None if against else among_physicians(pairs, raters, *options)
    compared = against_teacher(pairs, teacher[0].judge, settings.margin, *options) if teacher else None
    if teacher and compared is None:
        raise InputError(f"--teacher {teacher[0].judge}: it scored none of the {n} answers; let it judge them first")
    return {
        "judge": judge,
        "against": named,
        "n": n,
        "questions": len({score.question_id for score in scores}),
        "conversations": _conversations(pairs),
        "raters": raters,
        "coverage": round(n / wanted, 6),
        "interval": (
            f"95 %, {methods[settings.interval]} bootstrap over conversations, {settings.resamples} resamples"
        ),
        "overall": measured(pairs, *options),
        "by_category": _by(pairs, pairs.category, CATEGORIES, settings),
        "conversations_by_category": {
            name: _conversations(pairs.only(pairs.category == name)) for name in CATEGORIES if name in pairs.category
        },
        "by_subcategory": _by(pairs, _subcategories(pairs), None, settings),
        **{f"by_{part}": _by(pairs, getattr(pairs, part), None, settings) for part in _PARTS},
        **_confusions(pairs),
        "physicians": ceiling,
        "teacher": compared,
        "ranking": ranking(pairs, settings.resamples, settings.seed),
        "confidence": confidence(pairs, settings.error_rate, settings.resamples, settings.seed, settings.interval),
        "usability": (usability_rates(questions, judgments, scores, settings.width) if named == "physicians" else None),
        "probes": None,
        "leave_out": None,
        "weaknesses": weaknesses(pairs),
        "cannot_conclude": cannot_conclude(pairs, ceiling is not None, compared is not None, named == "physicians"),
    }


def with_gate(study: dict[str, Any], gate: Gate) -> dict[str, Any]:
    """The study with the gate's result, after probes and all else that the gate looks at were added."""
    return {**study, "gate": gate_result(study, gate)}


def teacher_scores(judgments: Iterable[Judgment]) -> list[PhysicianScore]:
    """Another judge's scores in the physicians' place, for `--against`."""
    return [
        PhysicianScore(
            question_id=one.question_id,
            model=one.model,
            sample=one.sample,
            rater=f"{one.judge}, round {one.round}",
            score=one.score,
        )
        for one in judgments
        if one.score is not None
    ]


def _by(
    pairs: Pairs, column: np.ndarray, names: Sequence[str] | None, settings: Settings
) -> dict[str, dict[str, Estimate]]:
    present = set(column) - {""}
    return {
        name: measured(pairs.only(column == name), settings.resamples, settings.seed, settings.interval)
        for name in (sorted(present) if names is None else names)
        if name in present
    }


def _subcategories(pairs: Pairs) -> np.ndarray:
    """`MK · Drugs`: names are unique within a category only."""
    named = [f"{one} · {name}" if name else "" for one, name in zip(pairs.category, pairs.subcategory, strict=True)]
    return np.array(named, dtype=object)


def _confusions(pairs: Pairs) -> dict[str, Any]:
    """How often each pair of levels was given: judge by row, physicians by column; and not usable / usable."""

    def counted(rows: np.ndarray) -> np.ndarray:
        return confusion(pairs.judge[rows], pairs.physician[rows])

    whole = counted(np.ones(len(pairs.judge), dtype=bool))
    by_category = {name: counted(pairs.category == name) for name in CATEGORIES if name in pairs.category}
    return {
        "confusion": whole.astype(int).tolist(),
        "confusion_usable": two_by_two(whole).astype(int).tolist(),
        "confusion_by_category": {name: counts.astype(int).tolist() for name, counts in by_category.items()},
    }


def _conversations(pairs: Pairs) -> int:
    return len(np.unique(pairs.conversation))
