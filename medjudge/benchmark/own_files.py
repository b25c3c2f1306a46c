"""Questions and answers as people have them: JSON lines, a JSON array, CSV or a workbook.

Fields that can be left out have defaults, fields that no record has are kept in `extra`, and all problems of a file
are reported at once. Record files of a run folder are read by `medjudge.store`, which takes them as they are written.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from medjudge.benchmark.published import language_of_text
from medjudge.errors import InputError, notify
from medjudge.files import clipped, json_lines, read_json
from medjudge.records import Answer, Question, RubricItem
from medjudge.scheme import Scheme
from medjudge.tables.columns import Problems, in_english, known_in_chinese, plain, read_rows

SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".xlsx")
"""Of the files that are read."""
MOST_QUESTIONS = 200_000
"""The most questions of a file."""

_TEXT, _NUMBER = "a text", "a whole number from 0 on"
_NEEDED = {
    "id": (_TEXT, '"q1"'),
    "category": (_TEXT, '"MK"'),
    "group": (_TEXT, '"q1"'),
    "prompt": (_TEXT, '"How much paracetamol may an adult take a day?"'),
    "language": (_TEXT, '"en"'),
    "question_id": (_TEXT, '"q1"'),
    "model": (_TEXT, '"my-model"'),
    "text": (_TEXT, '"At most 4 g."'),
    "finish_reason": (_TEXT, '"stop"'),
    "round": ("a whole number from 1 to 1,000", "1"),
    "sample": (_NUMBER, "0"),
    "tokens_in": (_NUMBER, "20"),
    "tokens_out": (_NUMBER, "120"),
    "extra": ("an object", '{"ward": "3"}'),
    "items": ("a list of objects with text and points", '[{"text": "Names 4 g a day", "points": 5}]'),
    "points": ("a number, negative for what an answer must not say,", "5"),
    "must_have": ("true or false", "true"),
    "safety_cap": ("a level from 1 to 5", "2"),
    "importance": ("core or secondary", '"core"'),
}
"""Kind of value and example of each field, for messages."""
_OTHERS = (_TEXT, '"a text"')
_NUMBERS = ("round", "sample", "tokens_in", "tokens_out")
_MATCHED_BY = ("prompt", "group", "round")
_COLUMNS = frozenset([*Question.model_fields, *Answer.model_fields]) - {"extra"}
_WHOLE = re.compile(r"(\d{1,9})(\.0+)?")

Record = TypeVar("Record", Question, Answer)


def read_own_questions(path: Path, scheme: Scheme) -> list[Question]:
    """Read questions.

    `group` is the id unless given, `language` is recognized by the script, and `category` may be left out where the
    scheme has only one.

    Raises:
        InputError: The file cannot be read, or something in it is wrong; all problems are listed.
    """

    def question(fields: dict[str, Any]) -> Question:
        if isinstance(fields.get("id"), str):
            fields.setdefault("group", fields["id"])
        if isinstance(fields.get("prompt"), str):
            language = language_of_text(fields["prompt"])
            fields.setdefault("language", language if language in scheme.languages else scheme.languages[0])
        if len(scheme.category_ids) == 1:
            fields.setdefault("category", scheme.category_ids[0])
        read = Question.model_validate(fields)
        if problem := scheme.problem_with(read.category, read.language):
            raise ValueError(problem)
        return read

    return _read(path, frozenset(Question.model_fields), question, MOST_QUESTIONS)


def read_own_answers(path: Path, questions: Sequence[Question] | None = None) -> list[Answer]:
    """Read answers. One without `question_id` belongs to the question with its exact prompt, or its group and round.

    Rows of a template that were left blank, without model and text, are no answers.

    Args:
        questions: The benchmark's; None to read the file alone, where such an answer keeps its prompt or group as id.

    Raises:
        InputError: The file cannot be read, or something in it is wrong; all problems are listed.
    """
    ids: dict[object, list[str]] = {}
    for question in questions or ():
        for name in (question.prompt.strip(), (question.group, question.round)):
            ids.setdefault(name, []).append(question.id)
    known = {question.id for question in questions or ()}

    def answer(fields: dict[str, Any]) -> Answer | None:
        matched_by = {name: fields.pop(name) for name in _MATCHED_BY if name in fields}
        if {"text", "model"} <= fields.keys() and not any(map(fields.get, ("text", "model", "finish_reason"))):
            if (name := fields.get("question_id")) and known and name not in known:
                what = f"{clipped(name)} is no question of the benchmark, and model and text are blank"
                raise ValueError(f"{what}; quote texts that contain a line break, or remove the row")
            return None
        if not fields.get("question_id"):
            fields["question_id"] = _question_of(matched_by, None if questions is None else ids)
        reason = fields.get("finish_reason")
        if isinstance(reason, str) and len(reason.split()) > 1:
            what = f"finish_reason is {clipped(reason)}, and one word such as stop is needed"
            raise ValueError(f"{what}; quote texts that contain a separator")
        return Answer.model_validate(fields)

    return _read(path, frozenset([*Answer.model_fields, *_MATCHED_BY]), answer)


def _question_of(matched_by: Mapping[str, Any], ids: Mapping[object, Sequence[str]] | None) -> str:
    """The id of the question of an answer without one; `ids` has those of each prompt, and of each group and round."""
    example = f"for example {_NEEDED['question_id'][1]}"
    group, prompt = str(matched_by.get("group") or ""), str(matched_by.get("prompt") or "").strip()
    if not (group or prompt):
        raise ValueError(f"question_id is missing; {example} (`medjudge data template` writes all ids)")
    if ids is None:
        return prompt or group
    name = (group, matched_by.get("round", 1)) if group else prompt
    found = ids.get(name, ()) if isinstance(matched_by.get("round", 1), int) else ()
    if len(found) != 1:
        what = "group and round are those" if group else "prompt is that"
        raise ValueError(f"its {what} of no question, or of several; give the question_id, {example}")
    return found[0]


def _read(
    path: Path, known: frozenset[str], make: Callable[[dict[str, Any]], Record | None], most: int | None = None
) -> list[Record]:
    """The records of a file, at most so many questions.

    `make` gets the fields that are known, and `extra`; a ValueError says what is wrong.
    """
    problems = Problems(path)
    kept: dict[str, None] = {}
    places: dict[object, str] = {}
    records: list[Record] = []
    entries = _entries(path, problems)
    if most and len(entries) > most:
        limit = f"the limit of {most:,} questions is reached; split the file into several benchmarks"
        raise InputError(f"{path}, {entries[most][0]}: {limit}")
    for place, given in entries:
        others = [name for name in given if name not in known]
        wrong = [what for name in others if (what := _misnamed(name, given.keys() & known, known))]
        fields = {name: value for name, value in given.items() if name in known}
        if others and isinstance(fields.get("extra", {}), dict):
            fields["extra"] = {**{name: given[name] for name in others}, **fields.get("extra", {})}
            kept.update(dict.fromkeys(others))
        try:
            record = None if wrong else make(fields)
        except ValidationError as error:
            wrong = [
                _in_words(each["type"], each["loc"], each["msg"], each.get("input"), given) for each in error.errors()
            ]
        except ValueError as error:
            wrong = [str(error)]
        else:
            if record is not None and record.key in places:
                key = record.key if isinstance(record.key, str) else " / ".join(map(str, record.key))
                number = ", or number them by sample" if isinstance(record, Answer) else ""
                wrong.append(f"{key} duplicates {places[record.key]}; remove one of the two{number}")
            elif record is not None:
                places[record.key] = place
                records.append(record)
        for what in wrong:
            problems.add(place, what)
    problems.refuse()
    if kept:
        shown = ", ".join(name[:60] for name in list(kept)[:20])
        more = f" and {len(kept) - 20} more" if len(kept) > 20 else ""
        notify(f"{path}: kept in extra, and used nowhere: {shown}{more}")
    return records


def _misnamed(name: str, given: Collection[str], known: Collection[str]) -> str | None:
    """The problem with an unknown field that is a known one again, or nearly; None for another one."""
    if plain(name) in given:
        return f"field '{name[:60]}' is {plain(name)} a second time; remove one of the two"
    match = get_close_matches(plain(name), sorted({*known} - {*given}), n=1, cutoff=0.85)
    if match:
        example = f"{match[0]}: {_NEEDED.get(match[0], _OTHERS)[1]}"
        return f"field '{name[:60]}' is not known, and {match[0]} is; rename it, as in {example}"
    return None


def first_entry(path: Path) -> tuple[str, dict[str, Any]]:
    """Place and fields of a file's first object.

    Raises:
        InputError: The file cannot be read, or holds none.
    """
    problems = Problems(path)
    if entries := _entries(path, problems):
        return entries[0]
    problems.refuse()
    raise InputError(f"{path}: the file is empty")


def _entries(path: Path, problems: Problems) -> list[tuple[str, dict[str, Any]]]:
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
            entries.append((place, dict(zip(names, fields.values(), strict=True))))
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


def _in_words(kind: str, location: Sequence[Any], message: str, value: Any, given: Mapping[str, Any]) -> str:
    """The problem with a field, or with a field of one of a question's items; and an example of a right value."""
    place = f"items, entry {location[1] + 1}" if len(location) > 1 else ""
    start = f"{place}: " if place else ""
    if kind == "value_error":
        return f"{start}{message.removeprefix('Value error, ')}"
    if len(location) == 2:
        return f"{place} is {clipped(value)}, and an object is needed"
    name = str(location[-1])[:60]
    needed, example = _NEEDED.get(name, _OTHERS)
    if kind == "missing":
        among = "" if place else f" (the fields are {', '.join(map(str, given))[:200]}){known_in_chinese(given)}"
        return f"{start}{name} is missing; for example {example}{among}"
    if kind == "extra_forbidden":
        return f"{start}field '{name}' is not known; the fields are {', '.join(RubricItem.model_fields)}"
    if kind in ("string_too_short", "string_pattern_mismatch"):
        return f"{start}{name} is empty; for example {example}"
    return f"{start}{name} is {clipped(value)}, and {needed} is needed, for example {example}"
