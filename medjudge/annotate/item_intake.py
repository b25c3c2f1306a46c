"""Verdicts on items that come back from physicians: checked against plan and run, every problem reported at once."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from medjudge.annotate.add_scores import scores_lock
from medjudge.annotate.forms import printable, require_no_problems, same_text
from medjudge.annotate.item_forms import FilledItem, read_item_project, read_item_workbook, read_verdict
from medjudge.annotate.item_plan import AnswerToMark, ItemPlan, answers_to_mark, read_item_plan
from medjudge.errors import InputError
from medjudge.files import first_problem, json_lines
from medjudge.item_records import ItemScore
from medjudge.store import Run, append_lines, repair_last_line, write_records
from medjudge.text.checklist_items import items_of


class AddedItems(NamedTuple):
    """How many verdicts were new, in the run already, replaced another one, or are still blank; and all problems."""

    new: int
    same: int
    replaced: int
    blank: int
    problems: list[str]


class _Read(NamedTuple):
    scores: list[tuple[str, ItemScore]]
    problems: list[str]
    blank: int


class _Found(NamedTuple):
    """The answer and the place of the item that a row names, or what is wrong with it."""

    entry: AnswerToMark | None
    place: int
    problem: str | None


def import_items(run: Run, files: Sequence[Path], replace: bool = False, accept_valid: bool = False) -> AddedItems:
    """Imports workbooks (.xlsx), exports of Label Studio (.json) and records (.jsonl) of verdicts on items.

    Args:
        replace: Whether a verdict replaces a different one by the same rater on the same item.
        accept_valid: Whether to import what has no problem; the problems are returned.

    Raises:
        InputError: With all problems of all files, by place, unless `accept_valid`; nothing is imported.
    """
    read = [_read(run, file) for file in dict.fromkeys(files)]
    problems = [problem for one in read for problem in one.problems]
    known = {score.key: score for score in run.item_scores()}
    places: dict[tuple[str, str, int, str, str], tuple[str, ItemScore]] = {}
    new, changed, same = [], [], 0
    contradicted: set[object] = set()
    for place, score in (row for one in read for row in one.scores):
        if score.key in places and places[score.key][1] != score:
            problems.append(
                f"{place}: {score.rater} has another verdict in {places[score.key][0]}; keep one of the two"
            )
            contradicted.add(score.key)
        elif score.key in places or known.get(score.key) == score:
            same += 1
        elif score.key not in known:
            new.append(score)
        elif replace:
            changed.append(score)
        else:
            problems.append(f"{place}: {score.rater} has another verdict in the run; --replace takes the new one")
        places.setdefault(score.key, (place, score))
    if not accept_valid:
        require_no_problems(problems)
    new = [score for score in new if score.key not in contradicted]
    changed = [score for score in changed if score.key not in contradicted]
    add_items(run, new, changed)
    return AddedItems(len(new), same, len(changed), sum(one.blank for one in read), problems)


def add_items(run: Run, new: Sequence[ItemScore], changed: Sequence[ItemScore] = ()) -> None:
    """Writes verdicts into `item_scores.jsonl`, under the lock of physicians' scores; they are on disk on return."""
    file = run.items_file
    with scores_lock(run):
        if changed:
            merged = {score.key: score for score in (*run.item_scores(), *new, *changed)}
            write_records(file, merged.values())
        elif new:
            if file.exists():
                repair_last_line(file)
            append_lines(file, "".join(score.model_dump_json() + "\n" for score in new))


def _read(run: Run, file: Path) -> _Read:
    suffix = file.suffix.lower()
    if suffix == ".jsonl":
        return _records(run, file)
    if suffix not in (".xlsx", ".json"):
        raise InputError(f"{file}: items are read from .xlsx, .json (Label Studio) and .jsonl; save it as one of these")
    return _form(run, file, read_item_workbook(file) if suffix == ".xlsx" else read_item_project(file))


def _records(run: Run, file: Path) -> _Read:
    """Records of verdicts; every answer must be in the run, and every item must be one of its question."""
    answered = {answer.key for answer in run.answers()}
    items = {question.id: {item.text for item in items_of(question)} for question in run.questions()}
    read = _Read([], [], 0)
    for number, fields in json_lines(file):
        place = f"{file}, line {number}"
        try:
            score = ItemScore.model_validate(fields)
        except ValidationError as error:
            read.problems.append(f"{place}: {first_problem(error)}")
            continue
        if score.answer_key not in answered:
            read.problems.append(
                f"{place}: no answer of {score.model} (sample {score.sample}) to {score.question_id} in {run.path}; "
                "compare the ids"
            )
        elif score.item not in items.get(score.question_id, ()):
            read.problems.append(f"{place}: '{score.item[:60]}' is no item of {score.question_id}; compare the texts")
        else:
            read.scores.append((place, score))
    return read


def _form(run: Run, file: Path, rows: Sequence[FilledItem]) -> _Read:
    plan = read_item_plan(run)
    entries = {rater: {one.answer.id: one for one in listed} for rater, listed in answers_to_mark(run, plan).items()}
    read, blank = _Read([], [], 0), 0
    seen: dict[tuple[str, str], str] = {}
    for row in rows:
        place = f"{file}, {row.place}"
        entry, number, problem = _found(row, entries, plan)
        earlier = seen.setdefault((row.rater, row.name), row.place)
        if problem is None and earlier != row.place:
            problem = f"item {row.name} is also in {earlier}; keep one of them"
        try:
            verdict = read_verdict(row.verdict)
        except ValueError as error:
            problem, verdict = problem or f"verdict{f' in {row.cell}' if row.cell else ''} {error}", None
        if problem is not None or entry is None:
            read.problems.append(f"{place}: {problem}")
        elif verdict is None:
            blank += 1
        else:
            read.scores.extend((place, score) for score in entry.records(row.rater, {number: verdict}))
    return read._replace(blank=blank)


def _found(row: FilledItem, entries: dict[str, dict[str, AnswerToMark]], plan: ItemPlan) -> _Found:
    if row.rater not in entries:
        what = f"belongs to rater {row.rater}, and the raters of the plan are {', '.join(plan.by_rater)}"
        return _Found(None, 0, what)
    code, _, number = row.name.partition(".")
    entry = entries[row.rater].get(code)
    if entry is None or not number.isdecimal() or not 1 <= int(number) <= len(entry.items):
        what = f"the ID '{row.name}' is not in the plan of {row.rater}" if row.name else "the ID is missing"
        return _Found(None, 0, f"{what}; restore it")
    place = int(number) - 1
    altered = not same_text(row.item, printable(entry.items[place].text))
    return _Found(entry, place, "the text of the item was changed; restore it" if altered else None)
