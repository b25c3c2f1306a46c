"""Forms that come back: every cell is checked against the plans, and every problem is reported at once."""

import re
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.annotate.add_scores import shown_record
from medjudge.annotate.cells import DIMENSIONS, Row, cell_name, score_values
from medjudge.annotate.plan import Plan
from medjudge.annotate.tasks import LEVELS, Task
from medjudge.annotate.units import Unit, printable, same_text
from medjudge.annotate.wording import Message, message
from medjudge.annotate.workbook import Form, FormRow
from medjudge.errors import InputError
from medjudge.records import PhysicianScore, grouped
from medjudge.store import Run
from medjudge.tables.spreadsheets import artefact, is_blank

_NUMBER = re.compile(r"[0-9](\.0+)?")


AskedOfRaters = Mapping[str, Mapping[str, tuple[Unit, int]]]
"""The rows of each rater's forms, by row id: the unit of work, and the place of the row in it."""

Earlier = dict[Hashable, tuple[Any, str | None]]
"""Rater and subject of a record -> the record, and the place of its row in a form; None for one in the run."""


class Problem(NamedTuple):
    """A row or form that cannot be imported, and why."""

    path: Path
    place: Message
    wrong: Sequence[Message | str]

    def text(self, language: str = "en") -> str:
        """The problem in a language."""
        return ("；" if language == "zh" else "; ").join(
            one.text(language) if isinstance(one, Message) else one for one in self.wrong
        )

    def line(self, language: str, name: Path | str) -> str:
        """File, place and what is wrong, in a language."""
        file, colon = (f"{name}，", "：") if language == "zh" else (f"{name}, ", ": ")
        return f"{file}{self.place.text(language)}{colon}{self.text(language)}"


class Checked(NamedTuple):
    """The content of the forms.

    Attributes:
        records: What can be imported.
        problems: What cannot.
        only_comments: Rows with a comment and nothing else; they are not imported.
        languages: English, and Chinese where questions are Chinese: problems are forwarded to raters.
    """

    records: list[Any]
    problems: list[Problem]
    only_comments: int
    languages: Sequence[str]

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


def check_forms(run: Run, task: Task, plans: Sequence[Plan], forms: Sequence[Form], replace: bool = False) -> Checked:
    """The records of forms, and everything that is wrong with them; a row that is not filled in is no problem.

    Args:
        plans: Those that the forms belong to; see `plans_of`.
        replace: Whether a record may differ from the one that the rater gave before.
    """
    asked = _asked_by(run, task, plans)
    earlier: Earlier = {(record.rater, task.key_of(record)): (record, None) for record in task.kept(run)}
    records: list[Any] = []
    problems: list[Problem] = []
    only_comments = 0
    for form in forms:
        problems += [Problem(form.path, place, [what]) for place, what in form.problems]
        if what := _why_foreign(form, asked):
            problems.append(Problem(form.path, message("whole_form"), [what]))
            continue
        rows_of = grouped(form.rows, lambda row: row.item_id)
        for row in form.rows:
            of_row = asked[form.rater].get(row.item_id)
            record, wrong = None, [_unknown_id(row, form.rater, asked)]
            if of_row is not None:
                record, wrong = _read_row(row, *of_row, form.rater, task)
                if others := [other.place for other in rows_of[row.item_id] if other.place != row.place]:
                    wrong.append(message("repeated", item=row.item_id, places=others))
            if record is not None:
                wrong += _conflicts(record, earlier, task, replace)
            if wrong:
                problems.append(Problem(form.path, row.place, wrong))
            elif record is not None:
                earlier[record.rater, task.key_of(record)] = (record, f"{form.path.name}, {row.place}")
                records.append(record)
            else:
                only_comments += not is_blank(row.cells.get("comment"))
    chinese = any(question.language == "zh" for question in run.questions())
    return Checked(records, problems, only_comments, ("en", "zh") if chinese else ("en",))


def plans_of(forms: Sequence[Form], plans: Sequence[Plan]) -> list[Plan]:
    """The plan of each form: the one with most of its items, and then with fewest others."""

    def likeness(form: Form, plan: Plan) -> tuple[int, int]:
        asked = set(plan.by_rater.get(form.rater, ()))
        return len(asked & {row.item_id.partition(".")[0] for row in form.rows}), -len(asked)

    found = {max(range(len(plans)), key=lambda index: likeness(form, plans[index])) for form in forms}
    return [plans[index] for index in sorted(found or {0})]


def _asked_by(run: Run, task: Task, plans: Sequence[Plan]) -> AskedOfRaters:
    """The rows of each rater of all plans: an id names the same answer or pair in each of them."""
    asked: dict[str, dict[str, tuple[Unit, int]]] = defaultdict(dict)
    for plan in plans:
        for rater, units in task.units(run, plan).items():
            asked[rater] |= {row_id: (unit, row) for unit in units for row, row_id in enumerate(unit.rows)}
    return asked


def _conflicts(record: Any, earlier: Earlier, task: Task, replace: bool) -> list[Message]:
    """Reasons against a record, given an earlier one of the same rater on the same thing."""
    before, place = earlier.get((record.rater, task.key_of(record)), (None, None))
    if before is None or task.said(before) == task.said(record) or (place is None and replace):
        return []
    name = "conflict_in_run" if place is None else "conflict"
    facts = {"before": shown_record(before), "now": shown_record(record), "place": place}
    return [message(name, rater=record.rater, verdict=task.verdict, **facts)]


def _why_foreign(form: Form, asked: AskedOfRaters) -> Message | None:
    """The reason why a form as a whole cannot belong to these plans; None where it can."""
    if form.rater not in asked:
        return message("unknown_rater", rater=form.rater, raters=list(asked))
    if form.path.stem in asked and form.path.stem != form.rater:
        return message("named_after", named=form.path.stem, rater=form.rater)
    ids = {row.item_id for row in form.rows}
    if ids and not ids & {row_id for of_rater in asked.values() for row_id in of_rater}:
        return message("another_run", count=len(ids))
    return None


def _unknown_id(row: FormRow, rater: str, asked: AskedOfRaters) -> Message | str:
    """The problem with an id that none of the rater's rows has."""
    if not row.item_id:
        return message("id_missing")
    others = [other for other, of_rater in asked.items() if row.item_id in of_rater]
    return message("id_of_others" if others else "id_unknown", item=row.item_id, others=others, rater=rater)


def _read_row(row: FormRow, unit: Unit, place: int, rater: str, task: Task) -> tuple[Any, list[Message | str]]:
    """The record of a row, None where it is blank or has a problem; and its problems."""
    fields = task.fields(unit.by_dimensions)
    wrong: list[Message | str] = [*row.wrong, *_wrong_texts(row, unit, place, fields)]
    filled = {field for field in ("score", *DIMENSIONS, *fields) if not is_blank(row.cells.get(field))}
    comment = "" if is_blank(row.cells.get("comment")) else str(row.cells["comment"]).strip()
    if not filled:
        if _NUMBER.fullmatch(comment):
            cell = cell_name(row.at, "comment")
            wrong.append(message("score_in_comment", cell=cell, value=comment, fields=list(fields)))
        return None, wrong
    if task is LEVELS:
        if fields == ("score",) and filled != {"score"}:
            wrong.append(message("not_by_dimensions", category=unit.question.category))
        cells = {**unit.item.keys[0]._asdict(), "rater": rater, **row.cells}
        values, problems = score_values(Row(str(row.place), cells, at=row.at), None)
        wrong += problems
        return None if wrong else PhysicianScore.model_validate(values), wrong
    (field,) = fields
    if what := artefact(row.cells.get("comment")):
        wrong.append(message("type_again", cell=cell_name(row.at, "comment"), value=what))
    choice = task.read_choice(row.cells[field])
    if choice is None:
        cell, value = cell_name(row.at, field), str(row.cells[field]).strip()[:40]
        wrong.append(message("no_choice", cell=cell, value=value, offered=list(task.offered(field))))
    record = None if wrong else task.record(unit, place, rater, {"comment": comment, field: choice})
    return record, wrong


def _wrong_texts(row: FormRow, unit: Unit, place: int, fields: Sequence[str]) -> list[Message]:
    """Texts that hold a number, probably a misplaced score, and texts that were changed.

    A reference or checklist that was corrected in the meantime does not invalidate a score.
    """
    wrong = []
    expected = {**unit.texts, "item": printable(unit.points[place]) if unit.points else ""}
    for field, text in row.texts.items():
        cell = cell_name(row.at, field)
        if same_text(text, expected[field]):
            continue
        if _NUMBER.fullmatch(text.strip()):
            wrong.append(message("score_in_text", cell=cell, value=text.strip(), fields=list(fields)))
        elif field not in ("reference", "checklist"):
            wrong.append(message("text_changed", cell=cell))
    return wrong
