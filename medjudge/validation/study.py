"""Measures the agreement of a judge with physicians: the study that `agreement/JUDGE.json` holds."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from medjudge.errors import InputError
from medjudge.judge.study_summary import AgainstKind, GateResult, Measures
from medjudge.records import CONSTRUCTED, Judgment, PhysicianScore, Question
from medjudge.rounds import raters_of
from medjudge.scheme import LLMEVAL_MED, Gate, Scheme
from medjudge.statistics.bootstrap import RESAMPLES, Method, Resampling, interval_text
from medjudge.statistics.measures import confusion, two_by_two
from medjudge.validation.agreement import measures_of
from medjudge.validation.answers import Pairs, paired
from medjudge.validation.confidence import confidence
from medjudge.validation.gate import gate_result
from medjudge.validation.narrative import cannot_conclude, weaknesses
from medjudge.validation.other_judges import LeaveOutStudy, against_teacher
from medjudge.validation.physicians import among_physicians
from medjudge.validation.probe_effect import ProbeStudy
from medjudge.validation.ranking import ranking
from medjudge.validation.rates import usability_rates
from medjudge.validation.records import Study


class Settings(NamedTuple):
    """The settings of a study.

    `gate` is the scheme's unless given; its `teacher_margin` is also the margin of non-inferiority to the teacher.
    """

    resamples: int = RESAMPLES
    seed: int = 0
    interval: Method = "bca"
    gate: Gate | None = None

    @property
    def how(self) -> Resampling:
        """The keywords of a bootstrap."""
        return {"resamples": self.resamples, "seed": self.seed, "method": self.interval}


def agreement_study(
    judge: str,
    questions: Sequence[Question],
    judgments: Sequence[Judgment],
    scores: Sequence[PhysicianScore],
    against: str | None = None,
    teacher: Sequence[Judgment] = (),
    settings: Settings = Settings(),
    scheme: Scheme = LLMEVAL_MED,
) -> Study:
    """Compares a judge with physicians: overall and by part, with physicians among each other, and with its teacher.

    Args:
        judgments: Its judgments; those of answers that no physician scored serve the prediction-powered rates.
        scores: The physicians' scores; answers with no judgment lower the coverage.
        against: The judge whose scores these are. By default they are by physicians, or constructed where all are.
        teacher: Judgments of the judge that this one is to replace.

    Returns:
        The study, checked against the gate as far as it goes; `with_parts` adds probes and left-out parts.

    Raises:
        InputError: No answer was scored by both.
    """
    raters = [rater for rater in raters_of(scores) if rater != CONSTRUCTED]
    if raters:  # constructed levels are not physicians' scores
        scores = [score for score in scores if score.rater != CONSTRUCTED]
    kind = AgainstKind.JUDGE if against else AgainstKind.PHYSICIANS if raters else AgainstKind.CONSTRUCTED
    raters = raters or [CONSTRUCTED]
    gate = settings.gate or scheme.gate
    pairs = paired(questions, judgments, scores, teacher, scheme)
    n = len(pairs.judge)
    if n == 0:
        raise InputError(f"judge {judge}: no answer has both a score of this judge and a physician's")
    scored_answers = len({score.answer_key for score in scores})
    how = settings.how
    # Rounds of another judge are not raters.
    ceiling = None if kind == AgainstKind.JUDGE else among_physicians(pairs, raters, **how)
    compared = None
    if teacher:
        compared = against_teacher(pairs, teacher[0].judge, gate.teacher_margin, **how)
        if compared is None:
            raise InputError(
                f"--teacher {teacher[0].judge}: it scored none of the {n} answers; let it judge them first"
            )
    in_category = {name: pairs.only(pairs.category == name) for name in scheme.category_ids if name in pairs.category}
    counts = confusion(pairs.judge, pairs.physician)
    of_physicians = kind == AgainstKind.PHYSICIANS
    study = Study(
        judge=judge,
        scheme=scheme.summary,
        against=against or kind.value,
        against_kind=kind,
        n=n,
        models=dict(sorted(Counter(map(str, pairs.model)).items())),
        questions=len({score.question_id for score in scores}),
        conversations=pairs.conversations,
        raters=raters,
        coverage=round(n / scored_answers, 6),
        interval=interval_text(settings.resamples, settings.interval),
        overall=measures_of(pairs, **how),
        by_category={name: measures_of(part, **how) for name, part in in_category.items()},
        conversations_by_category={name: part.conversations for name, part in in_category.items()},
        by_subcategory=_by(pairs, _subcategories(pairs), how),
        by_model=_by(pairs, pairs.model, how),
        by_difficulty=_by(pairs, pairs.difficulty, how),
        by_language=_by(pairs, pairs.language, how),
        confusion=counts.astype(int).tolist(),
        confusion_usable=two_by_two(counts).astype(int).tolist(),
        confusion_by_category={
            name: confusion(part.judge, part.physician).astype(int).tolist() for name, part in in_category.items()
        },
        physicians=ceiling,
        teacher=compared,
        ranking=ranking(pairs, **how),
        confidence=confidence(pairs, **how),
        usability=usability_rates(questions, judgments, scores, scheme) if of_physicians else None,
        weaknesses=weaknesses(pairs),
        cannot_conclude=cannot_conclude(pairs, ceiling is not None, compared is not None, of_physicians, scheme),
        gate=GateResult(passed=None, usual=True, checks=[]),
    )
    return with_parts(study, gate)


def with_parts(
    study: Study, gate: Gate, probes: ProbeStudy | None = None, leave_out: LeaveOutStudy | None = None
) -> Study:
    """The study with probes and left-out parts, and with the gate's checks of all of it."""
    whole = study.model_copy(update={"probes": probes, "leave_out": leave_out})
    return whole.model_copy(update={"gate": gate_result(whole, gate)})


def teacher_scores(judgments: Iterable[Judgment]) -> list[PhysicianScore]:
    """Another judge's scores as if they were a physician's, for `--against`; each round is a rater."""
    return [
        PhysicianScore(
            **judgment.answer_key._asdict(), rater=f"{judgment.judge}, round {judgment.round}", score=judgment.score
        )
        for judgment in judgments
        if judgment.score is not None
    ]


def _by(pairs: Pairs, column: np.ndarray, how: Resampling) -> dict[str, Measures]:
    return {name: measures_of(pairs.only(column == name), **how) for name in sorted(set(column) - {""})}


def _subcategories(pairs: Pairs) -> np.ndarray:
    """`MK · Drugs`: names are unique within a category only."""
    named = [
        f"{category} · {name}" if name else "" for category, name in zip(pairs.category, pairs.subcategory, strict=True)
    ]
    return np.array(named, dtype=object)
