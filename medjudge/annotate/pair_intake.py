"""Pairs that come back from physicians: checked against plan and run, every problem reported at once."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from medjudge.annotate.add_scores import scores_lock
from medjudge.annotate.forms import require_no_problems, same_text
from medjudge.annotate.pair_forms import FilledPair, read_choice, read_pair_project, read_pair_workbook
from medjudge.annotate.pair_plan import PairPlan, PairToCompare, pairs_to_compare, read_pair_plan
from medjudge.errors import InputError
from medjudge.files import first_problem, json_lines
from medjudge.judge.pairs import physician_pairs, physician_pairs_file
from medjudge.pair_records import PhysicianPair
from medjudge.store import Run, append_lines, repair_last_line, write_records
from medjudge.tables.spreadsheets import artefact, is_blank


class AddedPairs(NamedTuple):
    """How many pairs were new, in the run already, replaced another one, or had no verdict yet; and all problems."""

    new: int
    same: int
    replaced: int
    blank: int
    problems: list[str]


class _Read(NamedTuple):
    pairs: list[tuple[str, PhysicianPair]]
    problems: list[str]
    blank: int


def import_pairs(run: Run, files: Sequence[Path], replace: bool = False, accept_valid: bool = False) -> AddedPairs:
    """Imports workbooks (.xlsx), exports of Label Studio (.json) and records (.jsonl) of physicians' pairs.

    Args:
        replace: Whether a verdict replaces a different one by the same rater on the same pair.
        accept_valid: Whether to import what has no problem; the problems are returned.

    Raises:
        InputError: With all problems of all files, by place, unless `accept_valid`; nothing is imported.
    """
    read = [_read(run, file) for file in dict.fromkeys(files)]
    problems = [problem for one in read for problem in one.problems]
    known = {pair.key: pair for pair in physician_pairs(run)}
    places: dict[tuple[str, tuple[str, str], int, str], tuple[str, PhysicianPair]] = {}
    new, changed, same = [], [], 0
    contradicted: set[object] = set()
    for place, pair in (row for one in read for row in one.pairs):
        if pair.key in places and not _alike(places[pair.key][1], pair):
            problems.append(f"{place}: {pair.rater} has another verdict in {places[pair.key][0]}; keep one of the two")
            contradicted.add(pair.key)
        elif pair.key in places:
            same += 1
        elif pair.key not in known:
            new.append(pair)
        elif _alike(known[pair.key], pair):
            same += 1
        elif replace:
            changed.append(pair)
        else:
            problems.append(f"{place}: {pair.rater} has another verdict in the run; --replace takes the new one")
        places.setdefault(pair.key, (place, pair))
    if not accept_valid:
        require_no_problems(problems)
    new = [pair for pair in new if pair.key not in contradicted]
    changed = [pair for pair in changed if pair.key not in contradicted]
    add_pairs(run, new, changed)
    return AddedPairs(len(new), same, len(changed), sum(one.blank for one in read), problems)


def add_pairs(run: Run, new: Sequence[PhysicianPair], changed: Sequence[PhysicianPair] = ()) -> None:
    """Writes pairs into `physician_pairs.jsonl`, under the lock of physicians' scores; they are on disk on return."""
    file = physician_pairs_file(run)
    with scores_lock(run):
        if changed:
            merged = {pair.key: pair for pair in (*physician_pairs(run), *new, *changed)}
            write_records(file, merged.values())
        elif new:
            if file.exists():
                repair_last_line(file)
            append_lines(file, "".join(pair.model_dump_json() + "\n" for pair in new))


def _alike(one: PhysicianPair, other: PhysicianPair) -> bool:
    """Whether two records say the same of a pair, whichever answer was shown first."""

    def better(pair: PhysicianPair) -> str:
        return {"first": pair.first, "second": pair.second, "tie": ""}[pair.preferred]

    return (better(one), one.comment) == (better(other), other.comment)


def _read(run: Run, file: Path) -> _Read:
    suffix = file.suffix.lower()
    if suffix == ".jsonl":
        return _records(run, file)
    if suffix not in (".xlsx", ".json"):
        raise InputError(f"{file}: pairs are read from .xlsx, .json (Label Studio) and .jsonl; save it as one of these")
    rows = read_pair_workbook(file) if suffix == ".xlsx" else read_pair_project(file)
    return _form(run, file, rows)


def _records(run: Run, file: Path) -> _Read:
    """Records of pairs; every answer must be in the run."""
    answered = {answer.key for answer in run.answers()}
    questions = {question.id for question in run.questions()}
    read = _Read([], [], 0)
    for number, fields in json_lines(file):
        place = f"{file}, line {number}"
        try:
            pair = PhysicianPair.model_validate(fields)
        except ValidationError as error:
            read.problems.append(f"{place}: {first_problem(error)}")
            continue
        if pair.question_id not in questions:
            read.problems.append(f"{place}: question {pair.question_id} is not in {run.path}; compare the ids")
            continue
        missing = [key for key in pair.answer_keys if key not in answered]
        read.problems.extend(
            f"{place}: no answer of {key.model} (sample {key.sample}) to {key.question_id} in {run.path}; correct the "
            "name, or remove the line"
            for key in missing
        )
        if not missing:
            read.pairs.append((place, pair))
    return read


def _form(run: Run, file: Path, rows: Sequence[FilledPair]) -> _Read:
    plan = read_pair_plan(run)
    items = {rater: {one.item.id: one for one in listed} for rater, listed in pairs_to_compare(run, plan).items()}
    problems: list[str] = []
    pairs: list[tuple[str, PhysicianPair]] = []
    blank = 0
    seen: dict[tuple[str, str], str] = {}
    for row in rows:
        place = f"{file}, {row.place}"
        item, problem = _item(row, items, plan)
        earlier = seen.setdefault((row.rater, row.item_id), row.place)
        if problem is None and earlier != row.place:
            problem = f"pair {row.item_id} is also in {earlier}; keep one of them"
        try:
            choice = read_choice(row.preferred)
        except ValueError as error:
            problem, choice = problem or f"preferred{f' in {row.cell}' if row.cell else ''} {error}", None
        if problem is None and (what := artefact(row.comment)):
            problem = f"comment is {what}; format the cell as text and type it again"
        if problem is not None or item is None:
            problems.append(f"{place}: {problem}")
        elif choice is None:
            blank += 1
        else:
            comment = None if is_blank(row.comment) else str(row.comment).strip()
            pairs.append((place, item.record(row.rater, choice, comment)))
    return _Read(pairs, problems, blank)


def _item(
    row: FilledPair, items: dict[str, dict[str, PairToCompare]], plan: PairPlan
) -> tuple[PairToCompare | None, str | None]:
    if row.rater not in items:
        return None, f"belongs to rater {row.rater}, and the raters of the plan are {', '.join(plan.by_rater)}"
    item = items[row.rater].get(row.item_id)
    if item is None:
        what = f"the ID '{row.item_id}' is not in the plan of {row.rater}" if row.item_id else "the ID is missing"
        return None, f"{what}; restore it"
    altered = [field for field, text in row.shown.items() if not same_text(text, item.texts[field])]
    return item, f"the text of {', '.join(altered)} was changed; restore it" if altered else None
