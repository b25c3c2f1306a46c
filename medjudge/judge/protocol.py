"""The interface of all judges, units of a task in and judgments out; and the task of levels: one answer to score.

The three tasks are levels (here), items (`judge.items`) and pairs (`judge.pairs`). A unit of a task knows its prompt,
how a reply to it is read, and its record; judges know none of that.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from medjudge.chat_api.client import ChatRequest
from medjudge.errors import InputError
from medjudge.item_records import ItemJudgment
from medjudge.languages.texts import languages_of
from medjudge.pair_records import PairJudgment
from medjudge.records import Answer, ErrorKind, Judgment, Question, earlier_turns
from medjudge.rubrics.render import JudgePrompt, Style, render
from medjudge.rubrics.verdict import VERDICT_SCHEMA, UnreadableError, judge_replies, read_verdict
from medjudge.scale import median_level
from medjudge.scheme import LLMEVAL_MED, Scheme

MAX_TOKENS = 1024
"""The most tokens of a reply, without a thought."""
Made = TypeVar("Made", Judgment, ItemJudgment, PairJudgment, covariant=True)


class Unit(Protocol[Made]):
    """The unit that a judge judges at a time, in one prompt."""

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The answers under test."""
        ...

    def judgment(self, judge_name: str, **fields: Any) -> Made:
        """The unit's record, with the fields of a verdict or of an error."""
        ...

    def prompt(self, texts: Sequence[str], style: Style, control_tokens: Iterable[str] = ()) -> JudgePrompt:
        """The prompt of a local model; `texts` are those of the answers."""
        ...

    def request(self) -> ChatRequest:
        """The request to a chat model."""
        ...

    def reminder(self, problem: str) -> str:
        """The message that a chat model reads, once, after a reply that cannot be read."""
        ...

    def read(self, reply: str, judge_name: str) -> Made:
        """The judgment in a reply to the request.

        Raises:
            UnreadableError: There is none.
        """
        ...


U = TypeVar("U", bound=Unit[Any])
_Work = TypeVar("_Work", contravariant=True)


class TaskJudge(Protocol[_Work, Made]):
    """Judges units of a task. `name` is also the name of the file of judgments."""

    name: str

    def judge(self, assignments: Sequence[_Work]) -> Iterator[Made]:
        """Yields one judgment for each unit, in any order, as soon as it is made."""
        ...


class Assignment(NamedTuple):
    """One answer to score.

    `earlier` holds the user's earlier turns of the conversation, oldest first; `scheme` holds the question's rubric.
    """

    question: Question
    earlier: tuple[str, ...]
    answer: Answer
    round: int = 1
    scheme: Scheme = LLMEVAL_MED

    @property
    def answers(self) -> tuple[Answer, ...]:
        return (self.answer,)

    def judgment(self, judge_name: str, **fields: Any) -> Judgment:
        key = self.answer.key._asdict()
        return Judgment(**{**key, "judge": judge_name, "round": self.round, "score": None, **fields})

    def prompt(self, texts: Sequence[str], style: Style, control_tokens: Iterable[str] = ()) -> JudgePrompt:
        return render(self.question, self.earlier, texts[0], style, control_tokens, self.scheme)

    def request(self) -> ChatRequest:
        messages = self.prompt([self.answer.text], "reason-first").messages
        # Rounds may differ, repeated runs should not.
        return ChatRequest(messages, self.round - 1, MAX_TOKENS, schema=VERDICT_SCHEMA)

    def reminder(self, problem: str) -> str:
        return judge_replies(self.question.language, languages_of(self.scheme)).reminder

    def read(self, reply: str, judge_name: str) -> Judgment:
        score, problem, rationale = read_verdict(reply)
        if score is None:
            raise UnreadableError(problem)
        return self.judgment(judge_name, score=score, expected=float(score), rationale=rationale or None, raw=reply)


Judge = TaskJudge[Assignment, Judgment]


def assignments(
    questions: Iterable[Question], answers: Iterable[Answer], rounds: int = 1, scheme: Scheme = LLMEVAL_MED
) -> list[Assignment]:
    """Makes one assignment per answer and round.

    Answers whose question is not among `questions` are left out.
    """
    by_id = {question.id: question for question in questions}
    earlier = earlier_turns(list(by_id.values()))
    return [
        Assignment(by_id[answer.question_id], earlier[answer.question_id], answer, round_number, scheme)
        for answer in answers
        if answer.question_id in by_id
        for round_number in range(1, rounds + 1)
    ]


def scored(assignment: Assignment, judge_name: str, probabilities: np.ndarray, **fields: Any) -> Judgment:
    """A judgment from the probabilities of the five levels.

    The score is their median, so it is usable exactly if the probability of a usable level is at least one half.

    Args:
        probabilities: Probabilities that add up to 1, level 1 first, shape (5,).
        fields: Further fields of the judgment.

    Raises:
        InputError: The probabilities are not finite.
    """
    exact = np.asarray(probabilities, dtype=np.float64)
    if not np.isfinite(exact).all() or exact.sum() <= 0:
        raise InputError(
            f"judge {judge_name}: its probabilities for the answer of {assignment.answer.model} to "
            f"{assignment.answer.question_id} are not finite; its weights or its base model's are damaged, restore them"
        )
    exact = exact / exact.sum()
    return assignment.judgment(
        judge_name,
        score=median_level(exact),
        expected=min(5.0, max(1.0, round(float(exact @ np.arange(1, 6)), 6))),
        probabilities=[round(float(value), 6) for value in exact],
        **fields,
    )


def unscored(unit: Unit[Made], judge_name: str, kind: ErrorKind, error: str, raw: str | None = None) -> Made:
    """A judgment without a verdict.

    Args:
        kind: Why there is none. Code that depends on the reason reads this.
        error: The reason in one line, for people.
        raw: What the model replied, if anything.
    """
    return unit.judgment(judge_name, error_kind=kind, error=error, raw=raw)


def no_room(unit: Unit[Made], judge_name: str, window: int) -> Made:
    """The judgment without a verdict of a unit whose prompt leaves no room for its answers."""
    reason = f"what the judge reads beside the answer leaves no room in the window of {window} tokens"
    return unscored(unit, judge_name, ErrorKind.WINDOW, reason)


def split_empty(work: Sequence[U], judge_name: str) -> tuple[list[U], list[Any]]:
    """Separates units with an empty answer, which no model is asked to judge.

    Returns:
        The units whose answers have a text, and a judgment without a verdict for each of the others.
    """
    full: list[U] = []
    judgments = []
    for unit in work:
        empty = [answer.model for answer in unit.answers if not answer.text.strip()]
        if empty:
            whose = "" if len(unit.answers) == 1 else f" of {' and of '.join(empty)}"
            error = f"the answer{whose} is empty"
            judgments.append(unscored(unit, judge_name, ErrorKind.EMPTY_ANSWER, error))
        else:
            full.append(unit)
    return full, judgments
