"""Forms that come back: every cell is checked against the plan, and every problem is reported at once."""

import re
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from medjudge.annotate.add_scores import shown_record
from medjudge.annotate.cells import DIMENSIONS, Row, cell_name, score_values
from medjudge.annotate.plan import Plan
from medjudge.annotate.tasks import LEVELS, PAIRS, Task
from medjudge.annotate.units import Unit, printable, same_text
from medjudge.annotate.wording import Message, message
from medjudge.annotate.workbook import Form, FormRow, write_workbook
from medjudge.errors import InputError
from medjudge.files import first_problem, json_lines
from medjudge.item_records import ItemScore
from medjudge.pair_records import PhysicianPair
from medjudge.records import PhysicianScore
from medjudge.store import Run
from medjudge.tables.spreadsheets import artefact, is_blank
from medjudge.text.checklist_items import items_of

_NUMBER = re.compile(r"[0-9](\.0+)?")


class Asked(NamedTuple):
    """The unit of work that a row of a form belongs to, or one of its items."""

    unit: Unit
    row: int

    @property
    def id(self) -> str:
        return self.unit.rows[self.row]

    @property
    def texts(self) -> dict[str, str]:
        """The texts of the row as it was exported."""
        item = {"item": printable(self.unit.points[self.row])} if self.unit.points else {}
        return {**self.unit.texts, **item}


AskedOfRaters = Mapping[str, Mapping[str, Asked]]
"""The rows of each rater's form, by row id."""


class Problem(NamedTuple):
    """A row or file that cannot be imported, and why; `asked` and `row` where it is known which item is meant."""

    path: Path
    place: Message | str
    wrong: Sequence[Message | str]
    asked: Asked | None = None
    row: FormRow | None = None

    def text(self, language: str = "en", here: bool = False) -> str:
        """The problem in a language; `here` for a workbook that shows the row again."""
        return ("；" if language == "zh" else "; ").join(
            one.text(language, here) if isinstance(one, Message) else one for one in self.wrong
        )

    def line(self, language: str, name: Path | str) -> str:
        """File, place and what is wrong, in a language."""
        place = self.place.text(language) if isinstance(self.place, Message) else self.place
        file, colon = (f"{name}，", "：") if language == "zh" else (f"{name}, ", ": ")
        return f"{file}{place}{colon}{self.text(language)}"


class Checked(NamedTuple):
    """The content of the forms.

    Attributes:
        records: What can be imported.
        problems: What cannot.
        unscored: Rows that are filled in neither here nor in the run.
        only_comments: Those of them with a comment.
        missing: Items of a workbook's rater that are not in the workbook and not filled in: file -> sheet -> row ids.
        plans: The plans that the forms belong to.
        languages: English, and Chinese where questions are Chinese: problems are forwarded to raters.
    """

    records: list[Any]
    problems: list[Problem]
    unscored: int
    only_comments: int
    missing: dict[str, dict[str, list[str]]]
    plans: list[Plan]
    languages: Sequence[str] = ("en",)

    def lines(self, problem: Problem, name: Path | str) -> str:
        """A problem in the languages of those who read it, a line each."""
        return "\n    ".join(problem.line(language, name) for language in self.languages)

    def require_valid(self, task: Task) -> None:
        """Raises InputError with all problems of all forms, one per line where there are several."""
        if not self.problems:
            return
        lines = [self.lines(problem, problem.path) for problem in self.problems]
        end = f"nothing was imported; --accept-valid imports the valid {task.verdict}s ({len(self.records)})"
        if len(lines) == 1:
            first, *others = lines[0].split("\n")
            raise InputError("\n".join([f"{first}; {end}", *others]))
        raise InputError("\n  ".join([f"{len(lines)} problems; {end}", *lines]))


class Intake:
    """Collects the records of forms and files, and everything that is wrong with them.

    Args:
        plans: The run's plan, and earlier ones whose forms may still come back; each form is checked against its own.
        replace: Whether a record may differ from the one that the rater gave before.
    """

    def __init__(self, run: Run, task: Task, plans: Sequence[Plan], replace: bool = False) -> None:
        self._run, self._task, self._plans, self._replace = run, task, plans, replace
        self._asked: dict[int, AskedOfRaters] = {}
        # Where a rater's record of the same thing was found before: None for the run.
        self._earlier: dict[Hashable, tuple[Any, str | None]] = {
            (record.rater, task.key_of(record)): (record, None) for record in task.kept(run)
        }
        self._records: list[Any] = []
        self._problems: list[Problem] = []
        self._blank: list[tuple[FormRow, Asked]] = []
        self._absent: list[tuple[Form, str, Asked]] = []

    def add_form(self, form: Form) -> None:
        """Checks a form against its plan; a row that is not filled in is no problem."""
        asked = self._asked_by(_plan_of(form, self._plans))
        self._problems += [Problem(form.path, place, [what]) for place, what in form.problems]
        if what := _why_foreign(form, asked):
            self._problems.append(Problem(form.path, message("whole_form"), [what]))
            return
        places: dict[tuple[str, str], list[Message]] = {}
        for row in form.rows:
            places.setdefault((row.rater, row.item_id), []).append(row.place)
        self._absent += [
            (form, rater, one)
            for rater in dict.fromkeys(row.rater for row in form.rows)
            for row_id, one in asked[rater].items()
            if (rater, row_id) not in places
        ]
        for row in form.rows:
            of_row = asked[row.rater].get(row.item_id)
            record, wrong = _read_row(row, of_row, self._task) if of_row else (None, [_unknown_id(row, asked)])
            if others := [place for place in places[row.rater, row.item_id] if of_row and place != row.place]:
                wrong.append(message("repeated", item=row.item_id, places=others))
            if record is not None:
                wrong += self._conflicts(record)
            if wrong:
                self._problems.append(Problem(form.path, row.place, wrong, of_row, row))
            elif record is not None:
                self._keep(record, f"{form.path.name}, {row.place}")
            elif of_row is not None:
                self._blank.append((row, of_row))

    def add_records(self, path: Path) -> None:
        """Checks the records of a .jsonl file of pairs or items; what they are about must be in the run."""
        answered = {answer.key for answer in self._run.answers()}
        items = {question.id: {item.text for item in items_of(question)} for question in self._run.questions()}
        for number, fields in json_lines(path):
            place = f"line {number}"
            try:
                record = (PhysicianPair if self._task is PAIRS else ItemScore).model_validate(fields)
            except ValidationError as error:
                self._problems.append(Problem(path, place, [first_problem(error)]))
                continue
            wrong: list[Message | str] = [
                f"no answer of {key.model} (sample {key.sample}) to {key.question_id} in {self._run.path}; compare the "
                "ids, or remove the line"
                for key in record.answer_keys
                if key not in answered
            ]
            if not wrong and isinstance(record, ItemScore) and record.item not in items.get(record.question_id, ()):
                wrong.append(f"'{record.item[:60]}' is no item of {record.question_id}; compare the texts")
            wrong = wrong or self._conflicts(record)
            if wrong:
                self._problems.append(Problem(path, place, wrong))
            else:
                self._keep(record, f"{path.name}, {place}")

    def checked(self) -> Checked:
        """Everything that was collected."""
        unscored = [row for row, asked in self._blank if not self._is_scored(row.rater, asked)]
        commented = sum(not is_blank(row.cells.get("comment")) for row in unscored)
        missing: dict[str, dict[str, list[str]]] = {}
        order = self._run.scheme().category_ids
        for form, rater, asked in sorted(self._absent, key=lambda one: order.index(one[2].unit.question.category)):
            if not self._is_scored(rater, asked):
                by_sheet = missing.setdefault(str(form.path), {})
                by_sheet.setdefault(self._task.sheet or asked.unit.question.category, []).append(asked.id)
        plans = [self._plans[index] for index in sorted(self._asked)]
        chinese = any(question.language == "zh" for question in self._run.questions())
        languages = ("en", "zh") if chinese else ("en",)
        return Checked(self._records, self._problems, len(unscored), commented, missing, plans, languages)

    def _asked_by(self, index: int) -> AskedOfRaters:
        """The rows of each rater of a plan."""
        if index not in self._asked:
            self._asked[index] = {
                rater: {row_id: Asked(unit, row) for unit in units for row, row_id in enumerate(unit.rows)}
                for rater, units in self._task.units(self._run, self._plans[index]).items()
            }
        return self._asked[index]

    def _is_scored(self, rater: str, asked: Asked) -> bool:
        return (rater, self._task.keys_of(asked.unit)[asked.row]) in self._earlier

    def _keep(self, record: Any, place: str) -> None:
        self._earlier[record.rater, self._task.key_of(record)] = (record, place)
        self._records.append(record)

    def _conflicts(self, record: Any) -> list[Message | str]:
        """Reasons against a record, given an earlier one of the same rater on the same thing."""
        earlier, place = self._earlier.get((record.rater, self._task.key_of(record)), (None, None))
        if earlier is None or self._task.said(earlier) == self._task.said(record):
            return []
        if place is None and self._replace:
            return []
        name = "conflict_in_run" if place is None else "conflict"
        said = {"before": shown_record(earlier), "now": shown_record(record), "place": place}
        return [message(name, rater=record.rater, verdict=self._task.verdict, **said)]


def write_problem_form(form: Form, problems: Sequence[Problem], task: Task) -> Path | None:
    """Writes the items of a form that have problems into a new form in its folder, to fix and import like the first.

    An item's other rows are shown as they were filled in.

    Returns:
        The file; None where no problem belongs to an item.
    """
    units: dict[str, Unit] = {}
    described: dict[str, str] = {}
    for problem in problems:
        if problem.path == form.path and problem.asked is not None and problem.row is not None:
            row_id = problem.asked.id
            units[problem.asked.unit.item.id] = problem.asked.unit
            lines = [
                message("this_row", what=problem.text(language, here=True)).text(language) for language in ("en", "zh")
            ]
            described[row_id] = "\n".join([*([described[row_id]] if row_id in described else []), *lines])
    if not units:
        return None
    filled = {row.item_id: row.cells for row in reversed(form.rows)}
    path = _free_name(form.path)
    write_workbook(path, form.rows[0].rater, list(units.values()), task, filled, described)
    return path


def _free_name(path: Path) -> Path:
    stem = re.sub(r"-to-fix(-\d+)?$", "", path.stem)
    names = [f"{stem}-to-fix{path.suffix}", *(f"{stem}-to-fix-{number}{path.suffix}" for number in range(2, 1000))]
    return next(path.with_name(name) for name in names if not path.with_name(name).exists())


def _plan_of(form: Form, plans: Sequence[Plan]) -> int:
    """The index of the plan that a form belongs to: the one with most of its items, and then with fewest others."""
    rows = {(row.rater, row.item_id.partition(".")[0]) for row in form.rows}
    raters = {rater for rater, _ in rows}

    def likeness(index: int) -> tuple[bool, int, int]:
        by_rater = plans[index].by_rater
        items = {(rater, item_id) for rater in raters for item_id in by_rater.get(rater, ())}
        return raters <= set(by_rater), len(rows & items), -len(items)

    return max(range(len(plans)), key=likeness)


def _why_foreign(form: Form, asked: AskedOfRaters) -> Message | None:
    """The reason why a form as a whole cannot belong to this plan; None where it can."""
    raters = {row.rater for row in form.rows}
    if unknown := raters - set(asked):
        return message("unknown_rater", rater=min(unknown), raters=list(asked))
    named = form.path.stem
    if named in asked and raters - {named}:
        return message("named_after", named=named, rater=min(raters - {named}))
    ids = {row.item_id for row in form.rows}
    if ids and not ids & {row_id for of_rater in asked.values() for row_id in of_rater}:
        return message("another_run", count=len(ids))
    return None


def _unknown_id(row: FormRow, asked: AskedOfRaters) -> Message:
    """The problem with an id that none of the rater's rows has."""
    if not row.item_id:
        return message("id_missing")
    others = [rater for rater, of_rater in asked.items() if row.item_id in of_rater]
    return message("id_of_others" if others else "id_unknown", item=row.item_id, others=others, rater=row.rater)


def _read_row(row: FormRow, asked: Asked, task: Task) -> tuple[Any, list[Message | str]]:
    """The record of a row, None where it is blank or has a problem; and its problems."""
    unit = asked.unit
    fields = task.fields(unit.by_dimensions)
    wrong: list[Message | str] = [*row.wrong, *_wrong_texts(row, asked, fields)]
    filled = {field for field in ("score", *DIMENSIONS, *fields) if not is_blank(row.cells.get(field))}
    if not filled:
        return None, [*wrong, *_score_in_comment(row, fields)]
    if task is LEVELS:
        if fields == ("score",) and filled != {"score"}:
            wrong.append(message("not_by_dimensions", category=unit.question.category))
        cells = {**unit.item.keys[0]._asdict(), "rater": row.rater, **row.cells}
        values, problems = score_values(Row(str(row.place), cells, at=row.at), None)
        wrong += problems
        return None if wrong else PhysicianScore.model_validate(values), wrong
    (field,) = fields
    comment = row.cells.get("comment")
    if what := artefact(comment):
        wrong.append(message("type_again", cell=cell_name(row.at, "comment"), value=what))
    given: dict[str, object] = {"comment": None if is_blank(comment) else str(comment).strip()}
    try:
        given[field] = task.read_choice(row.cells[field])
    except ValueError:
        value = str(row.cells[field]).strip()[:40]
        wrong.append(
            message("no_choice", cell=cell_name(row.at, field), value=value, offered=list(task.offered(field)))
        )
    return None if wrong else task.record(unit, asked.row, row.rater, given), wrong


def _score_in_comment(row: FormRow, fields: Sequence[str]) -> list[Message]:
    comment = str(row.cells.get("comment") or "").strip()
    if not _NUMBER.fullmatch(comment):
        return []
    return [message("score_in_comment", cell=cell_name(row.at, "comment"), value=comment, fields=list(fields))]


def _wrong_texts(row: FormRow, asked: Asked, fields: Sequence[str]) -> list[Message]:
    """Texts that hold a number, probably a misplaced score, and texts that were changed.

    A reference or checklist that was corrected in the meantime does not invalidate a score.
    """
    expected, wrong = asked.texts, []
    for field, text in row.texts.items():
        cell = cell_name(row.at, field)
        if same_text(text, expected[field]):
            continue
        if _NUMBER.fullmatch(text.strip()):
            wrong.append(message("score_in_text", cell=cell, value=text.strip(), fields=list(fields)))
        elif field not in ("reference", "checklist"):
            wrong.append(message("text_changed", cell=cell))
    return wrong
