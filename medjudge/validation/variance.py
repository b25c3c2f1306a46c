"""Where the variance of a judge's scores in a run comes from, and what would narrow the interval of a model's mean."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from medjudge.errors import InputError
from medjudge.files import first_problem, model_from_json, read_text
from medjudge.records import Judgment
from medjudge.rounds import expected_of
from medjudge.statistics.variance_components import Components, Rows, Sizes, standard_error, variance_components
from medjudge.store import Run

MOST_QUESTIONS = 150
"""More questions say little more about variances, and the fit takes minutes: so many are drawn."""
_NORMAL = 1.959964
_Size = Literal["questions", "samples", "rounds"]
_MORE: tuple[_Size, ...] = ("questions", "samples", "rounds")
_REPEATED: tuple[_Size, ...] = ("samples", "rounds")


class VarianceStudy(BaseModel):
    """`variance/JUDGE.json` of a run: variances in squared levels, and half-widths of 95 % intervals in levels.

    A variance is null where the run cannot separate it: `interaction` of question and model with one model or one
    sample, `judge` with one round. `measured_on` counts the questions of the fit, the sizes those of the run.
    `half_width` is that of a model's mean level over questions like these, `half_width_between` that of the difference
    of two models on the same questions; `doubled` has what twice the questions, samples or rounds would make of the
    former, and `floor` what it stays above however many samples and rounds there are.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    measured_on: int
    questions: int
    samples: int
    rounds: int
    between_questions: float
    interaction: float | None
    answers: float | None
    judge: float | None
    converged: bool
    half_width: float
    half_width_between: float
    doubled: dict[_Size, float]
    floor: float

    @property
    def lines(self) -> list[str]:
        """The result for people."""
        parts = {
            "between questions": self.between_questions,
            "question and model": self.interaction,
            "answers" if self.judge is not None else "answers and judge together": self.answers,
            "judge": self.judge,
        }
        known = {name: value for name, value in parts.items() if value is not None}
        total = sum(known.values()) or 1.0
        shares = ", ".join(f"{name} {100 * value / total:.0f} %" for name, value in known.items())
        changes = "; ".join(f"twice the {name} ±{self.doubled[name]:.2f}" for name in _MORE)
        most = min(_MORE, key=lambda name: self.doubled[name])
        next_best = min(_REPEATED, key=lambda name: self.doubled[name])
        lines = [
            f"variance of a score, {total:.2f} squared levels: {shares}",
            f"a model's mean level has ±{self.half_width:.2f} with {self.questions} questions, {self.samples} samples, "
            f"{self.rounds} rounds: {changes}",
            f"more {most} narrow it most, then more {next_best}; with these questions it stays above ±{self.floor:.2f}",
        ]
        return lines if self.converged else [*lines, "the fit did not converge: take these numbers as rough"]


def variance_file(run: Run, judge: str) -> Path:
    """Where a run keeps it."""
    return run.path / "variance" / f"{judge}.json"


def variance_study(judgments: Sequence[Judgment], seed: int = 0) -> VarianceStudy | None:
    """Separates the variance of expected scores (of scores, where a judge gives no probabilities).

    Args:
        judgments: Of one judge, all models, samples and rounds.
        seed: Of the draw, where there are more than 150 questions.

    Returns:
        None where neither samples nor rounds repeat anything, no score differs, or fewer than three questions have one.

    Raises:
        ImportError: statsmodels is not installed.
    """
    scored = [judgment for judgment in judgments if judgment.score is not None]
    ids = sorted({judgment.question_id for judgment in scored})
    if len(ids) < 3:
        return None
    sizes = Sizes(
        len(ids),
        len({judgment.sample for judgment in scored}),
        len({judgment.round for judgment in scored}),
    )
    if sizes.samples == sizes.rounds == 1:
        return None
    drawn = set(np.random.default_rng(seed).permutation(ids)[:MOST_QUESTIONS].tolist())
    chosen = [judgment for judgment in scored if judgment.question_id in drawn]
    found = variance_components(
        Rows(
            np.array([expected_of([judgment]) for judgment in chosen]),
            np.array([judgment.question_id for judgment in chosen], dtype=object).astype(str),
            np.array([judgment.model for judgment in chosen], dtype=object).astype(str),
            np.array([judgment.sample for judgment in chosen]),
            np.array([judgment.round for judgment in chosen]),
        )
    )
    return None if found is None else _study(found, sizes, len(drawn))


def _study(found: Components, sizes: Sizes, measured_on: int) -> VarianceStudy:
    def half(design: Sizes, between_models: bool = False) -> float:
        return round(_NORMAL * standard_error(found, design, between_models=between_models), 4)

    return VarianceStudy(
        measured_on=measured_on,
        questions=sizes.questions,
        samples=sizes.samples,
        rounds=sizes.rounds,
        between_questions=round(found.questions, 6),
        interaction=None if found.interaction is None else round(found.interaction, 6),
        answers=None if found.answers is None else round(found.answers, 6),
        judge=None if found.judge is None else round(found.judge, 6),
        converged=found.converged,
        half_width=half(sizes),
        half_width_between=half(sizes, between_models=True),
        doubled={
            "questions": half(sizes._replace(questions=2 * sizes.questions)),
            "samples": half(sizes._replace(samples=2 * sizes.samples)),
            "rounds": half(sizes._replace(rounds=2 * sizes.rounds)),
        },
        floor=half(sizes._replace(samples=10**9)),
    )


def read_variance(run: Run, judge: str) -> VarianceStudy | None:
    """What `medjudge eval` wrote of a judge; None where nothing was repeated.

    Raises:
        InputError: The file is not such a record.
    """
    file = variance_file(run, judge)
    if not file.exists():
        return None
    try:
        return model_from_json(VarianceStudy, read_text(file))
    except ValueError as error:
        raise InputError(f"{file}: {first_problem(error)}; run `medjudge eval` again") from None
