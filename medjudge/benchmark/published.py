"""Records of a published set, and how its tables and JSON entries are read: all problems of a file at once."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from medjudge.files import first_problem
from medjudge.item_records import ItemScore
from medjudge.records import Answer, AnswerKey, ErrorKind, Judgment, PhysicianScore, Question
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.tables.columns import Problems, read_rows

TEACHER = "gpt-4"
"""The judge of sets that GPT-4 scored."""

Verdict = Literal["met", "not_met", "contradicted"]


class Oddity(NamedTuple):
    """Something in a file that was read anyway, but that its owner should know.

    `about_score`: it concerns a score, not the question. `means`: what it means for judging; empty for nothing.
    """

    place: str
    what: str
    about_score: bool = False
    means: str = ""


@dataclass
class PublishedSet:
    """Questions, answers, experts' scores of them, experts' verdicts on single items, and a teacher's judgments.

    `scheme` counts only where the set defines one of its own.
    """

    questions: list[Question] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    scores: list[PhysicianScore] = field(default_factory=list)
    items: list[ItemScore] = field(default_factory=list)
    oddities: list[Oddity] = field(default_factory=list)
    judgments: list[Judgment] = field(default_factory=list)
    scheme: Scheme = LLMEVAL_MED

    def answer(self, question_id: str, model: str, text: str, sample: int = 0) -> None:
        """Add an answer, as `answer_of` makes it."""
        self.answers.append(answer_of(question_id, model, text, sample))

    def score(
        self, question_id: str, model: str, rater: str, level: int, sample: int = 0, comment: str | None = None
    ) -> None:
        """Add an expert's score."""
        self.scores.append(
            PhysicianScore(
                question_id=question_id, model=model, sample=sample, rater=rater, score=level, comment=comment
            )
        )

    def item(self, question_id: str, model: str, rater: str, item: str, verdict: Verdict, sample: int = 0) -> None:
        """Add an expert's verdict on an item."""
        self.items.append(
            ItemScore(question_id=question_id, model=model, sample=sample, rater=rater, item=item, verdict=verdict)
        )

    def judgment(
        self,
        key: AnswerKey,
        score: float | None,
        missing: str = "",
        raw: str | None = None,
        judge: str = TEACHER,
        round: int = 1,
    ) -> None:
        """Add a judge's judgment of an answer.

        Args:
            score: From 1 to 5; a score between two levels reaches the lower one.
            missing: Why there is no score.
            raw: The judge's reply.
        """
        scored = score is not None
        self.judgments.append(
            Judgment(
                **key._asdict(),
                judge=judge,
                round=round,
                score=None if score is None else int(score),
                expected=None if score is None else float(score),
                raw=raw,
                error_kind=None if scored else ErrorKind.NOT_IN_FILE,
                error=None if scored else missing,
            )
        )

    def odd(self, place: str, what: str, about_score: bool = False) -> None:
        """Note something that was read anyway."""
        self.oddities.append(Oddity(place, what, about_score))


def answer_of(question_id: str, model: str, text: str, sample: int = 0) -> Answer:
    """An answer; one without text says so."""
    reason = None if text.strip() else "empty"
    return Answer(question_id=question_id, model=model, sample=sample, text=text, finish_reason=reason)


def question_of(name: str, category: str, prompt: str, language: str, **others: Any) -> Question:
    """A question that is a conversation of its own."""
    return Question(id=name, category=category, group=name, prompt=prompt, language=language, **others)


def checked_rows(
    path: Path,
    columns: Sequence[str],
    filled: Sequence[str],
    allowed: Mapping[str, tuple[Collection[str], str]],
    further: Callable[[dict[str, str]], list[str]] = lambda cells: [],
) -> Iterator[dict[str, str]]:
    """The sound rows of a table, one after the other.

    Args:
        columns: The columns that the table must have.
        filled: Those whose cells must not be blank.
        allowed: For columns of few values these in lower case, and how a message lists them.
        further: What else is wrong with a row.

    Raises:
        InputError: At the end, where any row was not sound.
    """
    problems = Problems(path)
    for number, cells in read_rows(problems, columns):
        wrong = [f"{name}: the cell is empty" for name in filled if not cells[name]]
        for name, (values, listed) in allowed.items():
            if cells[name] and cells[name].casefold() not in values:
                wrong.append(f"{name} is {cells[name]!r}; {listed} is expected")
        wrong += further(cells)
        for what in wrong:
            problems.add(f"row {number}", what)
        if not wrong:
            yield cells
    problems.refuse()


def read_entries(path: Path | str, entries: Iterable[tuple[str, Any]], add: Callable[[Any, str], None]) -> None:
    """Read the entries of a file, one after the other.

    Args:
        entries: Place in the file -> entry as it was parsed.
        add: Reads an entry, which stands at a place, and keeps it; a ValueError says what is wrong with it.

    Raises:
        InputError: At the end, where any entry was not sound; the message names all of them.
    """
    problems = Problems(Path(path))
    for place, fields in entries:
        try:
            add(fields, f"{path}, {place}")
        except ValidationError as error:
            problems.add(place, first_problem(error))
        except ValueError as error:
            problems.add(place, str(error))
    problems.refuse()


def most_frequent(read: PublishedSet, asked: Iterable[Question], what: str) -> None:
    """Add each question in its most frequent wording; `what` is the oddity where there are several."""
    wordings: dict[str, list[Question]] = {}
    for question in asked:
        wordings.setdefault(question.id, []).append(question)
    for name, questions in wordings.items():
        (wording, _), *others = Counter((each.prompt, each.reference) for each in questions).most_common()
        read.questions.append(next(each for each in questions if (each.prompt, each.reference) == wording))
        if others:
            read.odd(name, what)


def value_of(fields: Any, name: str) -> Any:
    """A field of an object.

    Raises:
        ValueError: There is no such field.
    """
    if not isinstance(fields, dict) or name not in fields:
        raise ValueError(f"{name} is missing")
    return fields[name]


def text_of(fields: Any, name: str) -> str:
    """The text of a field, without space around it.

    Raises:
        ValueError: There is none.
    """
    value = value_of(fields, name)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} is empty or no text")
    return value.strip()


def language_of_text(text: str) -> str:
    """`zh` where a tenth of the letters are Chinese characters, else `en`."""
    letters = [character for character in text if character.isalpha()]
    chinese = sum("\u4e00" <= character <= "\u9fff" for character in letters)
    return "zh" if letters and chinese / len(letters) > 0.1 else "en"
