"""The sources of variance in a judge's scores, and the ways to narrow the interval of a model's mean.

The mixed model is fitted by statsmodels (extra `variance`), which is imported when it is needed.
"""

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from medjudge.files import write_json
from medjudge.judge.study_summary import read_result
from medjudge.records import Judgment
from medjudge.rounds import expected_of
from medjudge.screen import say
from medjudge.statistics.estimates import Record
from medjudge.store import Run

MOST_QUESTIONS = 150
"""More questions say little more about variances, and the fit takes minutes: so many are drawn."""
_NORMAL = 1.959964
_Size = Literal["questions", "samples", "rounds"]


class VarianceStudy(Record):
    """`variance/JUDGE.json` of a run: variances in squared levels, and half-widths of 95 % intervals in levels.

    A variance is null where the run cannot separate it: `interaction` of question and model with one model or one
    sample, `judge` with one round. `measured_on` counts the questions of the fit, the sizes those of the run.
    `half_width` is that of a model's mean level over questions like these, `half_width_between` that of the difference
    of two models on the same questions; `doubled` has what twice the questions, samples or rounds would make of the
    former, and `floor` what it stays above however many samples and rounds there are.
    """

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
        changes = "; ".join(f"twice the {name} ±{half:.2f}" for name, half in self.doubled.items())
        best = sorted(self.doubled, key=lambda name: self.doubled[name])
        repeated = next(name for name in best if name != "questions")
        lines = [
            f"variance of a score, {total:.2f} squared levels: {shares}",
            f"a model's mean level has ±{self.half_width:.2f} with {self.questions} questions, {self.samples} samples, "
            f"{self.rounds} rounds: {changes}",
            f"more {best[0]} narrow it most, then more {repeated}; with these questions it stays above "
            f"±{self.floor:.2f}",
        ]
        return lines if self.converged else [*lines, "the fit did not converge: take these numbers as rough"]


class Components(NamedTuple):
    """Variances of a score, 0 or more; None where the design cannot separate one from the next below it.

    Attributes:
        questions: Between questions: how hard they are for all models.
        interaction: Of question and model: what is hard for one model only.
        answers: Between answers of one model to one question; with one sample each it holds the interaction, too.
        judge: Between judgments of one answer; with one round it is part of the answers'.
        converged: Whether the fit ended where the likelihood is flat.
    """

    questions: float
    interaction: float | None
    answers: float | None
    judge: float | None
    converged: bool = True


class Rows(NamedTuple):
    """One row a judgment; every array has shape (n,). `sample` and `judging` count from any number."""

    score: np.ndarray
    question: np.ndarray
    model: np.ndarray
    sample: np.ndarray
    judging: np.ndarray


class Sizes(NamedTuple):
    """A design: questions, answers per question and model, judgments per answer."""

    questions: int
    samples: int
    rounds: int


def variance_components(rows: Rows) -> Components | None:
    """Restricted maximum likelihood of a model with models as fixed effects and all else random.

    Questions are crossed with models; answers are nested in both, and judgments in answers (Brennan, Generalizability
    Theory, 2001, chapter 3).

    Returns:
        None where every answer was judged once and every question answered once, or where no score differs.

    Raises:
        ImportError: statsmodels is not installed.
    """
    cell = np.unique(np.column_stack([rows.question, rows.model]), axis=0, return_inverse=True)[1].ravel()
    answer = np.unique(np.column_stack([cell, rows.sample]), axis=0, return_inverse=True)[1].ravel()
    sampled, judged = answer.max() > cell.max(), len(answer) > answer.max() + 1
    if (not sampled and not judged) or np.ptp(rows.score) == 0:
        return None
    means = np.bincount(answer, rows.score) / np.bincount(answer)
    if judged and ((rows.score - means[answer]) ** 2).max() < 1e-12:
        # Every round repeats the first: the judge varies by nothing, and the rounds are no data.
        _, first = np.unique(answer, return_index=True)
        once = variance_components(Rows(*(column[first] for column in rows)))
        if once is None:
            return Components(float(np.var(rows.score[first], ddof=1)), None, None, 0.0)
        return once._replace(judge=0.0)
    import pandas as pd
    from statsmodels.formula.api import mixedlm

    several = len(np.unique(rows.model)) > 1
    frame = pd.DataFrame({"score": rows.score, "question": rows.question, "model": rows.model})
    frame["cell"], frame["answer"] = cell, answer
    random = {"answers": "0 + C(answer)"} if judged and (sampled or several) else {}
    if several and sampled:
        random["interaction"] = "0 + C(cell)"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a variance at its boundary of 0 is a finding
        fixed = "score ~ C(model)" if several else "score ~ 1"
        fit = mixedlm(fixed, frame, groups="question", re_formula="1", vc_formula=random or None).fit(reml=True)
    found = {name: max(0.0, float(value)) for name, value in zip(sorted(random), fit.vcomp, strict=True)}
    rest = float(fit.scale)
    answers = found.get("answers", None if judged else rest)
    between = max(0.0, float(np.asarray(fit.cov_re)[0, 0]))
    return Components(between, found.get("interaction"), answers, rest if judged else None, bool(fit.converged))


def standard_error(components: Components, sizes: Sizes, *, between_models: bool = False) -> float:
    """Of a model's mean score over questions, or of the difference of two models on the same questions.

    The arithmetic of a decision study (Cronbach et al., 1972; Brennan, 2001, chapter 4): each variance is divided by
    how often it is drawn.

    Args:
        sizes: A design, which need not be the one that was measured.
    """
    questions, samples, rounds = sizes
    shared = 0.0 if between_models else components.questions
    variance = (shared + (components.interaction or 0.0)) / questions
    variance += (components.answers or 0.0) / (questions * samples)
    variance += (components.judge or 0.0) / (questions * samples * rounds)
    return float(np.sqrt(2 * variance if between_models else variance))


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
    sizes = Sizes(len(ids), len({judgment.sample for judgment in scored}), len({one.round for one in scored}))
    if len(ids) < 3 or sizes.samples == sizes.rounds == 1:
        return None
    drawn = set(np.random.default_rng(seed).permutation(ids)[:MOST_QUESTIONS].tolist())
    chosen = [judgment for judgment in scored if judgment.question_id in drawn]
    columns = zip(*((expected_of([j]), j.question_id, j.model, j.sample, j.round) for j in chosen), strict=True)
    found = variance_components(Rows(*(np.array(column) for column in columns)))
    if found is None:
        return None

    def half(design: Sizes, between_models: bool = False) -> float:
        return round(_NORMAL * standard_error(found, design, between_models=between_models), 4)

    def variance(value: float | None) -> float | None:
        return None if value is None else round(value, 6)

    return VarianceStudy(
        measured_on=len(drawn),
        **sizes._asdict(),
        between_questions=round(found.questions, 6),
        interaction=variance(found.interaction),
        answers=variance(found.answers),
        judge=variance(found.judge),
        converged=found.converged,
        half_width=half(sizes),
        half_width_between=half(sizes, between_models=True),
        doubled={name: half(sizes._replace(**{name: 2 * size})) for name, size in sizes._asdict().items()},
        floor=half(sizes._replace(samples=10**9)),
    )


def write_variance(run: Run, judge: str) -> VarianceStudy | None:
    """Separates the variance of a judge's scores, and writes `variance/JUDGE.json`.

    Returns:
        None where neither samples nor rounds repeat anything, or where statsmodels is missing, which is said.
    """
    judgments = run.judgments(judge)
    if max(len({one.sample for one in judgments}), len({one.round for one in judgments})) < 2:
        return None
    if find_spec("statsmodels") is None:
        say("the variance of answers and judge is not separated; pip install 'medjudge[variance]'")
        return None
    study = variance_study(judgments)
    if study is not None:
        write_json(_file(run, judge), study.model_dump(mode="json"))
    return study


def read_variance(run: Run, judge: str) -> VarianceStudy | None:
    """The variances that `medjudge eval` wrote of a judge; None where nothing was repeated.

    Raises:
        InputError: The file is not such a record.
    """
    return read_result(VarianceStudy, _file(run, judge), "medjudge eval")


def _file(run: Run, judge: str) -> Path:
    return run.path / "variance" / f"{judge}.json"
