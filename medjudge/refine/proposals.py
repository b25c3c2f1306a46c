"""The prompt for a better text, and the strict reading of its reply: a reply that breaks a rule is not used."""

import re
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel

from medjudge.distill.sources import points_of
from medjudge.languages.texts import languages_of
from medjudge.records import PhysicianScore, earlier_turns
from medjudge.refine.disagreements import Cause, CauseKind, Finding, Material, difference
from medjudge.rubrics.render import filled, neutralise

_MOST_ANSWERS = 12
"""The most answers that a prompt shows: those on which judge and physicians differ most."""
_MOST_CHARACTERS = 3000
"""The most characters of an answer in a prompt; a longer one loses its middle."""
_LONGEST = 6000
_OPENING, _NO_CHANGE = "<<<CHECKLIST>>>", "no change proposed"
_DECLINED = re.compile(r"\s*[*`]*NO CHANGE[*`.]*\s*", re.IGNORECASE)


class Outcome(str, Enum):
    """Outcome of a proposer's reply."""

    PROPOSED = "proposed"
    DECLINED = "declined"  # the text stays as it is
    UNREADABLE = "unreadable"  # no reply, or one that breaks a rule; another try would give the same
    FAILED = "failed"  # another try may succeed


def text_sha256(text: str) -> str:
    """The name of a version of a text."""
    return sha256(text.encode()).hexdigest()


class Prompt(NamedTuple):
    """A prompt for a proposer. `before` is the checklist to change, empty where there is none."""

    question_id: str
    cause: Cause
    before: str
    text: str

    @property
    def sha256(self) -> str:
        return text_sha256(f"checklist {self.question_id}\n{self.text}")


class Proposal(BaseModel):
    """A line of `proposals.jsonl`: the new checklist of the question `name`, or why there is none."""

    name: str
    by: str
    cause: str
    prompt_sha256: str
    reply: str | None
    outcome: Outcome
    text: str | None = None
    problem: str | None = None


def prompt_for(material: Material, question_id: str, cause: Cause) -> Prompt:
    """Ask for a better checklist, with answers that are not held out: the most disputed ones first."""
    rows = material.rows_of(question_id, held_out=False)
    distance = np.abs(difference(material.pairs.only(rows)))
    question = material.questions[question_id]
    scores = [score for score in material.scores if score.question_id == question_id]
    shown = rows[np.argsort(-distance, kind="stable")][:_MOST_ANSWERS]
    text = filled(
        languages_of(material.scheme).text(question.language, "refine_checklist.md"),
        cause=cause.kind.value,
        evidence=neutralise(cause.evidence),
        earlier=[neutralise(turn) for turn in earlier_turns([*material.questions.values()])[question_id]],
        question=neutralise(question.prompt),
        reference=neutralise(question.reference or ""),
        before=neutralise(question.checklist or ""),
        answers=[_answer(material, row, scores) for row in shown],
    )
    return Prompt(question_id, cause, question.checklist or "", text)


def _answer(material: Material, row: int, scores: Sequence[PhysicianScore]) -> dict[str, Any]:
    key = material.pairs.keys[row]
    answer, scores = material.answers[key], [score for score in scores if score.answer_key == key]
    text = neutralise(answer.text)
    if len(text) > _MOST_CHARACTERS:
        text = f"{text[: _MOST_CHARACTERS // 2]}\n[...]\n{text[-_MOST_CHARACTERS // 2 :]}"
    return {
        "text": text,
        # From the answer itself: no answer can contain the hash of itself and so close its own fence.
        "code": text_sha256(answer.text)[:10],
        "physicians": ", ".join(str(score.level) for score in scores),
        "judge": material.pairs.judge[row],
        "comments": [neutralise(" ".join(score.comment.split())) for score in scores if score.comment],
    }


def proposal(prompt: Prompt, by: str, outcome: Outcome, reply: str | None = None, **said: str) -> Proposal:
    """A proposal that answers a prompt; `said` is its text, or its problem."""
    cause, sha256 = prompt.cause.kind.value, prompt.sha256
    return Proposal(
        name=prompt.question_id, by=by, cause=cause, prompt_sha256=sha256, reply=reply, outcome=outcome, **said
    )


def read_reply(prompt: Prompt, by: str, reply: str) -> Proposal:
    """Read a model's reply: the text between its markers. One that cannot be used says why, and is not guessed at."""
    if _DECLINED.fullmatch(reply.rstrip().rpartition("\n")[2]) and "<<<" not in reply:
        return proposal(prompt, by, Outcome.DECLINED, reply, problem=_NO_CHANGE)
    lines = [line.strip() for line in reply.splitlines()]
    if lines.count(_OPENING) != 1 or lines.count("<<<END>>>") != 1:
        problem = f"the reply does not contain {_OPENING} and <<<END>>> once each, on lines of their own"
        return proposal(prompt, by, Outcome.UNREADABLE, reply, problem=problem)
    start, end = lines.index(_OPENING), lines.index("<<<END>>>")
    text = "\n".join(line.rstrip() for line in reply.splitlines()[start + 1 : end]).strip()
    if text == prompt.before.strip():
        return proposal(prompt, by, Outcome.DECLINED, reply, problem=_NO_CHANGE)
    if broken := _broken_rule(prompt, text):
        return proposal(prompt, by, Outcome.UNREADABLE, reply, problem=broken)
    return proposal(prompt, by, Outcome.PROPOSED, reply, text=text)


def _broken_rule(prompt: Prompt, text: str) -> str | None:
    """The rule that a text breaks; None where it breaks none."""
    if not text:
        return "the text is empty"
    if len(text) > _LONGEST:
        return f"the text has {len(text)} characters, more than {_LONGEST}"
    if neutralise(text) != text:
        return "the text contains control tokens or markers"
    points, before = points_of(text), points_of(prompt.before)
    if not points:
        return "the checklist has no readable point"
    if {point.core for point in before} == {True, False} and {point.core for point in points} != {True, False}:
        return "the headings of core and secondary requirements are missing"
    return None


def proposal_requests(
    material: Material, findings: Sequence[Finding], limit: int | None
) -> tuple[list[Prompt], dict[str, int]]:
    """A prompt for each disagreement that a change could resolve and that held-out answers can decide, up to a limit.

    Besides the prompts, how many disagreements have none: reason -> count.
    """
    prompts: list[Prompt] = []
    left_out: Counter[str] = Counter()
    for finding in findings:
        cause = finding.causes[0]
        if cause.kind is CauseKind.PHYSICIANS_DISAGREE:
            left_out[cause.kind.value] += 1
        elif not len(material.rows_of(finding.question_id, held_out=True)):
            left_out["no held-out answer to decide by"] += 1
        elif limit is not None and len(prompts) == limit:
            left_out["beyond --limit"] += 1
        else:
            prompts.append(prompt_for(material, finding.question_id, cause))
    return prompts, dict(left_out)
