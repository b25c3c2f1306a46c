"""What is asked for a better wording, and how the reply is read: strictly, or not at all."""

import re
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from jinja2 import Environment, StrictUndefined
from pydantic import BaseModel

from medjudge.distill.checklist import points_of
from medjudge.languages.texts import PACKAGED
from medjudge.records import Answer, Judgment, PhysicianScore, Question
from medjudge.refine.causes import Cause
from medjudge.refine.findings import Target
from medjudge.rubrics.render import neutralise

MOST_ANSWERS = 12
"""Answers that a prompt shows: those on which judge and physicians lie farthest apart."""
MOST_CHARACTERS = 3000
"""Of an answer in a prompt; a longer one loses its middle."""
NO_CHANGE = "no change proposed"
"""The problem of a proposal that leaves the text as it is."""
_LONGEST = 6000
_LEVELS = ("5", "4", "3", "2", "1")
_DECLINED = re.compile(r"\s*[*`]*NO CHANGE[*`.]*\s*", re.IGNORECASE)


class Shown(NamedTuple):
    """One answer as a prompt shows it: with what physicians and judge gave it."""

    question: Question
    answer: Answer
    scores: Sequence[PhysicianScore]
    judgment: Judgment


class Prompt(NamedTuple):
    """What a proposer gets. `before` is the text to change, empty where there is none."""

    target: Target
    cause: Cause
    before: str
    text: str

    @property
    def sha256(self) -> str:
        return text_sha256(f"{self.target.kind} {self.target.name}\n{self.text}")


class Proposal(BaseModel):
    """A line of `proposals.jsonl`: the new text, or why there is none."""

    kind: Literal["checklist", "rubric"]
    name: str
    by: str
    cause: str
    prompt_sha256: str
    reply: str | None
    text: str | None = None
    problem: str | None = None
    failed: bool = False
    """Whether the request failed, and is worth another try."""

    @property
    def target(self) -> Target:
        return Target(self.kind, self.name)


def checklist_prompt(question: Question, earlier: Sequence[str], cause: Cause, shown: Sequence[Shown]) -> Prompt:
    """Asks for a better checklist of one question.

    Args:
        earlier: The user's earlier turns of the conversation, oldest first.
        shown: The question's answers that a proposal may be made from; held-out ones must not be among them.
    """
    text = _template("checklist", question.language).render(
        cause=cause.name,
        evidence=neutralise(cause.evidence),
        earlier=[neutralise(one) for one in earlier],
        question=neutralise(question.prompt),
        reference=neutralise(question.reference or ""),
        before=neutralise(question.checklist or ""),
        answers=[_answer(one) for one in _farthest(shown)],
    )
    return Prompt(Target("checklist", question.id), cause, question.checklist or "", text)


def rubric_prompt(name: str, before: str, cause: Cause, shown: Sequence[Shown]) -> Prompt:
    """Asks for a better wording of a rubric.

    Args:
        name: Such as `MK.en`.
        before: The rubric, its title in the first line.
        shown: Answers of the category that a proposal may be made from; held-out ones must not be among them.
    """
    language = name.rpartition(".")[2]
    text = _template("rubric", language).render(
        cause=cause.name,
        evidence=neutralise(cause.evidence),
        before=before,
        answers=[
            {
                **_answer(one),
                "question": neutralise(one.question.prompt),
                "checklist": neutralise(one.question.checklist or ""),
            }
            for one in _farthest(shown)
        ],
    )
    return Prompt(Target("rubric", name), cause, before, text)


def proposal(prompt: Prompt, by: str, reply: str) -> Proposal:
    """Reads a reply; one that cannot be used says why, and its text is not guessed at."""
    text, problem = read_reply(prompt, reply)
    return _proposal(prompt, by, reply, text=text, problem=problem)


def edited(prompt: Prompt, by: str, text: str) -> Proposal:
    """What a person wrote: the text itself, without markers."""
    problem = _problem(prompt, text.strip())
    return _proposal(prompt, by, text, text=None if problem else text.strip(), problem=problem)


def failed(prompt: Prompt, by: str, why: str, again: bool) -> Proposal:
    """No reply came; `again` where another try may bring one."""
    return _proposal(prompt, by, None, problem=why, failed=again)


def text_sha256(text: str) -> str:
    """Names a version of a text."""
    return sha256(text.encode()).hexdigest()


def read_reply(prompt: Prompt, reply: str) -> tuple[str | None, str | None]:
    """The proposed text, or None and why there is none."""
    if _DECLINED.fullmatch(reply.rstrip().rpartition("\n")[2]) and "<<<" not in reply:
        return None, NO_CHANGE
    opening = f"<<<{prompt.target.kind.upper()}>>>"
    lines = [line.strip() for line in reply.splitlines()]
    if lines.count(opening) != 1 or lines.count("<<<END>>>") != 1:
        return None, f"the reply does not hold {opening} and <<<END>>> once each, on lines of their own"
    start, end = lines.index(opening), lines.index("<<<END>>>")
    text = "\n".join(line.rstrip() for line in reply.splitlines()[start + 1 : end]).strip()
    problem = _problem(prompt, text)
    return (None, problem) if problem else (text, None)


def _problem(prompt: Prompt, text: str) -> str | None:
    """What makes a text unfit; None where nothing does."""
    if text == prompt.before.strip():
        return NO_CHANGE
    if not text:
        return "the text is empty"
    if len(text) > _LONGEST:
        return f"the text has {len(text)} characters, more than {_LONGEST}"
    if neutralise(text) != text:
        return "the text holds control tokens or markers"
    if prompt.target.kind == "checklist":
        points, before = points_of(text), points_of(prompt.before)
        if not points:
            return "no point can be read in the checklist"
        if {point.core for point in before} == {True, False} and {point.core for point in points} != {True, False}:
            return "the headings of core and secondary requirements are gone"
        return None
    levels = tuple(match[1] for match in re.finditer(r"^- ([1-5])(?::|分：)", text, re.MULTILINE))
    if levels != _LEVELS:
        return f"the standard does not have the five levels 5 to 1, one line each (found {', '.join(levels) or 'none'})"
    if text.splitlines()[0].strip() != prompt.before.strip().splitlines()[0].strip():
        return "the first line of the standard is changed"
    return None


def _proposal(prompt: Prompt, by: str, reply: str | None, **found: Any) -> Proposal:
    return Proposal(
        kind=prompt.target.kind,
        name=prompt.target.name,
        by=by,
        cause=prompt.cause.name,
        prompt_sha256=prompt.sha256,
        reply=reply,
        **found,
    )


def _farthest(shown: Sequence[Shown]) -> list[Shown]:
    def distance(one: Shown) -> float:
        judge = one.judgment.expected or one.judgment.score or 0
        return abs(judge - sum(score.level for score in one.scores) / len(one.scores))

    return sorted(shown, key=distance, reverse=True)[:MOST_ANSWERS]


def _answer(one: Shown) -> dict[str, Any]:
    text = neutralise(one.answer.text)
    if len(text) > MOST_CHARACTERS:
        text = f"{text[: MOST_CHARACTERS // 2]}\n[...]\n{text[-MOST_CHARACTERS // 2 :]}"
    return {
        "text": text,
        # From the answer itself: no answer can hold the hash of itself and so close its own fence.
        "code": text_sha256(one.answer.text)[:10],
        "physicians": ", ".join(str(score.level) for score in one.scores),
        "judge": one.judgment.score,
        "comments": [neutralise(" ".join(score.comment.split())) for score in one.scores if score.comment],
    }


@cache
def _template(kind: str, language: str):  # type: ignore[no-untyped-def]
    # Autoescape is off, since the reader is a language model and not a browser; values are never run as templates.
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)
    return environment.from_string(PACKAGED.text(language, f"refine_{kind}.md"))
