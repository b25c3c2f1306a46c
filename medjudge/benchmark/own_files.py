"""Questions and answers as people have them: JSON lines, a JSON array, CSV or a workbook.

Fields that can be left out have defaults, fields that no record has are kept in `extra`, and all problems of a file
are reported at once. Record files of a run folder are read by `medjudge.store`, which takes them as they are written.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from medjudge.benchmark.published import language_of_text
from medjudge.errors import InputError, notify
from medjudge.files import clipped, json_lines, read_json
from medjudge.records import Answer, Question, RubricItem
from medjudge.scheme import Scheme
from medjudge.store import MOST_QUESTIONS
from medjudge.tables.columns import Problems, in_english, known_in_chinese, plain, read_rows

SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".xlsx")
"""Of the files that are read."""

_EXAMPLES = {
    "id": '"q1"',
    "category": '"MK"',
    "group": '"q1"',
    "prompt": '"How much paracetamol may an adult take a day?"',
    "language": '"en"',
    "question_id": '"q1"',
    "model": '"my-model"',
    "text": '"At most 4 g."',
    "finish_reason": '"stop"',
    "round": "1",
    "sample": "0",
    "tokens_in": "20",
    "tokens_out": "120",
    "thinking": '"Let me see."',
    "extra": '{"ward": "3"}',
    "items": '[{"text": "Names 4 g a day", "points": 5}]',
}
_SOME_TEXT = '"a text"'
_ITEM_NEEDS = {
    "text": "a text that is not empty",
    "points": "a number, negative for what an answer must not say,",
    "must_have": "true or false",
    "safety_cap": "a level from 1 to 5",
    "importance": "core or secondary",
    "theme": "a text",
}
_NUMBERS = ("round", "sample", "tokens_in", "tokens_out")
_MATCHED_BY = ("prompt", "group", "round")
_COLUMNS = frozenset([*Question.model_fields, *Answer.model_fields]) - {"extra"}
_WHOLE = re.compile(r"(\d{1,9})(\.0+)?")

Record = TypeVar("Record", Question, Answer)


class _Entry(NamedTuple):
    """An object of a file: where it stands, and its fields."""

    place: str
    fields: dict[str, Any]


def read_own_questions(path: Path, scheme: Scheme) -> list[Question]:
    """Read questions.

    `group` is the id unless given, `language` is recognized by the script, and `category` may be left out where the
    scheme has only one.

    Raises:
        InputError: The file cannot be read, or something in it is wrong; all problems are listed.
    """
    problems = Problems(path)
    entries = _entries(path, problems)
    if len(entries) > MOST_QUESTIONS:
        limit = f"the limit of {MOST_QUESTIONS:,} questions is reached; split the file into several benchmarks"
        raise InputError(f"{path}, {entries[MOST_QUESTIONS].place}: {limit}")
    known = frozenset(Question.model_fields)
    kept: dict[str, None] = {}
    questions: dict[str, str] = {}
    read = []
    for place, given in entries:
        fields = _with_extra(place, given, known, problems, kept)
        if fields is None:
            continue
        if isinstance(fields.get("id"), str):
            fields.setdefault("group", fields["id"])
        if isinstance(fields.get("prompt"), str):
            language = language_of_text(fields["prompt"])
            fields.setdefault("language", language if language in scheme.languages else scheme.languages[0])
        if len(scheme.category_ids) == 1:
            fields.setdefault("category", scheme.category_ids[0])
        question = _validated(Question, place, fields, given, problems)
        if question is None:
            continue
        if problem := scheme.problem_with(question.category, question.language):
            problems.add(place, problem)
        elif question.id in questions:
            problems.add(place, f"'{question.id}' duplicates {questions[question.id]}; remove one of the two")
        else:
            questions[question.id] = place
            read.append(question)
    problems.refuse()
    _say_kept(path, kept)
    return read


def read_own_answers(path: Path, questions: Sequence[Question] | None = None) -> list[Answer]:
    """Read answers. One without `question_id` belongs to the question with its exact prompt, or its group and round.

    Rows of a template that were left blank, without model and text, are no answers.

    Args:
        questions: The benchmark's; None to read the file alone, where such an answer keeps its prompt or group as id.

    Raises:
        InputError: The file cannot be read, or something in it is wrong; all problems are listed.
    """
    problems = Problems(path)
    known = frozenset([*Answer.model_fields, *_MATCHED_BY])
    question_of = _matching(questions)
    ids = {question.id for question in questions or ()}
    kept: dict[str, None] = {}
    places: dict[object, str] = {}
    read = []
    for place, given in _entries(path, problems):
        if {"text", "model"} <= given.keys() and not any(map(given.get, ("text", "model", "finish_reason"))):
            if (name := given.get("question_id")) and ids and name not in ids:
                what = f"{clipped(name)} is no question of the benchmark, and model and text are blank"
                problems.add(place, f"{what}; quote texts that contain a line break, or remove the row")
            continue
        fields = _with_extra(place, given, known, problems, kept)
        if fields is None:
            continue
        matched_by = {name: fields.pop(name) for name in _MATCHED_BY if name in fields}
        if not fields.get("question_id"):
            name = question_of(matched_by)
            if name is None:
                problems.add(place, _no_question(matched_by))
                continue
            fields["question_id"] = name
        reason = fields.get("finish_reason")
        if isinstance(reason, str) and len(reason.split()) > 1:
            what = f"finish_reason is {clipped(reason)}, and one word such as stop is needed"
            problems.add(place, f"{what}; quote texts that contain a separator")
            continue
        answer = _validated(Answer, place, fields, given, problems)
        if answer is None:
            continue
        if answer.key in places:
            what = f"{' / '.join(map(str, answer.key))} duplicates {places[answer.key]}"
            problems.add(place, f"{what}; remove one of the two, or number them by sample")
            continue
        places[answer.key] = place
        read.append(answer)
    problems.refuse()
    _say_kept(path, kept)
    return read


def first_entry(path: Path) -> tuple[str, dict[str, Any]] | None:
    """Place and fields of a file's first object; None where it has none.

    Raises:
        InputError: The file cannot be read.
    """
    problems = Problems(path)
    entries = _entries(path, problems)
    if not entries:
        problems.refuse()
    return entries[0] if entries else None


def _entries(path: Path, problems: Problems) -> list[_Entry]:
    suffix = path.suffix.lower()
    values: list[tuple[str, Any]]
    if suffix == ".jsonl":
        lines = json_lines(path, on_error=lambda number, what: problems.add(f"line {number}", what))
        values = [(f"line {number}", fields) for number, fields in lines]
    elif suffix == ".json":
        content = read_json(path)
        if not isinstance(content, list):
            raise InputError(f"{path}: a list of objects is expected; one object a line belongs into a .jsonl file")
        values = [(f"entry {number}", fields) for number, fields in enumerate(content, 1)]
    elif suffix in SUFFIXES:
        values = [(f"row {number}", _typed(cells)) for number, cells in read_rows(problems, (), _COLUMNS)]
    else:
        raise InputError(f"{path}: {', '.join(SUFFIXES)} are read; save it as one of these")
    entries = []
    for place, fields in values:
        if isinstance(fields, dict):
            names = in_english(list(fields))
            entries.append(_Entry(place, dict(zip(names, fields.values(), strict=True))))
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                problems.add(place, f"{twice} occurs twice, in Chinese; remove one of the two")
        else:
            problems.add(place, 'an object with named fields is expected, such as {"question_id": "q1", …}')
    return entries


def _typed(cells: Mapping[str, str]) -> dict[str, Any]:
    """The cells of a row as JSON has them: blank ones are missing, but for the empty text of an answer."""
    fields: dict[str, Any] = {}
    for heading, text in cells.items():
        name = plain(heading)
        if name in _NUMBERS and (number := _WHOLE.fullmatch(text)):
            fields[name] = int(number[1])
        elif name and (text or name in ("text", "model")):
            fields[name] = text
    return fields


def _with_extra(
    place: str, given: Mapping[str, Any], known: frozenset[str], problems: Problems, kept: dict[str, None]
) -> dict[str, Any] | None:
    """The fields of an entry with unknown ones moved into `extra`; None where one is a known field again, or nearly."""
    fields = {name: value for name, value in given.items() if name in known}
    unknown = {name: value for name, value in given.items() if name not in known}
    near = False
    for name in unknown:
        if plain(name) in fields:
            problems.add(place, f"field '{name[:60]}' is {plain(name)} a second time; remove one of the two")
            near = True
            continue
        match = get_close_matches(plain(name), sorted(known - fields.keys()), n=1, cutoff=0.85)
        if match:
            example = f"{match[0]}: {_EXAMPLES.get(match[0], _SOME_TEXT)}"
            problems.add(place, f"field '{name[:60]}' is not known, and {match[0]} is; rename it, as in {example}")
            near = True
    if near:
        return None
    if unknown:
        before = fields.get("extra", {})
        if not isinstance(before, dict):
            return fields  # said when the record is validated
        fields["extra"] = {**unknown, **before}
        kept.update(dict.fromkeys(unknown))
    return fields


def _say_kept(path: Path, names: Collection[str]) -> None:
    if names:
        shown = ", ".join(name[:60] for name in list(names)[:20])
        more = f" and {len(names) - 20} more" if len(names) > 20 else ""
        notify(f"{path}: kept in extra, and used nowhere: {shown}{more}")


def _matching(questions: Sequence[Question] | None) -> Callable[[Mapping[str, Any]], str | None]:
    """Finder of an answer's question by its prompt, or by group and round; it gives None for none or several."""
    if questions is None:
        return lambda fields: str(fields.get("prompt") or fields.get("group") or "") or None
    by_prompt: dict[str, set[str]] = {}
    by_turn: dict[tuple[object, object], set[str]] = {}
    for question in questions:
        by_prompt.setdefault(question.prompt.strip(), set()).add(question.id)
        by_turn.setdefault((question.group, question.round), set()).add(question.id)

    def found(fields: Mapping[str, Any]) -> str | None:
        ids: set[str] = set()
        if isinstance(fields.get("group"), str) and isinstance(fields.get("round", 1), int):
            ids = by_turn.get((fields["group"], fields.get("round", 1)), set())
        elif isinstance(fields.get("prompt"), str):
            ids = by_prompt.get(fields["prompt"].strip(), set())
        return next(iter(ids)) if len(ids) == 1 else None

    return found


def _no_question(matched_by: Mapping[str, Any]) -> str:
    example = f"for example {_EXAMPLES['question_id']}"
    if not matched_by:
        return f"question_id is missing; {example} (`medjudge data template` writes all ids)"
    what = "group and round are those" if "group" in matched_by else "prompt is that"
    return f"its {what} of no question, or of several; give the question_id, {example}"


def _validated(
    record: type[Record], place: str, fields: dict[str, Any], given: Mapping[str, Any], problems: Problems
) -> Record | None:
    try:
        return record.model_validate(fields)
    except ValidationError as error:
        for problem in error.errors():
            problems.add(place, _in_words(problem["type"], problem["loc"], problem["msg"], problem.get("input"), given))
    return None


def _in_words(kind: str, location: Sequence[Any], message: str, value: Any, given: Mapping[str, Any]) -> str:
    """The problem with a field, and an example of a right value."""
    if not location:
        return message.removeprefix("Value error, ")
    field = str(location[0])
    example = _EXAMPLES.get(field, _SOME_TEXT)
    if field == "items":
        return _about_items(kind, location, message, value, example)
    if kind == "missing":
        listed = f"(the fields are {', '.join(map(str, given))[:200]})"
        return f"{field} is missing; for example {example} {listed}{known_in_chinese(given)}"
    if kind in ("string_too_short", "string_pattern_mismatch"):
        return f"{field} is empty; for example {example}"
    needed = "a whole number" if field in _NUMBERS else "an object" if field == "extra" else "a text"
    bound = " from 1 to 1,000" if field == "round" else " from 0 on" if field in _NUMBERS else ""
    return f"{field} is {clipped(value)}, and {needed}{bound} is needed, for example {example}"


def _about_items(kind: str, location: Sequence[Any], message: str, value: Any, example: str) -> str:
    """The problem with a question's items: which one, which of its fields, and an example of a right list."""
    if len(location) == 1:
        return f"items is {clipped(value)}, and a list of objects with text and points is needed, as in {example}"
    place = f"items, entry {location[1] + 1}"
    if len(location) == 2:
        what = message.removeprefix("Value error, ")
        return f"{place}: {what}" if kind == "value_error" else f"{place} is {clipped(value)}, and an object is needed"
    name = str(location[2])
    if kind == "missing":
        return f"{place}: {name} is missing; every item needs its text and its points, as in {example}"
    if kind == "extra_forbidden":
        return f"{place}: field '{name[:60]}' is not known; the fields are {', '.join(RubricItem.model_fields)}"
    return f"{place}: {name} is {clipped(value)}, and {_ITEM_NEEDS[name]} is needed"
