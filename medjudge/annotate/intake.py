"""Forms that come back: every cell is checked against the plan, and every problem is reported at once."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from medjudge.annotate.add_scores import shown_score
from medjudge.annotate.cells import DIMENSIONS, Row, is_unscored, score_values
from medjudge.annotate.forms import Form, FormRow, same_text, score_fields, texts
from medjudge.annotate.items import ToScore, all_to_score
from medjudge.annotate.label_studio import dimensions_suffix, read_project, some_tasks
from medjudge.annotate.plan import Plan
from medjudge.annotate.workbook import read_workbook, write_workbook
from medjudge.errors import InputError
from medjudge.files import write_json
from medjudge.provenance import same
from medjudge.records import PhysicianScore
from medjudge.scheme import Scheme
from medjudge.store import Run
from medjudge.tables.spreadsheets import is_blank

_NUMBER = re.compile(r"[0-9](\.0+)?")

ItemsOfRater = Mapping[str, ToScore]
"""What a rater has to score, by item id."""
Places = Mapping[tuple[str, str], Sequence[str]]
"""Where the rows of a rater's item are in a form, by rater and item id."""


class Problem(NamedTuple):
    """What cannot be imported, and why; `item` and `row` where it is known which item is meant."""

    path: Path
    place: str
    what: str
    item: ToScore | None = None
    row: FormRow | None = None


class Checked(NamedTuple):
    """The content of the forms.

    Attributes:
        scores: What can be imported.
        problems: What cannot.
        unscored: Items without a score.
        only_comments: Those of them with a comment.
        missing: Items of a workbook's rater that are not in the workbook and have no score: file -> sheet -> item ids.
        plans: The plans that the forms belong to.
    """

    scores: list[PhysicianScore]
    problems: list[Problem]
    unscored: int
    only_comments: int
    missing: dict[str, dict[str, list[str]]]
    plans: list[Plan]


class _Earlier(NamedTuple):
    """A score that the same rater gave the same answer before; `place` is None where it is in the run."""

    score: PhysicianScore
    place: str | None


class _CheckedRow(NamedTuple):
    """The item that a row belongs to, its score where it has a valid one, and its problems."""

    item: ToScore | None
    score: PhysicianScore | None
    problems: list[str]


class _Absent(NamedTuple):
    form: Form
    rater: str
    item: ToScore


def read_form(path: Path, scheme: Scheme) -> Form:
    """Reads a form that came back: a workbook (.xlsx), or an export of Label Studio (.json).

    Raises:
        InputError: The file is neither, or not a form of `medjudge annotate export`.
    """
    suffix = path.suffix.lower()
    if suffix not in (".xlsx", ".json"):
        raise InputError(f"{path}: forms are read from .xlsx and .json (an export of Label Studio); save it as one")
    return read_workbook(path, scheme) if suffix == ".xlsx" else read_project(path)


def check_forms(run: Run, plans: Sequence[Plan], forms: Sequence[Form], replace: bool = False) -> Checked:
    """Checks forms against the plan and the run; an item whose score cells are blank is unscored, which is no problem.

    Args:
        plans: The run's plan, and earlier ones whose forms may still come back; each form is checked against its own.
        replace: Whether a score may differ from the one that the rater gave before.
    """
    scheme = run.scheme()
    plan_of_form = [_plan_of(form, plans) for form in forms]
    items_of_plan = {
        index: {
            rater: {entry.item.id: entry for entry in entries}
            for rater, entries in all_to_score(run, plans[index]).items()
        }
        for index in sorted({*plan_of_form})
    }
    earlier = {score.key: _Earlier(score, None) for score in run.physician_scores()}
    scores: list[PhysicianScore] = []
    problems: list[Problem] = []
    blank: list[FormRow] = []
    absent: list[_Absent] = []
    for form, index in zip(forms, plan_of_form, strict=True):
        items = items_of_plan[index]
        problems += [Problem(form.path, *problem) for problem in form.problems]
        if what := _why_foreign(form, items, scheme):
            problems.append(Problem(form.path, "the whole form", what))
            continue
        places: dict[tuple[str, str], list[str]] = {}
        for row in form.rows:
            places.setdefault((row.rater, row.item_id), []).append(row.place)
        absent += _absent_items(form, items, places)
        for row in form.rows:
            item, score, wrong = _check_row(row, items, places)
            if score is not None:
                wrong += _conflicts(earlier.get(score.key), score, replace)
            if wrong:
                problems.append(Problem(form.path, row.place, "; ".join(wrong), item, row))
            elif score is None:
                blank.append(row)
            else:
                earlier[score.key] = _Earlier(score, f"{form.path.name}, {row.place}")
                scores.append(score)
    commented = sum(not is_blank(row.cells.get("comment")) for row in blank)
    missing: dict[str, dict[str, list[str]]] = {}
    order = scheme.category_ids
    for form, rater, entry in sorted(absent, key=lambda entry: order.index(entry.item.question.category)):
        if (*entry.item.key, rater) not in earlier:
            missing.setdefault(str(form.path), {}).setdefault(entry.question.category, []).append(entry.item.id)
    return Checked(scores, problems, len(blank), commented, missing, [plans[index] for index in items_of_plan])


def require_valid(checked: Checked) -> None:
    """Raises InputError with all problems of all forms, one per line where there are several."""
    if not checked.problems:
        return
    lines = [f"{problem.path}, {problem.place}: {problem.what}" for problem in checked.problems]
    end = f"nothing was imported; --accept-valid imports the valid scores ({len(checked.scores)})"
    if len(lines) == 1:
        raise InputError(f"{lines[0]}; {end}")
    raise InputError("\n  ".join([f"{len(lines)} problems; {end}", *lines]))


def write_problem_form(form: Form, problems: Sequence[Problem]) -> Path | None:
    """Writes the items of a form that have problems into a new form beside it, to fix and import like the first.

    Returns:
        The file; None where no problem belongs to an item.
    """
    by_item = [
        (problem, problem.item, problem.row)
        for problem in problems
        if problem.path == form.path and problem.item is not None and problem.row is not None
    ]
    if not by_item:
        return None
    path = _free_name(form.path)
    if path.suffix.lower() == ".json":
        write_json(path, some_tasks(form.path, {row.item_id for _, _, row in by_item}))
        return path
    items = {item.item.id: item for _, item, _ in by_item}
    descriptions: dict[str, list[str]] = {}
    filled: dict[str, Mapping[str, object]] = {}
    for problem, item, row in by_item:
        descriptions.setdefault(item.item.id, []).append(f"{problem.place}: {problem.what}")
        filled.setdefault(item.item.id, row.cells)
    what = {item_id: "\n".join(lines) for item_id, lines in descriptions.items()}
    write_workbook(path, form.rows[0].rater, list(items.values()), filled, what)
    return path


def _free_name(path: Path) -> Path:
    stem = re.sub(r"-to-fix(-\d+)?$", "", path.stem)
    names = [f"{stem}-to-fix{path.suffix}", *(f"{stem}-to-fix-{number}{path.suffix}" for number in range(2, 1000))]
    return next(path.with_name(name) for name in names if not path.with_name(name).exists())


def _plan_of(form: Form, plans: Sequence[Plan]) -> int:
    """The index of the plan that a form belongs to: the one with most of its items, and then with fewest others."""
    rows = {(row.rater, row.item_id) for row in form.rows}
    raters = {rater for rater, _ in rows}

    def likeness(index: int) -> tuple[bool, int, int]:
        by_rater = plans[index].by_rater
        items = {(rater, item_id) for rater in raters for item_id in by_rater.get(rater, ())}
        return raters <= set(by_rater), len(rows & items), -len(items)

    return max(range(len(plans)), key=likeness)


def _why_foreign(form: Form, items: Mapping[str, ItemsOfRater], scheme: Scheme) -> str | None:
    """Why a form as a whole cannot belong to this plan; None where it can."""
    raters = {row.rater for row in form.rows}
    if unknown := raters - set(items):
        return f"belongs to rater {min(unknown)}, and the raters of the plan are {', '.join(items)}"
    named = next((rater for rater in items if form.path.stem.removesuffix(dimensions_suffix(scheme)) == rater), None)
    if named and raters - {named}:
        return f"is named after {named} and belongs to rater {min(raters - {named})}; rename the file"
    ids = {row.item_id for row in form.rows}
    if ids and not ids & {item_id for of_rater in items.values() for item_id in of_rater}:
        return f"has {len(ids)} items, and none is in a plan of this run; it belongs to another run"
    return None


def _absent_items(form: Form, items: Mapping[str, ItemsOfRater], places: Places) -> list[_Absent]:
    """The items that a workbook lacks; an export of Label Studio may hold one of several projects."""
    raters = {row.rater for row in form.rows} if form.path.suffix.lower() == ".xlsx" else set()
    return [
        _Absent(form, rater, item)
        for rater in raters
        for item_id, item in items[rater].items()
        if (rater, item_id) not in places
    ]


def _check_row(row: FormRow, items: Mapping[str, ItemsOfRater], places: Places) -> _CheckedRow:
    item = items[row.rater].get(row.item_id)
    if item is None:
        item = _item_with_texts_of(row, items[row.rater], places)
        return _CheckedRow(item, None, [_unknown_id(row, items, item)])
    checked = _score(row, item)
    if others := [place for place in places[row.rater, row.item_id] if place != row.place]:
        checked.problems.append(f"item {row.item_id} is also in {', '.join(others)}; keep one of them")
    if row.account in items and row.account != row.rater:
        checked.problems.append(f"{row.account} was signed in, and {row.rater} has to score this item")
    return checked


def _conflicts(earlier: _Earlier | None, score: PhysicianScore, replace: bool) -> list[str]:
    """What keeps a score from being added beside an earlier one of the same rater and answer."""
    if earlier is None or same(earlier.score, score):
        return []
    here = f"and {shown_score(score)} here"
    if earlier.place is not None:
        before = f"{score.rater}'s score is {shown_score(earlier.score)} in {earlier.place}"
        return [f"{before}, {here}; keep one of the two"]
    if replace:
        return []
    before = f"{score.rater}'s score is {shown_score(earlier.score)} in the run"
    return [f"{before}, {here}; --replace takes the new one"]


def _unknown_id(row: FormRow, items: Mapping[str, ItemsOfRater], match: ToScore | None) -> str:
    """What is wrong with the id of a row; `match` is the item that has the row's texts."""
    others = [rater for rater, of_rater in items.items() if row.item_id in of_rater]
    if not row.item_id:
        what = "the ID is missing"
    elif others:
        what = f"item {row.item_id} is for {', '.join(others)} to score, not for {row.rater}"
    else:
        what = f"the ID '{row.item_id}' is not in the plan"
    return what if match is None else f"{what}; its texts are those of item {match.item.id}: restore that ID"


def _item_with_texts_of(row: FormRow, items: ItemsOfRater, places: Places) -> ToScore | None:
    """The only item of the rater that is missing in the form and has the texts of this row."""
    matches = [
        item
        for item_id, item in items.items()
        if (row.rater, item_id) not in places and row.texts and not _altered(row, item)
    ]
    return matches[0] if len(matches) == 1 else None


def _altered(row: FormRow, item: ToScore) -> list[str]:
    """Which of the texts that the rater scored differ from the run's.

    Reference and checklist are not compared: one that was corrected in the meantime does not invalidate a score.
    """
    expected = texts(item)
    return [
        field
        for field in ("question", "answer")
        if field in row.texts and not same_text(row.texts[field], expected[field])
    ]


def _score(row: FormRow, item: ToScore) -> _CheckedRow:
    fields = score_fields(item.by_dimensions)
    wrong = [*row.wrong, *_wrong_texts(row, item, fields)]
    if fields == ("score",) and any(not is_blank(row.cells.get(name)) for name in DIMENSIONS):
        wrong.append(f"{item.question.category} is not scored by dimensions; give a score from 1 to 5")
    if is_unscored(row.cells):
        comment = str(row.cells.get("comment") or "").strip()
        if _NUMBER.fullmatch(comment):
            wrong.append(
                f"{row.at.name('comment')} is {comment} and the score is blank; a score goes into {' or '.join(fields)}"
            )
        return _CheckedRow(item, None, wrong)
    cells = {**item.item.key._asdict(), "rater": row.rater, **row.cells}
    fields_read = score_values(Row(row.place, cells, at=row.at), None)
    wrong += fields_read.problems
    return _CheckedRow(item, None if wrong else PhysicianScore.model_validate(fields_read.values), wrong)


def _wrong_texts(row: FormRow, item: ToScore, fields: Sequence[str]) -> list[str]:
    """Texts that hold a number, probably a misplaced score, and texts that were changed."""
    expected = texts(item)
    numbers = [
        field
        for field, text in row.texts.items()
        if _NUMBER.fullmatch(text.strip()) and not same_text(text, expected[field])
    ]
    wrong = [
        f"{row.at.name(field)} is {row.texts[field].strip()}; a score goes into {' or '.join(fields)}; restore the "
        "text here"
        for field in numbers
    ]
    for field in _altered(row, item):
        if field not in numbers:
            what = "is not the exported text" if row.texts[field].strip() else "is blank"
            wrong.append(f"{row.at.name(field)} {what}; restore the text, or copy the row from a new form")
    return wrong
