"""The table of `eval/built_in_folds.py`: the built-in judge, and what each part of its making brings."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
from built_in_data import Sets, folds, from_systems, read_sets, unseen
from scipy.stats import spearmanr

from medjudge.records import Judgment, PhysicianScore, TrainingLine
from medjudge.scale import median_level
from medjudge.statistics.estimates import Estimate
from medjudge.statistics.two_judges import compare
from medjudge.validation.agreement import measures_of
from medjudge.validation.pairs import Pairs, paired

FOLDS = 5
ABLATED = 2
"""How many of the folds every variant is trained on, with seed 0; what is shipped, on all."""
COMPARED = f"seed 0, folds 0 to {ABLATED - 1}"
MEASURES = ("usable_agreement", "cohen_kappa", "quadratic_kappa", "spearman", "bias")
RESAMPLES = 2000
CHANGES = {
    "without intermediate training": "Leaving out the intermediate training on MedQuAD",
    "hard labels": "Hard labels instead of soft ones",
    "squared error instead of ordinal loss": "Squared error of the expected level instead of the ordinal loss",
    "without synthetic answers": "Leaving out the 200 synthetic answers",
    "Alexa questions as messages": "Putting half of the Alexa questions into messages",
    "without references": "Leaving all references out of the training",
    "without LiveQA and what is made from it": "Leaving out LiveQA's answers, references and synthetic answers",
    "256 tokens": "Reading 256 tokens instead of 128",
    "512 tokens": "Reading 512 tokens instead of 128",
    "4 windows of 128 tokens": "Reading four windows of 128 tokens instead of one",
    "full fine-tuning": "Training the whole body instead of an adapter",
}
"""How the lesson of a variant begins."""


class Job(NamedTuple):
    """One training run."""

    variant: str
    seed: int
    fold: int

    @property
    def name(self) -> str:
        return f"{self.variant.replace(' ', '-')}-seed{self.seed}-fold{self.fold}"


class Measured(NamedTuple):
    """What is measured on: by fold, answers that a judge trained without the fold has never seen."""

    mediqa: dict[int, list[TrainingLine]]
    liveqa: dict[int, list[TrainingLine]]
    validation: list[TrainingLine]


def measured_on(work: Path) -> Measured:
    """The answers whose text and question are in no training line of their fold's judges."""
    sets = read_sets(work)
    fold_of = folds(sets.scored, FOLDS, seed=0)
    mediqa, systems = {}, {}
    for fold in range(FOLDS):
        tested, trained = divided(sets, fold_of, fold)
        mediqa[fold] = unseen(tested, trained)
        systems[fold] = unseen(from_systems(sets.liveqa, fold_of, fold), trained)
    return Measured(mediqa, systems, unseen(sets.validation, [*sets.scored, *sets.liveqa]))


class Divided(NamedTuple):
    """The lines of a fold, and those that its judge is trained on."""

    tested: list[TrainingLine]
    trained: list[TrainingLine]


def divided(sets: Sets, fold_of: dict[str, int], fold: int) -> Divided:
    """Divides all lines by whether they are in a fold."""
    return Divided(
        [line for line in sets.scored if fold_of[line.question.group] == fold],
        [line for line in (*sets.scored, *sets.liveqa) if fold_of[line.question.group] != fold],
    )


def pairs_of(lines: Sequence[TrainingLine], probabilities: dict[str, list[float]]) -> Pairs:
    """The answers with their experts' level and the judge's probabilities."""
    judgments, scores = [], []
    for line in lines:
        row = probabilities.get(f"{line.question.id}|{line.answer.model}")
        if row is None:
            continue
        question_id, model = line.question.id, line.answer.model
        level = median_level(np.array(row))
        expected = float(np.dot(row, np.arange(1, 6)))
        judgments.append(
            Judgment(
                question_id=question_id,
                model=model,
                judge="built-in",
                score=level,
                expected=expected,
                probabilities=row,
            )
        )
        scores.append(PhysicianScore(question_id=question_id, model=model, rater=line.scored_by[0], score=line.level))
    return paired([line.question for line in lines], judgments, scores)


def by_question(pairs: Pairs) -> dict[str, float]:
    """Spearman's correlation within each question whose answers differ in level and in expected score."""
    correlations = {}
    for question in np.unique(pairs.question_id):
        rows = pairs.question_id == question
        if len(set(pairs.physician[rows])) > 1 and len(set(pairs.expected[rows])) > 1:
            correlations[str(question)] = float(spearmanr(pairs.expected[rows], pairs.physician[rows])[0])
    return correlations


def intervals(pairs: Pairs) -> dict[str, Estimate]:
    """The measures of the table, with 95 % intervals from 2,000 resamples of the questions."""
    measures = measures_of(pairs, resamples=RESAMPLES)
    within = mean_interval(by_question(pairs).values())
    return {**{name: measures[name] for name in MEASURES}, "spearman_within_questions": within}


def mean_interval(values: Iterable[float]) -> Estimate:
    """A mean over questions with its normal 95 % interval."""
    array = np.array(list(values))
    middle, half = float(array.mean()), 1.96 * float(array.std(ddof=1)) / len(array) ** 0.5
    return {"value": round(middle, 4), "low": round(middle - half, 4), "high": round(middle + half, 4)}


def summary(jobs: Sequence[Job], work: Path, measured: Measured) -> dict[str, Any]:
    """One row of the table: mean and spread over the runs, and the compared folds together with intervals.

    `liveqa` is agreement with NIST's scores of LiveQA's answers, by judges that read each answer's reference or do not.
    """
    results = {job: json.loads((work / "folds" / job.name / "probabilities.json").read_text()) for job in jobs}
    per_run = [intervals(pairs_of(measured.mediqa[job.fold], each["fold"])) for job, each in results.items()]

    def elsewhere(its_jobs: Sequence[Job]) -> dict[str, Any]:
        """On the validation file and on LiveQA."""
        rows = {
            "validation_file": [
                intervals(pairs_of(measured.validation, results[job]["validation"])) for job in its_jobs
            ]
        }
        for name in ("liveqa with references", "liveqa without references"):
            rows[name] = [intervals(pairs_of(measured.liveqa[job.fold], results[job][name])) for job in its_jobs]
        return {name: spread(each) for name, each in rows.items()}

    return {
        "runs": len(jobs),
        "answers": {
            "folds": sum(len(measured.mediqa[fold]) for fold in {job.fold for job in jobs}),
            "liveqa": sum(len(measured.liveqa[fold]) for fold in {job.fold for job in jobs}),
            "validation_file": len(measured.validation),
        },
        "folds": spread(per_run),
        **elsewhere(jobs),
        COMPARED: intervals(all_folds(compared(jobs), work, measured)) | elsewhere(compared(jobs)),
        "per_run": [{"fold": job.fold, "seed": job.seed, **run} for job, run in zip(jobs, per_run, strict=True)],
    }


def compared(jobs: Sequence[Job]) -> list[Job]:
    """The runs that every variant has."""
    return [job for job in jobs if job.seed == 0 and job.fold < ABLATED]


def all_folds(jobs: Sequence[Job], work: Path, measured: Measured) -> Pairs:
    """The measured answers of these runs' folds, each judged by the judge that was trained without its question.

    Args:
        jobs: Of one variant and one seed, each of another fold.
        work: The folder of `eval/built_in.py`.
        measured: The answers that count.
    """
    probabilities: dict[str, list[float]] = {}
    for job in jobs:
        probabilities |= json.loads((work / "folds" / job.name / "probabilities.json").read_text())["fold"]
    return pairs_of([line for job in jobs for line in measured.mediqa[job.fold]], probabilities)


def against_shipped(variant: Pairs, shipped: Pairs) -> dict[str, Estimate]:
    """A variant minus what is shipped, of the same seed, on the same answers; intervals over the questions."""
    changed = compare(variant.judge, shipped.judge, variant.physician, variant.conversation, RESAMPLES)
    first, second = by_question(variant), by_question(shipped)
    return {
        **{name: changed.difference[name] for name in ("usable_agreement", "quadratic_kappa")},
        "spearman_within_questions": mean_interval(first[name] - second[name] for name in first if name in second),
    }


def lesson(name: str, change: dict[str, Estimate]) -> str:
    """One line on what a variant shows: a difference counts where its 95 % interval excludes 0."""
    findings = []
    for measure, label in (("usable_agreement", "accuracy"), ("spearman_within_questions", "order within a question")):
        value, low, high = (float(change[measure][side] or 0) for side in ("value", "low", "high"))
        verdict = "better" if low > 0 else "worse" if high < 0 else "inconclusive"
        findings.append(f"{label} {value:+.3f} ({low:+.3f} to {high:+.3f}), {verdict}")
    return f"{CHANGES[name]}: {'; '.join(findings)}."


def markdown(table: Mapping[str, Any], shipped: str) -> str:
    """The table for people: each variant beside what is shipped, of the same seed and folds, and its lesson."""
    headings = (
        "variant",
        "accuracy at usable",
        "quadratic kappa",
        "Spearman",
        "within a question",
        "validation file: accuracy",
        "LiveQA: Spearman",
    )
    lines = [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings)]
    for name, row in table.items():
        together = row[COMPARED]
        validation = together["validation_file"]["usable_agreement"]["mean"]
        liveqa = together["liveqa with references"]["spearman"]["mean"]
        cells = [_with_interval(together[measure]) for measure in ("usable_agreement", "quadratic_kappa", "spearman")]
        cells += [_with_interval(together["spearman_within_questions"]), f"{validation:.3f}", f"{liveqa:.2f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lessons = [f"- {row['lesson']}" for name, row in table.items() if name != shipped]
    return "\n".join([*lines, "", *lessons]) + "\n"


def _with_interval(estimate: Estimate) -> str:
    return f"{estimate['value']:.3f} ({estimate['low']:.3f} to {estimate['high']:.3f})"


def spread(runs: Sequence[dict[str, Estimate]]) -> dict[str, dict[str, float]]:
    """Mean and standard deviation over runs, by measure."""
    values = {name: [float(run[name]["value"] or 0) for run in runs] for name in runs[0]}
    return {
        name: {"mean": round(mean(each), 4), "sd": round(stdev(each), 4) if len(each) > 1 else 0.0}
        for name, each in values.items()
    }
