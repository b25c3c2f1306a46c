"""Records of a published set, and how its tables and JSON entries are read: all problems of a file at once."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from medjudge.files import clipped
from medjudge.item_records import ItemScore
from medjudge.records import Answer, AnswerKey, ErrorKind, Judgment, PhysicianScore, Question, grouped
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.tables.columns import Problems, read_rows

TEACHER = "gpt-4"
"""The judge of sets that GPT-4 scored."""

_EXPECTED = {"model_type": "an object with named fields", "list_type": "a list", "string_type": "a text"}
_EXPECTED |= {"bool_type": "true or false", "int_type": "a whole number", "float_type": "a number"}
Verdict = Literal["met", "not_met", "contradicted"]
Label = TypeVar("Label")
Record = TypeVar("Record", PhysicianScore, ItemScore, Judgment)


class Oddity(NamedTuple):
    """Something in a file that was read anyway, but that its owner should know; `means` is its meaning for judging."""

    place: str
    what: str
    means: str = ""


@dataclass
class PublishedSet:
    """Questions, answers, experts' scores of them, experts' verdicts on single items, and a teacher's judgments.

    What has the same key as an earlier record is refused with a ValueError. `scheme` counts only where the set defines
    one of its own.
    """

    questions: list[Question] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    scores: list[PhysicianScore] = field(default_factory=list)
    items: list[ItemScore] = field(default_factory=list)
    oddities: list[Oddity] = field(default_factory=list)
    judgments: list[Judgment] = field(default_factory=list)
    scheme: Scheme = LLMEVAL_MED
    _known: dict[object, Any] = field(default_factory=dict)

    def answer(self, question_id: str, model: str, text: str, sample: int = 0, **others: Any) -> AnswerKey:
        """Add an answer unless it is known already; one without text says so."""
        key = AnswerKey(question_id, model, sample)
        if key not in self._known:
            reason = None if text.strip() else "empty"
            self.answers.append(Answer(**key._asdict(), text=text, finish_reason=reason, **others))
        elif self._known[key] != text:
            raise ValueError(f"{model}'s answer to {question_id} has another text than before")
        self._known[key] = text
        return key

    def score(self, key: AnswerKey, rater: str, level: int, comment: str | None = None) -> None:
        """Add an expert's score."""
        self._add(self.scores, PhysicianScore(**key._asdict(), rater=rater, score=level, comment=comment))

    def item(self, key: AnswerKey, rater: str, item: str, verdict: Verdict) -> None:
        """Add an expert's verdict on an item."""
        self._add(self.items, ItemScore(**key._asdict(), rater=rater, item=item, verdict=verdict))

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
        judgment = Judgment(
            **key._asdict(),
            judge=judge,
            round=round,
            score=None if score is None else int(score),
            expected=score,
            raw=raw,
            error_kind=ErrorKind.NOT_IN_FILE if score is None else None,
            error=missing if score is None else None,
        )
        self._add(self.judgments, judgment)

    def odd(self, place: str, what: str) -> None:
        """Note something that was read anyway."""
        self.oddities.append(Oddity(place, what))

    def _add(self, records: list[Record], record: Record) -> None:
        mark = (type(record), record.key)
        if mark in self._known:
            raise ValueError(f"{' / '.join(map(str, record.key))} occurs twice; remove one of the two")
        self._known[mark] = None
        records.append(record)


def question_of(name: str, category: str, prompt: str, language: str, **others: Any) -> Question:
    """A question that is a conversation of its own."""
    return Question(id=name, category=category, group=name, prompt=prompt, language=language, **others)


def read_table(path: Path, columns: Sequence[str], add: Callable[[dict[str, str], str], None]) -> None:
    """Read the rows of a table that has these columns, as `read_entries` does."""
    problems = Problems(path)
    read_entries(problems, ((f"row {number}", cells) for number, cells in read_rows(problems, columns)), add)


def read_entries(
    path: Path | str | Problems, entries: Iterable[tuple[str, Any]], add: Callable[[Any, str], None]
) -> None:
    """Read the entries of a file, one after the other.

    Args:
        path: The file, or the problems that were found in it so far.
        entries: Place in the file -> entry as it was parsed.
        add: Reads an entry, which stands at a place, and keeps it; a ValueError says what is wrong with it.

    Raises:
        InputError: At the end, where any entry was not sound; the message names all of them.
    """
    problems = path if isinstance(path, Problems) else Problems(Path(path))
    for place, fields in entries:
        try:
            add(fields, f"{problems.path}, {place}")
        except ValueError as error:
            problems.add(place, _in_words(error) if isinstance(error, ValidationError) else str(error))
    problems.refuse()


def _in_words(error: ValidationError) -> str:
    """The problems of the first three wrong fields, in plain words."""
    said: dict[str, str] = {}
    for each in error.errors():
        kind, found = each["type"], clipped(each["input"])
        name = ".".join(str(part) for part in each["loc"] if part not in ("str", "int"))  # which of `str | int` it was
        what = f"{name}: " if name else ""
        if kind == "missing":
            said.setdefault(name, f"{name} is missing")
        elif kind in ("string_too_short", "too_short"):
            said.setdefault(name, f"{name} is empty")
        elif expected := _EXPECTED.get(kind) or each.get("ctx", {}).get("expected"):
            said.setdefault(name, f"{what}{expected} is expected (found {found})")
        else:
            said.setdefault(name, what + each["msg"].removeprefix("Value error, "))
    return "; ".join([*said.values()][:3])


def most_frequent(read: PublishedSet, asked: Iterable[Question], what: str) -> None:
    """Add each question in its most frequent wording; `what` is the oddity where there are several."""
    for name, questions in grouped(asked, lambda question: question.id).items():
        (wording, _), *others = Counter((each.prompt, each.reference) for each in questions).most_common()
        read.questions.append(next(each for each in questions if (each.prompt, each.reference) == wording))
        if others:
            read.odd(name, what)


class Layout(BaseModel):
    """The base of the models of published entries: strict, and fields that nothing reads may be there."""

    model_config = ConfigDict(strict=True)


FilledText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


def label_of(column: str, cell: str, labels: Mapping[str, Label]) -> Label:
    """The meaning of a cell that holds one of a few labels, in capitals or not.

    Raises:
        ValueError: It holds another one.
    """
    if cell.casefold() not in labels:
        raise ValueError(f"{column} is {cell!r}; one of {', '.join(labels)} is expected")
    return labels[cell.casefold()]


def filled(cells: Mapping[str, str], *columns: str) -> list[str]:
    """The texts of cells that must not be blank.

    Raises:
        ValueError: One of them is.
    """
    if blank := [column for column in columns if not cells[column]]:
        raise ValueError(f"{blank[0]}: the cell is empty")
    return [cells[column] for column in columns]


def language_of_text(text: str) -> str:
    """`zh` where a tenth of the letters are Chinese characters, else `en`."""
    letters = [character for character in text if character.isalpha()]
    chinese = sum("\u4e00" <= character <= "\u9fff" for character in letters)
    return "zh" if letters and chinese / len(letters) > 0.1 else "en"
