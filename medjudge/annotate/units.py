"""A unit of a rater's work: one answer or two, with the question and the conversation before it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from medjudge.annotate.plan import Item, Pair, Plan
from medjudge.annotate.wording import form_texts
from medjudge.errors import InputError
from medjudge.languages.texts import Languages, languages_of
from medjudge.records import Answer, AnswerKey, Question
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.store import Run
from medjudge.text.checklist_items import items_of

# XML 1.0 does not allow these characters, and no spreadsheet program shows them.
_CONTROL = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n\r"}
_CONTROL |= {0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD}


class EarlierTurn(NamedTuple):
    """A question and what the same model answered: empty where the run lacks it, None where two models are compared."""

    prompt: str
    answer: str | None


class Unit(NamedTuple):
    """All that a rater needs at a time: one screen, or the rows of a form that belong together.

    Attributes:
        item: The answer or pair of the plan.
        earlier: The earlier turns of the conversation, oldest first.
        answers: One, or A and B of a pair.
        points: The texts of the question's items, where these are marked one by one.
    """

    item: Item | Pair
    question: Question
    earlier: list[EarlierTurn]
    answers: list[Answer]
    scheme: Scheme = LLMEVAL_MED
    points: Sequence[str] = ()

    @property
    def by_dimensions(self) -> bool:
        """True if the five dimensions are filled in, and not the score."""
        return self.scheme.category(self.question.category).scored_by == "dimensions"

    @property
    def languages(self) -> Languages:
        """The texts of the scheme's languages."""
        return languages_of(self.scheme)

    @property
    def rows(self) -> list[str]:
        """The ids of the rows of a form in which something is filled in: its own id, or one per item."""
        return [f"{self.item.id}.{number}" for number in range(1, len(self.points) + 1)] or [self.item.id]

    @property
    def texts(self) -> dict[str, str]:
        """The texts that a form may show, by field; the question comes with the earlier turns of its conversation."""
        words = form_texts(self.question.language, self.languages)
        turns = []
        for number, turn in enumerate(self.earlier, 1):
            turns.append(f"{words.earlier_question.format(number=number)}\n{turn.prompt}")
            if turn.answer is not None:
                turns.append(f"{words.earlier_answer}\n{turn.answer or words.not_given}")
        bare = len(self.answers) > 1 or not turns
        prompt = self.question.prompt if bare else f"{words.current_question}\n{self.question.prompt}"
        shown = {
            "question": "\n\n".join([*turns, prompt]),
            "reference": self.question.reference or words.not_given,
            "checklist": self.question.checklist or words.not_given,
            **dict(zip(answer_fields(self), (answer.text for answer in self.answers), strict=True)),
        }
        return {field: printable(text) for field, text in shown.items()}


def answer_fields(unit: Unit) -> tuple[str, ...]:
    """The fields of the answers: `answer`, or `first` and `second`."""
    return ("answer",) if len(unit.answers) == 1 else ("first", "second")


def units_of(run: Run, plan: Plan, file: Path, points: bool = False) -> dict[str, list[Unit]]:
    """The work of each rater of a plan, in the rater's order.

    Args:
        file: The plan's.
        points: Whether the items of the questions are marked one by one.

    Raises:
        InputError: An answer of the plan is no longer in the run.
    """
    scheme = run.scheme()
    questions = {question.id: question for question in run.questions()}
    answers = {answer.key: answer for answer in run.answers()}
    conversations: dict[str, list[Question]] = {}
    for question in sorted(questions.values(), key=lambda question: question.round):
        conversations.setdefault(question.group, []).append(question)
    units: dict[str, Unit] = {}
    for item in plan.items:
        if item.question_id not in questions or any(key not in answers for key in item.keys):
            raise InputError(
                f"{file}: {item.id} is about an answer to {item.question_id} that is no longer in {run.path}; restore "
                "the run, or remove the plan and export again"
            )
        question, compared = questions[item.question_id], len(item.keys) > 1
        earlier = []
        for turn in conversations[question.group]:
            if turn.round < question.round:
                before = None if compared else answers.get(AnswerKey(turn.id, *item.keys[0][1:]))
                earlier.append(EarlierTurn(turn.prompt, None if compared else before.text if before else ""))
        marked = [point.text for point in items_of(question)] if points else []
        units[item.id] = Unit(item, question, earlier, [answers[key] for key in item.keys], scheme, marked)
    return {rater: [units[item_id] for item_id in item_ids] for rater, item_ids in plan.by_rater.items()}


def printable(text: str) -> str:
    """The text with control characters as visible symbols (U+2400 and so on), so that any file format can hold it."""
    return text.translate(_CONTROL)


def same_text(text: str, expected: str) -> bool:
    """True if two texts are equal except for white space, which spreadsheet programs change."""
    return _bare(text) == _bare(expected)


def _bare(text: str) -> str:
    # openpyxl treats every "x005F_" as an escape of Excel, even where an author wrote it.
    return re.sub(r"\s+", "", text).replace("x005F_", "")
