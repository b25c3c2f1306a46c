"""Forms that come back: every cell held against the plan, every problem told at once, and what is wrong put aside."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from medjudge.annotate.add_scores import shown_score
from medjudge.annotate.cells import DIMENSIONS, Row, is_unscored, score_values
from medjudge.annotate.forms import Form, FormRow, same_text, score_fields, texts
from medjudge.annotate.items import ToScore, all_to_score
from medjudge.annotate.label_studio import read_project, some_tasks
from medjudge.annotate.plan import Plan
from medjudge.annotate.spreadsheets import is_blank
from medjudge.annotate.workbook import read_workbook, write_workbook
from medjudge.errors import InputError
from medjudge.files import write_json
from medjudge.records import CATEGORIES, PhysicianScore
from medjudge.store import Run

_NUMBER = re.compile(r"[0-9](\.0+)?")

Listed = Mapping[str, ToScore]
"""What a rater has to score, by item id."""


class Wrong(NamedTuple):
    """What cannot be imported, and why; `item` and `row` where it is known which item is meant."""

    path: Path
    place: str
    what: str
    item: ToScore | None = None
    row: FormRow | None = None


class Checked(NamedTuple):
    """What forms hold.

    `unscored` counts items without a score, `only_comments` those of them with a comment. `missing` holds the ids of
    the items of a workbook's rater that do not stand in it and have no score, by file and sheet. `plans` are those that
    the forms belong to.
    """

    scores: list[PhysicianScore]
    wrong: list[Wrong]
    unscored: int
    only_comments: int
    missing: dict[str, dict[str, list[str]]]
    plans: list[Plan]


def read_form(path: Path) -> Form:
    """Reads a form that came back: a workbook (.xlsx), or an export of Label Studio (.json).

    Raises:
        InputError: It is neither, or nothing that `medjudge annotate export` made.
    """
    kind = path.suffix.lower()
    if kind not in (".xlsx", ".json"):
        raise InputError(f"{path}: forms are read from .xlsx and .json (an export of Label Studio); save it as one")
    return read_workbook(path) if kind == ".xlsx" else read_project(path)


def check_forms(run: Run, plans: Sequence[Plan], forms: Sequence[Form], replace: bool = False) -> Checked:
    """Holds forms against the plan and the run; an item whose score cells are blank is not scored yet, and no problem.

    Args:
        plans: The run's plan, and earlier ones whose forms may come back, too; each form is held against its own.
        replace: Whether a score may differ from the one that the rater gave before.
    """
    of_form = [_plan_of(form, plans) for form in forms]
    listings = {
        place: {rater: {one.item.id: one for one in some} for rater, some in all_to_score(run, plans[place]).items()}
        for place in sorted({*of_form})
    }
    given = {score.key: (score, "in the run") for score in run.physician_scores()}
    scores: list[PhysicianScore] = []
    wrong: list[Wrong] = []
    blank: list[FormRow] = []
    absent: list[tuple[Form, str, ToScore]] = []
    for form, of in zip(forms, of_form, strict=True):
        listed = listings[of]
        wrong += [Wrong(form.path, *problem) for problem in form.problems]
        if what := _stranger(form, listed):
            wrong.append(Wrong(form.path, "the whole form", what))
            continue
        places: dict[tuple[str, str], list[str]] = {}
        for row in form.rows:
            places.setdefault((row.rater, row.item_id), []).append(row.place)
        for rater in {row.rater for row in form.rows} if form.path.suffix.lower() == ".xlsx" else ():
            absent += [(form, rater, one) for item_id, one in listed[rater].items() if (rater, item_id) not in places]
        for row in form.rows:
            item, score, problems = _check_row(row, listed, places)
            if score is not None:
                problems += _against(given.get(score.key), score, replace)
            if problems:
                wrong.append(Wrong(form.path, row.place, "; ".join(problems), item, row))
            elif score is None:
                blank.append(row)
            else:
                given[score.key] = (score, f"in {form.path.name}, {row.place}")
                scores.append(score)
    commented = sum(not is_blank(row.cells.get("comment")) for row in blank)
    missing: dict[str, dict[str, list[str]]] = {}
    for form, rater, one in sorted(absent, key=lambda one: CATEGORIES.index(one[2].question.category)):
        if (*one.item.key, rater) not in given:
            missing.setdefault(str(form.path), {}).setdefault(one.question.category, []).append(one.item.id)
    return Checked(scores, wrong, len(blank), commented, missing, [plans[place] for place in listings])


def _plan_of(form: Form, plans: Sequence[Plan]) -> int:
    """The place of the plan that a form was made by: with most of its items, and of such with fewest others."""
    rows = {(row.rater, row.item_id) for row in form.rows}
    raters = {rater for rater, _ in rows}

    def likeness(place: int) -> tuple[bool, int, int]:
        by_rater = plans[place].by_rater
        items = {(rater, item_id) for rater in raters for item_id in by_rater.get(rater, ())}
        return raters <= set(by_rater), len(rows & items), -len(items)

    return max(range(len(plans)), key=likeness)


def put_aside(form: Form, wrong: Sequence[Wrong]) -> Path | None:
    """Writes what is wrong in a form into a new form beside it, to be mended and imported like the first.

    Returns:
        The file; None where nothing wrong belongs to an item.
    """
    of_form = [one for one in wrong if one.path == form.path and one.item is not None and one.row is not None]
    if not of_form:
        return None
    items = {one.item.item.id: one.item for one in of_form if one.item}
    path = _free_name(form.path)
    if path.suffix.lower() == ".json":
        write_json(path, some_tasks(form.path, {one.row.item_id for one in of_form if one.row}))
        return path
    what: dict[str, str] = {}
    filled: dict[str, Mapping[str, object]] = {}
    for one in of_form:
        assert one.item is not None
        assert one.row is not None
        item_id = one.item.item.id
        what[item_id] = "\n".join([*([what[item_id]] if item_id in what else []), f"{one.place}: {one.what}"])
        filled.setdefault(item_id, one.row.cells)
    write_workbook(path, form.rows[0].rater, list(items.values()), filled, what)
    return path


def _free_name(path: Path) -> Path:
    stem = re.sub(r"-to-mend(-\d+)?$", "", path.stem)
    names = [f"{stem}-to-mend{path.suffix}", *(f"{stem}-to-mend-{number}{path.suffix}" for number in range(2, 1000))]
    return next(path.with_name(name) for name in names if not path.with_name(name).exists())


def _stranger(form: Form, listed: Mapping[str, Listed]) -> str | None:
    """Why a form as a whole cannot be one of this plan."""
    raters = {row.rater for row in form.rows}
    if unknown := raters - set(listed):
        return f"is rater {min(unknown)}'s, and the raters of the plan are {', '.join(listed)}"
    named = next((rater for rater in listed if form.path.stem in (rater, f"{rater}-MTG")), None)
    if named and raters - {named}:
        return f"is named after {named}, and is rater {min(raters - {named})}'s; give it the right name"
    ids = {row.item_id for row in form.rows}
    if ids and not ids & {item_id for items in listed.values() for item_id in items}:
        return f"has {len(ids)} items, and none is in a plan of this run; it belongs to another one"
    return None


def _check_row(
    row: FormRow, listed: Mapping[str, Listed], places: Mapping[tuple[str, str], Sequence[str]]
) -> tuple[ToScore | None, PhysicianScore | None, list[str]]:
    """The item that a row means, its score where there is a right one, and what is wrong."""
    item = listed[row.rater].get(row.item_id)
    if item is None:
        item = _meant(row, listed[row.rater], places)
        return item, None, [_unknown(row, listed, item)]
    score, problems = _score(row, item)
    if others := [place for place in places[row.rater, row.item_id] if place != row.place]:
        problems.append(f"item {row.item_id} stands in {', '.join(others)}, too; keep one of them")
    if row.account in listed and row.account != row.rater:
        problems.append(f"{row.account} was signed in, and the item is {row.rater}'s; let {row.rater} score it")
    return item, score, problems


def _against(before: tuple[PhysicianScore, str] | None, score: PhysicianScore, replace: bool) -> list[str]:
    """What keeps a score from standing beside one of the same rater and answer."""
    if before is None or before[0] == score or (replace and before[1] == "in the run"):
        return []
    mend = "--replace takes the new one" if before[1] == "in the run" else "keep one of the two"
    return [f"{score.rater}'s score is {shown_score(before[0])} {before[1]}, and {shown_score(score)} here; {mend}"]


def _unknown(row: FormRow, listed: Mapping[str, Listed], meant: ToScore | None) -> str:
    """What is wrong with the id of a row."""
    others = [rater for rater, items in listed.items() if row.item_id in items]
    if not row.item_id:
        what = "the ID is missing"
    elif others:
        what = f"item {row.item_id} is for {', '.join(others)} to score, and not for {row.rater}"
    else:
        what = f"the ID '{row.item_id}' is not in the plan"
    return what if meant is None else f"{what}; by its texts this is item {meant.item.id}: put that ID back"


def _meant(row: FormRow, mine: Listed, places: Mapping[tuple[str, str], Sequence[str]]) -> ToScore | None:
    """The one item of the rater that is missing in the form and has the texts of this row."""
    same = [
        one
        for item_id, one in mine.items()
        if (row.rater, item_id) not in places and row.texts and not _altered(row, one)
    ]
    return same[0] if len(same) == 1 else None


def _altered(row: FormRow, item: ToScore) -> list[str]:
    """What the rater scored, as far as it is another text than the run's.

    Reference and checklist are left out: one that was corrected in the meantime does not undo a score.
    """
    expected = texts(item)
    return [
        field
        for field in ("question", "answer")
        if field in row.texts and not same_text(row.texts[field], expected[field])
    ]


def _score(row: FormRow, item: ToScore) -> tuple[PhysicianScore | None, list[str]]:
    """The score in a row, None where there is none, and what is wrong with the row."""
    fields = score_fields(item.question.category)
    expected = texts(item)
    wrong = list(row.wrong)
    numbers = [
        field
        for field, text in row.texts.items()
        if _NUMBER.fullmatch(text.strip()) and not same_text(text, expected[field])
    ]
    for field in numbers:
        found = row.texts[field].strip()
        wrong.append(f"{field} is {found}; a score belongs into {' or '.join(fields)}, and the text back here")
    for field in _altered(row, item):
        if field not in numbers:
            what = "is not the text that was exported" if row.texts[field].strip() else "is blank"
            wrong.append(f"{field} {what}; put the text back, or take the row from a fresh form")
    if fields == ("score",) and any(not is_blank(row.cells.get(name)) for name in DIMENSIONS):
        wrong.append("the five dimensions are for MTG; give a score 1-5")
    comment = str(row.cells.get("comment") or "").strip()
    if is_unscored(row.cells):
        if _NUMBER.fullmatch(comment):
            wrong.append(f"comment is {comment}, and no score is there; a score belongs into {' or '.join(fields)}")
        return None, wrong
    cells = {**item.item.key._asdict(), "rater": row.rater, **row.cells}
    values, problems = score_values(Row(row.place, cells), {})
    wrong += problems
    return (None, wrong) if wrong else (PhysicianScore.model_validate(values), [])
