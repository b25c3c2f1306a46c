"""Changes of checklists, tried: held-out answers are judged again, and their agreement decides.

Agreement is measured in levels: an answer's improvement is how much closer the judge's expected score came to the
physicians' mean. Usable agreement of five answers moves in steps of a fifth and shows little; it only must not fall.
"""

from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from medjudge.files import write_whole
from medjudge.records import AnswerKey, Question
from medjudge.refine.disagreements import Material, Rounds, difference
from medjudge.refine.proposals import text_sha256
from medjudge.rounds import expected_of, level_of
from medjudge.scale import USABLE_FROM
from medjudge.statistics.estimates import rounded
from medjudge.store import Run, write_records, write_scheme

_ROUNDING = 1 / 12
"""The variance from rounding to whole levels: the least that a mean of few improvements is believed to have."""


class Decision(NamedTuple):
    """The improvement in levels on the held-out answers with its 95 % interval; None where there is none.

    `unscored` says that answers could not be scored with the change, so that it was not tried.
    """

    kept: bool
    why: str
    improvement: float | None = None
    low: float | None = None
    high: float | None = None
    unscored: bool = False


class Change(NamedTuple):
    """A new checklist of the question `name`, with the one before it and the decision."""

    name: str
    before: str
    after: str
    decision: Decision

    def as_json(self) -> dict[str, Any]:
        """Its entry in `summary.json`."""
        decision = self.decision
        figures = {"improvement": decision.improvement, "low": decision.low, "high": decision.high}
        return {"name": self.name, **figures, "why": decision.why}


def decide(improvement: np.ndarray, agreed: np.ndarray, agree: np.ndarray) -> Decision:
    """Keep a change if its improvement has a 95 % interval (Student's) above 0 and usable agreement does not fall.

    Args:
        improvement: Levels by which each held-out answer's score came closer to the physicians' mean, shape (n,).
        agreed: Whether judge and physicians agreed on usable before the change, `agree` with it, shapes (n,).
    """
    n = len(improvement)
    if n < 2:
        return Decision(False, f"{n} held-out answers give no interval")
    mean = float(improvement.mean())
    reach = float(student.ppf(0.975, n - 1) * np.sqrt(max(improvement.var(ddof=1), _ROUNDING) / n))
    low, high = mean - reach, mean + reach
    before, after = agreed.mean(), agree.mean()
    if low <= 0:
        why = f"the held-out improvement may be chance ({low:.2f} to {high:.2f} levels)"
    elif after < before:
        why = f"held-out usable agreement falls from {before:.2f} to {after:.2f}"
    else:
        why = "closer to the physicians on held-out answers"
    return Decision(low > 0 and after >= before, why, rounded(mean), rounded(low), rounded(high))


def decided(material: Material, question_id: str, before: Rounds, after: Rounds) -> Decision:
    """The decision on a question's checklist, from the judge's scores before, and of its held-out answers after."""
    rows = material.rows_of(question_id, held_out=True)
    keys, pairs = [material.pairs.keys[row] for row in rows], material.pairs.only(rows)
    unscored = sum(key not in after for key in keys)
    if unscored:
        return Decision(
            False, f"{unscored} answers could not be scored with it; run again, or look at them", unscored=True
        )
    physician = pairs.expected - difference(pairs)
    far, near = (np.abs([expected_of(rounds[key]) for key in keys] - physician) for rounds in (before, after))
    agreed, agree = (
        (np.array([level_of(rounds[key]) for key in keys]) >= USABLE_FROM) == (pairs.physician >= USABLE_FROM)
        for rounds in (before, after)
    )
    return decide(far - near, agreed, agree)


def write_rescoring(run: Run, material: Material, questions: Sequence[Question]) -> dict[AnswerKey, AnswerKey]:
    """Write the held-out answers to changed questions into a run folder of their own, where they are judged again.

    The judgments stay there, so that none is paid for twice. There its own hash is part of a question's id, and each
    question is a conversation of its own. What the folder, which is locked, holds already stays in it.

    Returns:
        The key of each answer there -> its key in the refined run.
    """
    by_id = {question.id: question for question in (run.questions() if run.questions_file.exists() else ())}
    answers = {answer.key: answer for answer in run.answers()}
    original = {}
    for question in questions:
        version = f"{question.id}@{text_sha256(question.model_dump_json())[:12]}"
        by_id[version] = question.model_copy(update={"id": version, "group": version})
        for turn in material.questions.values():
            if turn.group == question.group and turn.round < question.round:
                turn_id = f"{turn.id}@{version}"
                by_id[turn_id] = turn.model_copy(update={"id": turn_id, "group": version})
        for row in material.rows_of(question.id, held_out=True):
            key = material.pairs.keys[row]
            answer = material.answers[key].model_copy(update={"question_id": version})
            answers[answer.key] = answer
            original[answer.key] = key
    run.write_questions(by_id.values(), material.scheme)
    write_records(run.answers_file, answers.values())
    return original


def write_changes(folder: Path, material: Material, changes: Sequence[Change]) -> None:
    """Write the diff and the new benchmark: the questions with the kept checklists, everything else unchanged."""
    write_whole(folder / "changes.diff", unified(changes))
    write_scheme(folder, material.scheme)
    checklists = {change.name: change.after for change in changes if change.decision.kept}
    questions = [
        question.model_copy(update={"checklist": checklists.get(question.id, question.checklist)})
        for question in material.questions.values()
    ]
    write_records(folder / "questions.jsonl", questions)


def unified(changes: Sequence[Change]) -> str:
    """The kept changes as one unified diff, which `git apply` and `patch -p1` take: a file for each question."""
    diffs = []
    for change in changes:
        if change.decision.kept:
            name = f"checklists/{change.name.replace('/', '--')}.md"
            old, new = ([f"{line}\n" for line in text.splitlines()] for text in (change.before, change.after))
            diffs.append(f"diff --git a/{name} b/{name}\n" + ("" if old else "new file mode 100644\n"))
            diffs += unified_diff(old, new, f"a/{name}" if old else "/dev/null", f"b/{name}")
    return "".join(diffs)
