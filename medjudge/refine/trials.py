"""Tries each proposed text: answers are judged again with it, and held-out agreement decides whether it is kept.

Agreement is measured in levels: an answer's improvement is how much closer the judge's expected score came to the
physicians' mean. Usable agreement of five answers moves in steps of a fifth and shows little; it only must not fall.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import false_discovery_control
from scipy.stats import t as student

from medjudge.records import Answer, AnswerKey, Judgment, Question
from medjudge.refine.disagreements import PRIOR_DEGREES, ROUNDING, cluster_means
from medjudge.refine.material import Material, Rounds, TargetKind, rubric_name, text_sha256
from medjudge.refine.proposals import Made, Proposal
from medjudge.rounds import expected_of, level_of
from medjudge.scale import USABLE_FROM
from medjudge.store import Run


class Scored(NamedTuple):
    """A change's answers; all arrays have shape (n,).

    Attributes:
        before: The judge's expected score before the change.
        level_before: The judge's level before the change.
        usable: Whether the physicians' consensus is usable.
        cluster: What is resampled together: a question's models, or a category's conversations.
    """

    before: np.ndarray
    after: np.ndarray
    level_before: np.ndarray
    level_after: np.ndarray
    physician: np.ndarray
    usable: np.ndarray
    cluster: np.ndarray

    def improvement(self) -> np.ndarray:
        """Levels by which each answer's score came closer to the physicians' mean, shape (n,)."""
        return np.abs(self.before - self.physician) - np.abs(self.after - self.physician)

    def usable_agreement(self) -> tuple[float, float]:
        """The share of answers that judge and physicians both call usable or not, before and after."""
        before, after = ((levels >= USABLE_FROM) == self.usable for levels in (self.level_before, self.level_after))
        return float(before.mean()), float(after.mean())


class Trial(NamedTuple):
    """One change: its held-out answers, and those it was made from."""

    held_out: Scored
    proposing: Scored


class Decision(NamedTuple):
    """Improvement in levels on the held-out answers with its standard error; None where it cannot be estimated."""

    kept: bool
    why: str
    improvement: float | None = None
    standard_error: float | None = None
    adjusted_p: float | None = None

    def numbers(self) -> dict[str, float | None]:
        """The figures by name."""
        return {name: getattr(self, name) for name in ("improvement", "standard_error", "adjusted_p")}


def decide(trials: Sequence[Trial], fdr: float) -> list[Decision]:
    """Decide on changes, all of one kind at once.

    A change is kept if its held-out improvement exceeds its standard error and is above 0 beyond chance. The first
    condition alone would keep one in six proposals that are noise. Three things guard against that. A change that does
    not improve the answers it was made from is dropped before its held-out answers are looked at. The p-values of the
    others are corrected (Benjamini and Hochberg, 1995) to a share of `fdr` false ones among those kept. The variance
    between a change's few clusters is moderated by that of the other changes (Smyth, 2004), and is at least that of
    whole levels.

    The standard error is that of a mean over clusters. A paired bootstrap over m clusters tends to it, less a factor of
    m / (m - 1).

    Args:
        fdr: Accepted share of false ones among the kept changes, above 0 and below 1.

    Returns:
        One decision per trial.
    """
    means = [cluster_means(trial.held_out.improvement(), trial.held_out.cluster) for trial in trials]
    errors = [_error(means, index) for index in range(len(means))]
    reasons = [_why_dropped(trial, error) for trial, (error, _) in zip(trials, errors, strict=True)]
    tested = [index for index, reason in enumerate(reasons) if reason is None]
    p_values = [student.sf(means[index].mean() / errors[index][0], errors[index][1]) for index in tested]
    adjusted = dict(zip(tested, false_discovery_control(p_values) if tested else [], strict=True))
    return [
        Decision(False, reason)
        if reason
        else _decided(trials[index], means[index], errors[index][0], adjusted[index], fdr)
        for index, reason in enumerate(reasons)
    ]


def _why_dropped(trial: Trial, error: float) -> str | None:
    """The reason to drop a change before its held-out answers count; None for none."""
    if not len(trial.held_out.before):
        return "no held-out answer to decide by"
    if trial.proposing.improvement().mean() <= 0:
        return "no closer to the physicians on the answers it was made from"
    if not np.isfinite(error):
        return "one held-out model or conversation, and no other change to estimate its noise from"
    return None


def _error(means: Sequence[np.ndarray], index: int) -> tuple[float, float]:
    """The standard error of the mean of one change's clusters, and its degrees of freedom; NaN for no estimate."""
    own = means[index]
    others = [values for other, values in enumerate(means) if other != index and len(values)]
    degrees_of_others = sum(len(values) - 1 for values in others)
    prior = min(PRIOR_DEGREES, degrees_of_others)
    degrees = prior + len(own) - 1
    if degrees <= 0 or not len(own):
        return float("nan"), float("nan")
    squares = ((own - own.mean()) ** 2).sum()
    squares_of_others = sum(((values - values.mean()) ** 2).sum() for values in others)
    pooled = squares_of_others / degrees_of_others if degrees_of_others else 0.0
    variance = max((prior * pooled + squares) / degrees, ROUNDING)
    return float(np.sqrt(variance / len(own))), float(degrees)


def _decided(trial: Trial, means: np.ndarray, error: float, adjusted_p: float, fdr: float) -> Decision:
    improvement = float(means.mean())
    before, after = trial.held_out.usable_agreement()
    if improvement <= error:
        why = "the held-out improvement does not exceed its standard error"
    elif adjusted_p > fdr:
        why = f"the held-out improvement may be chance among this many changes (adjusted p {adjusted_p:.2f})"
    elif after < before:
        why = f"held-out usable agreement falls from {before:.2f} to {after:.2f}"
    else:
        return Decision(True, "closer to the physicians on held-out answers", improvement, error, float(adjusted_p))
    return Decision(False, why, improvement, error, float(adjusted_p))


class RubricText(NamedTuple):
    """A rubric by its name (such as `MK.en`), with a text that replaces the package's."""

    name: str
    text: str


Rescore = Callable[[Sequence[Question], Sequence[AnswerKey], RubricText | None], Rounds]
"""Judges answers again: with these questions, for these answers, by this rubric where it is not the package's."""


class Change(NamedTuple):
    """A proposal with its decision; `held_out` is None where answers could not be scored with it."""

    proposal: Proposal
    before: str
    decision: Decision
    held_out: Scored | None


class Tried(NamedTuple):
    """The decided changes, and the judge's scores with the kept ones in place."""

    changes: list[Change]
    rounds: Rounds


def kept_texts(changes: Sequence[Change], kind: TargetKind) -> dict[str, str]:
    """The kept texts of one kind, by name."""
    return {
        change.proposal.name: change.proposal.text or ""
        for change in changes
        if change.decision.kept and change.proposal.kind == kind
    }


def try_rubrics(material: Material, made: Made, current: Rounds, rescore: Rescore, fdr: float) -> Tried:
    """Decide on each rubric by its held-out conversations; where one is kept, its whole category is scored again."""

    def scores_with(rubric: RubricText, rows: np.ndarray) -> Rounds:
        keys = [material.keys[row] for row in np.flatnonzero(rows)]
        question_ids = dict.fromkeys(key.question_id for key in keys)
        return rescore([material.questions[question_id] for question_id in question_ids], keys, rubric)

    changed = {
        proposal.name: scores_with(
            RubricText(proposal.name, proposal.text), np.logical_or(*material.rows_of(proposal.target))
        )
        for _, proposal in made
        if proposal.text
    }
    changes = _changes_of(material, made, current, changed, fdr)
    for name, text in kept_texts(changes, "rubric").items():
        rows = material.rubric_names == name
        current = _with_new_scores(current, scores_with(RubricText(name, text), rows), material, rows)
    return Tried(changes, current)


def try_checklists(
    material: Material,
    made: Made,
    current: Rounds,
    rubrics: Mapping[str, str],
    rescore: Rescore,
    fdr: float,
) -> Tried:
    """Decide on each checklist by the held-out answers to its question, under the rubric kept for its category."""
    texts = {proposal.name: proposal.text for _, proposal in made if proposal.text}
    by_rubric: dict[str | None, list[Question]] = {}
    for name, text in texts.items():
        question = material.questions[name].model_copy(update={"checklist": text})
        kept_rubric = rubric_name(question) if rubric_name(question) in rubrics else None
        by_rubric.setdefault(kept_rubric, []).append(question)
    changed: dict[AnswerKey, Sequence[Judgment]] = {}
    for kept_rubric, questions in by_rubric.items():
        question_ids = {question.id for question in questions}
        keys = [key for key in material.keys if key.question_id in question_ids]
        rubric = None if kept_rubric is None else RubricText(kept_rubric, rubrics[kept_rubric])
        changed |= rescore(questions, keys, rubric)
    changes = _changes_of(material, made, current, dict.fromkeys(texts, changed), fdr)
    rows = np.isin(material.pairs.question_id.astype(str), list(kept_texts(changes, "checklist")))
    return Tried(changes, _with_new_scores(current, changed, material, rows))


def _changes_of(
    material: Material,
    made: Made,
    current: Rounds,
    changed: Mapping[str, Rounds],
    fdr: float,
) -> list[Change]:
    """The decisions on the proposals that have a text; one that left answers unscored is not tried.

    Args:
        changed: The scores with each proposal in place, by the proposal's name.
    """
    with_text = [(prompt, proposal) for prompt, proposal in made if proposal.text]
    trials: dict[int, Trial] = {}
    decisions: dict[int, Decision] = {}
    for index, (_, proposal) in enumerate(with_text):
        after = changed[proposal.name]
        parts = [np.flatnonzero(mask) for mask in material.rows_of(proposal.target)]
        keys = [material.keys[row] for rows in parts for row in rows]
        unscored = sum(key in current and key not in after for key in keys)
        if unscored:
            why = f"{unscored} answers could not be scored with it; run again, or look at them"
            decisions[index] = Decision(False, why)
        else:
            cluster = material.pairs.model if proposal.kind == "checklist" else material.pairs.conversation
            trials[index] = Trial(*(_scored(material, rows, current, after, cluster) for rows in parts))
    decisions |= zip(trials, decide(list(trials.values()), fdr), strict=True)
    return [
        Change(proposal, prompt.before, decisions[index], trials[index].held_out if index in trials else None)
        for index, (prompt, proposal) in enumerate(with_text)
    ]


def _scored(material: Material, rows: np.ndarray, current: Rounds, after: Rounds, cluster: np.ndarray) -> Scored:
    rows = np.array([row for row in rows if material.keys[row] in current], dtype=int)
    keys = [material.keys[row] for row in rows]
    return Scored(
        before=np.array([expected_of(current[key]) for key in keys]),
        after=np.array([expected_of(after[key]) for key in keys]),
        level_before=np.array([level_of(current[key]) for key in keys], dtype=int),
        level_after=np.array([level_of(after[key]) for key in keys], dtype=int),
        physician=np.nanmean(material.pairs.raters[rows], axis=1),
        usable=material.pairs.physician[rows] >= USABLE_FROM,
        cluster=cluster[rows].astype(str),
    )


def _with_new_scores(current: Rounds, changed: Rounds, material: Material, rows: np.ndarray) -> Rounds:
    """The new scores of these rows, the current ones of all others."""
    replaced = {material.keys[row] for row in np.flatnonzero(rows)}
    unchanged = {key: made for key, made in current.items() if key not in replaced}
    return {**unchanged, **{key: made for key, made in changed.items() if key in replaced}}


class Rescoring(NamedTuple):
    """The records of a rescoring run folder; `original` maps each key there to the key in the refined run."""

    run: Run
    questions: list[Question]
    answers: list[Answer]
    original: dict[AnswerKey, AnswerKey]


def plan_rescoring(
    folder: Path,
    material: Material,
    questions: Sequence[Question],
    keys: Sequence[AnswerKey],
    rubric: RubricText | None,
) -> Rescoring:
    """List the questions and answers that are judged again with changed texts, in a run folder of their own.

    The judgments stay there, so that none is paid for twice. In that folder the version of its checklist is part of a
    question's id, and each question is a conversation of its own. What the folder holds already stays in it.

    Args:
        questions: The questions as the judge shall read them.
        rubric: The changed rubric; None where the package's is used.
    """
    name = "checklists" if rubric is None else f"{rubric.name}-{text_sha256(rubric.text)[:12]}"
    run = Run(folder / "rescored" / name)
    turns_of_group: dict[str, list[Question]] = {}
    for question in material.questions.values():
        turns_of_group.setdefault(question.group, []).append(question)
    versions: dict[str, str] = {}
    by_id = {question.id: question for question in (run.questions() if run.questions_file.exists() else ())}
    for question in questions:
        version = f"{question.id}@{text_sha256(question.checklist or '')[:12]}"
        versions[question.id] = version
        by_id[version] = question.model_copy(update={"id": version, "group": version})
        for turn in turns_of_group[question.group]:
            if turn.round < question.round:
                turn_id = f"{turn.id}@{version}"
                by_id[turn_id] = turn.model_copy(update={"id": turn_id, "group": version})
    answers = {answer.key: answer for answer in run.answers()}
    original = {}
    for key in keys:
        answer = material.answers[key].model_copy(update={"question_id": versions[key.question_id]})
        answers[answer.key] = answer
        original[answer.key] = key
    return Rescoring(run, list(by_id.values()), list(answers.values()), original)
