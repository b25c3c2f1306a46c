"""Changes of checklists and rubrics, tried: held-out answers are judged again, and their agreement decides.

Agreement is measured in levels: an answer's improvement is how much closer the judge's expected score came to the
physicians' mean. Usable agreement of five answers moves in steps of a fifth and shows little; it only must not fall.
"""

from collections.abc import Callable, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medjudge.files import write_whole
from medjudge.records import Answer, AnswerKey, Question
from medjudge.refine.disagreements import (
    Material,
    Rounds,
    Target,
    TargetKind,
    cluster_means,
    difference,
    mean_interval,
    rubric_name,
)
from medjudge.refine.proposals import Made, Proposal, text_sha256
from medjudge.rounds import expected_of, level_of
from medjudge.scale import USABLE_FROM
from medjudge.statistics.estimates import rounded
from medjudge.store import Run, write_records, write_scheme


class Scored(NamedTuple):
    """A change's held-out answers; all arrays have shape (n,).

    Attributes:
        before: Levels between the judge's expected score and the physicians' mean, before the change.
        after: The same with the change.
        agreed: Whether judge and physicians' consensus agreed on usable before the change.
        agree: The same with the change.
        unit: What an interval resamples: each answer for a checklist, its conversation for a rubric.
    """

    before: np.ndarray
    after: np.ndarray
    agreed: np.ndarray
    agree: np.ndarray
    unit: np.ndarray


class Decision(NamedTuple):
    """The improvement in levels on the held-out answers with its interval; None where there is none.

    `unscored` says that answers could not be scored with the change, so that it was not tried.
    """

    kept: bool
    why: str
    improvement: float | None = None
    low: float | None = None
    high: float | None = None
    unscored: bool = False

    def numbers(self) -> dict[str, float | None]:
        """The figures by name."""
        return {"improvement": self.improvement, "low": self.low, "high": self.high}


def decide(held_out: Scored) -> Decision:
    """Keep a change if its held-out improvement has a 95 % interval above 0 and agreement on usable does not fall."""
    if not len(held_out.before):
        return Decision(False, "no held-out answer to decide by")
    improvement, low, high = mean_interval(cluster_means(held_out.before - held_out.after, held_out.unit))
    figures = (rounded(improvement), rounded(low), rounded(high))
    agreed, agree = held_out.agreed.mean(), held_out.agree.mean()
    if np.isnan(low):
        return Decision(False, "a single held-out answer or conversation gives no interval", *figures)
    if low <= 0:
        return Decision(False, f"the held-out improvement may be chance ({low:.2f} to {high:.2f} levels)", *figures)
    if agree < agreed:
        return Decision(False, f"held-out usable agreement falls from {agreed:.2f} to {agree:.2f}", *figures)
    return Decision(True, "closer to the physicians on held-out answers", *figures)


class RubricText(NamedTuple):
    """A rubric by its name (such as `MK.en`), with a text that replaces the scheme's."""

    name: str
    text: str


Rescore = Callable[[Sequence[Question], Sequence[AnswerKey], RubricText | None], Rounds]
"""Judges answers again: with these questions, for these answers, by this rubric where it is not the scheme's."""


class Change(NamedTuple):
    """A proposal with the text before it and its decision."""

    proposal: Proposal
    before: str
    decision: Decision


class Tried(NamedTuple):
    """The decided changes, and the judge's scores with the kept ones in place on the held-out answers."""

    changes: list[Change]
    rounds: Rounds


def kept_texts(changes: Sequence[Change], kind: TargetKind) -> dict[str, str]:
    """The kept texts of one kind, by name."""
    return {
        change.proposal.name: change.proposal.text or ""
        for change in changes
        if change.decision.kept and change.proposal.kind == kind
    }


def try_rubrics(material: Material, made: Made, current: Rounds, rescore: Rescore) -> Tried:
    """Decide on each rubric by its held-out conversations, after all held-out answers of its category are judged."""
    changes = []
    rounds = dict(current)
    for prompt, proposal in made:
        if proposal.text:
            keys = _held_out_keys(material, proposal.target)
            questions = [material.questions[name] for name in dict.fromkeys(key.question_id for key in keys)]
            after = rescore(questions, keys, RubricText(proposal.name, proposal.text))
            change = _decided(material, proposal, prompt.before, current, after)
            changes.append(change)
            rounds |= after if change.decision.kept else {}
    return Tried(changes, rounds)


def try_checklists(
    material: Material, made: Made, current: Rounds, rubrics: Mapping[str, str], rescore: Rescore
) -> Tried:
    """Decide on each checklist by the held-out answers to its question, under the rubric kept for its category."""
    by_rubric: dict[str | None, list[Question]] = {}
    for _, proposal in made:
        if proposal.text:
            question = material.questions[proposal.name].model_copy(update={"checklist": proposal.text})
            name = rubric_name(question)
            by_rubric.setdefault(name if name in rubrics else None, []).append(question)
    after: dict[AnswerKey, Any] = {}
    for rubric, questions in by_rubric.items():
        keys = [key for question in questions for key in _held_out_keys(material, Target("checklist", question.id))]
        after |= rescore(questions, keys, None if rubric is None else RubricText(rubric, rubrics[rubric]))
    changes = [
        _decided(material, proposal, prompt.before, current, after) for prompt, proposal in made if proposal.text
    ]
    kept = kept_texts(changes, "checklist")
    return Tried(changes, {**current, **{key: rounds for key, rounds in after.items() if key.question_id in kept}})


def _held_out_keys(material: Material, target: Target) -> list[AnswerKey]:
    return [material.keys[row] for row in np.flatnonzero(material.concerned(target) & material.held_out)]


def _decided(material: Material, proposal: Proposal, before: str, current: Rounds, after: Rounds) -> Change:
    unscored = [key for key in _held_out_keys(material, proposal.target) if key in current and key not in after]
    if unscored:
        why = f"{len(unscored)} answers could not be scored with it; run again, or look at them"
        return Change(proposal, before, Decision(False, why, unscored=True))
    rows = np.array([row for row in np.flatnonzero(material.deciding(proposal.target)) if material.keys[row] in after])
    pairs, keys = material.pairs.only(rows.astype(int)), [material.keys[row] for row in rows]
    physician, usable = pairs.expected - difference(pairs), pairs.physician >= USABLE_FROM
    (far, agreed), (near, agree) = (
        (
            np.abs(np.array([expected_of(rounds[key]) for key in keys], dtype=float) - physician),
            np.array([level_of(rounds[key]) >= USABLE_FROM for key in keys], dtype=bool) == usable,
        )
        for rounds in (current, after)
    )
    unit = pairs.conversation if proposal.kind == "rubric" else np.arange(len(keys))
    return Change(proposal, before, decide(Scored(far, near, agreed, agree, unit)))


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

    The judgments stay there, so that none is paid for twice. There its own hash is part of a question's id, and each
    question is a conversation of its own. What the folder holds already stays in it.

    Args:
        questions: The questions as the judge shall read them.
        rubric: The changed rubric; None where the scheme's is used.
    """
    name = "checklists" if rubric is None else f"{rubric.name}-{text_sha256(rubric.text)[:12]}"
    run = Run(folder / "rescored" / name)
    versions: dict[str, str] = {}
    by_id = {question.id: question for question in (run.questions() if run.questions_file.exists() else ())}
    for question in questions:
        version = f"{question.id}@{text_sha256(question.model_dump_json())[:12]}"
        versions[question.id] = version
        by_id[version] = question.model_copy(update={"id": version, "group": version})
        for turn in material.questions.values():
            if turn.group == question.group and turn.round < question.round:
                turn_id = f"{turn.id}@{version}"
                by_id[turn_id] = turn.model_copy(update={"id": turn_id, "group": version})
    answers = {answer.key: answer for answer in run.answers()}
    original = {}
    for key in keys:
        answer = material.answers[key].model_copy(update={"question_id": versions[key.question_id]})
        answers[answer.key] = answer
        original[answer.key] = key
    return Rescoring(run, list(by_id.values()), list(answers.values()), original)


def write_changes(folder: Path, material: Material, changes: Sequence[Change]) -> None:
    """Write the diff, the kept rubrics and the new benchmark."""
    write_whole(folder / "changes.diff", unified(changes))
    rubrics, checklists = kept_texts(changes, "rubric"), kept_texts(changes, "checklist")
    for name, text in rubrics.items():
        write_whole(folder / "rubrics" / f"{name}.md", text + "\n")
    # With the kept rubrics, so that the folder's questions can be evaluated as they are.
    write_scheme(folder, material.scheme.with_rubrics(rubrics))
    questions = [
        question.model_copy(update={"checklist": checklists.get(question.id, question.checklist)})
        for question in material.questions.values()
    ]
    write_records(folder / "questions.jsonl", questions)


def unified(changes: Sequence[Change]) -> str:
    """The kept changes as one unified diff, which `git apply` and `patch -p1` take.

    Rubrics are under `rubrics/`, as in a scheme's folder; checklists under `checklists/`, one file per question.
    """
    return "".join(
        _diff(change.proposal.target, change.before, change.proposal.text or "")
        for change in changes
        if change.decision.kept
    )


def _diff(target: Target, before: str, after: str) -> str:
    name = f"{target.kind}s/{target.name.replace('/', '--')}.md"
    old, new = ([f"{line}\n" for line in text.splitlines()] for text in (before, after))
    old_name = f"a/{name}" if old else "/dev/null"
    heading = f"diff --git a/{name} b/{name}\n" + ("" if old else "new file mode 100644\n")
    return heading + "".join(unified_diff(old, new, old_name, f"b/{name}"))
