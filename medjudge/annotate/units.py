"""A unit of a rater's work: one answer or two, with the question and the conversation before it."""

from collections.abc import Sequence
from typing import NamedTuple

from medjudge.annotate.plan import Item, Pair
from medjudge.annotate.wording import form_texts
from medjudge.languages.texts import Languages, languages_of
from medjudge.records import Answer, Question
from medjudge.scheme import LLMEVAL_MED, Scheme

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
        fields = ("answer",) if len(self.answers) == 1 else ("first", "second")
        bare = len(self.answers) > 1 or not turns
        prompt = self.question.prompt if bare else f"{words.current_question}\n{self.question.prompt}"
        shown = {
            "question": "\n\n".join([*turns, prompt]),
            "reference": self.question.reference or words.not_given,
            "checklist": self.question.checklist or words.not_given,
            **{field: answer.text for field, answer in zip(fields, self.answers, strict=True)},
        }
        return {field: printable(text) for field, text in shown.items()}


def printable(text: str) -> str:
    """The text with control characters as visible symbols (U+2400 and so on), so that any file format can hold it."""
    return text.translate(_CONTROL)


def same_text(text: str, expected: str) -> bool:
    """True if two texts are equal except for white space, which spreadsheet programs change."""
    # openpyxl treats every "x005F_" as an escape of Excel, even where an author wrote it.
    text, expected = ("".join(one.split()).replace("x005F_", "") for one in (text, expected))
    return text == expected
