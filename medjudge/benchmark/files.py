"""Opens a benchmark by its name or file, and looks at a file before it is used."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.benchmark.llmeval_med import Benchmark, missing_turns, read_llmeval_med
from medjudge.benchmark.own_files import SUFFIXES, first_entry, read_own_answers, read_own_questions
from medjudge.benchmark.published import Oddity
from medjudge.benchmark.sample import sample_folder
from medjudge.errors import InputError
from medjudge.files import read_text
from medjudge.item_records import ItemScore
from medjudge.records import Answer, Judgment, PhysicianScore, Question, grouped
from medjudge.scheme import LLMEVAL_MED, Scheme, scheme_beside
from medjudge.store import read_questions, read_records
from medjudge.text.checklist_items import items_of, split_checklist

_RECORDS: dict[type[Any], tuple[str, str]] = {
    Question: ("prompt", "questions"),
    Judgment: ("judge", "judgments"),
    ItemScore: ("item", "verdicts on items"),
    PhysicianScore: ("rater", "physicians' scores"),
    Answer: ("text", "answers"),
}
"""The field by which each kind of record is known, and its name for people."""
_TABLES = (".csv", ".tsv", ".xlsx")
_TWICE = "the later turns of these conversations are judged after both"
_MIXED = "the turns of these conversations are judged by different rubrics, and count in different rates"
_THIN = "these are judged by the question alone; a similarity judge leaves them unscored"


class Contents(NamedTuple):
    """Contents of a file: the kind of record, counts under plain names, and the oddities with their places."""

    kind: str
    counts: dict[str, Any]
    oddities: list[Oddity]


def read_benchmark(source: str, scheme: Scheme | None = None) -> Benchmark:
    """Read `sample`, a file in LLMEval-Med's format (.json), or questions as .jsonl, a JSON array, .csv or .xlsx.

    Args:
        scheme: What the questions belong to; unless given, the scheme beside a questions file, else LLMEval-Med's.

    Raises:
        InputError: The file is missing, has another format, or breaks a rule of its format.
    """
    if source == "sample":
        scheme = scheme or LLMEVAL_MED
        return Benchmark(read_questions(sample_folder() / "questions.jsonl", scheme), [], scheme)
    path = Path(source)
    if path.suffix == ".json" and not _is_array(path):
        benchmark = read_llmeval_med(path, scheme or LLMEVAL_MED)
    elif path.suffix.lower() in SUFFIXES:
        scheme = scheme or scheme_beside(path)
        benchmark = Benchmark(read_own_questions(path, scheme), [], scheme)
    else:
        raise InputError(
            f"{path}: a benchmark is 'sample', LLMEval-Med's dataset.json, or a .jsonl, .json, .csv or .xlsx file of "
            "questions"
        )
    if not benchmark.questions:
        raise InputError(f"{path}: no question in it")
    return benchmark


def check_file(
    path: Path, scheme: Scheme | None = None, read_scores: Callable[[Path], list[PhysicianScore]] | None = None
) -> Contents:
    """Read any file that a station takes and count what is in it.

    Args:
        scheme: What questions belong to; as for `read_benchmark`.
        read_scores: Reads tables of physicians' scores, which are refused unless given.

    Raises:
        InputError: No station could use the file; the message says where it breaks.
    """
    if path.suffix == ".json" and not _is_array(path):
        benchmark = read_llmeval_med(path, scheme or LLMEVAL_MED)
        return Contents("benchmark in LLMEval-Med's format", _question_counts(benchmark.questions), benchmark.oddities)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"{path}: .json (LLMEval-Med, or an array), .jsonl, .csv or .xlsx is expected; `medjudge data convert` "
            "reads others"
        )
    record = _record_of(path)
    if record is Question:
        questions = read_own_questions(path, scheme or scheme_beside(path))
        return Contents("questions", _question_counts(questions), _question_oddities(path, questions))
    records: list[Any]
    if record is Answer:
        records = read_own_answers(path)
    elif record is PhysicianScore and read_scores is not None and path.suffix.lower() in _TABLES:
        records = read_scores(path)
    elif path.suffix.lower() == ".jsonl":
        records = read_records(path, record)
    else:
        raise InputError(f"{path}: {_RECORDS[record][1]} are read from .jsonl; save one object a line")
    if not records:
        raise InputError(f"{path}: no answer in it; every row is blank")
    return Contents(_RECORDS[record][1], _other_counts(records), [])


def _is_array(path: Path) -> bool:
    return read_text(path).lstrip()[:1] == "["


def _record_of(path: Path) -> type[Any]:
    place, fields = first_entry(path)
    if {"text", "model"} <= fields.keys() and not {"judge", "rater"} & fields.keys():
        return Answer  # whose rows may hold the prompt, too
    for record, (mark, _) in _RECORDS.items():
        if mark in fields:
            return record
    raise InputError(
        f"{path}, {place}: no field tells what this is; questions have 'prompt', answers 'text', judgments 'judge'"
    )


def _question_counts(questions: list[Question]) -> dict[str, Any]:
    categories: dict[str, dict[str, int]] = {}
    for category, inside in grouped(questions, lambda question: question.category).items():
        categories[category] = {
            "questions": len(inside),
            "conversations": len({question.group for question in inside}),
            "with_reference": sum(question.reference is not None for question in inside),
            "with_checklist": sum(question.checklist is not None for question in inside),
            "with_items": sum(bool(items_of(question)) for question in inside),
        }
    # A question that carries items needs no checklist to be split.
    checklists = [question.checklist for question in questions if question.checklist and question.items is None]
    split = sum(split_checklist(checklist) is not None for checklist in checklists)
    return {
        "questions": len(questions),
        "conversations": len({question.group for question in questions}),
        "languages": dict(Counter(question.language for question in questions)),
        "items": sum(len(items_of(question)) for question in questions),
        "checklists": {"split_into_items": split, "not_split": len(checklists) - split},
        "example_ids": [question.id for question in questions[:3]],
        "categories": categories,
    }


def _question_oddities(path: Path, questions: list[Question]) -> list[Oddity]:
    turns = Counter((question.group, question.round) for question in questions)
    groups = Counter(group for group, _ in dict.fromkeys((each.group, each.category) for each in questions))
    bare = [question.id for question in questions if question.reference is None and question.checklist is None]

    def odd(name: str, what: str, means: str) -> Oddity:
        return Oddity(f"{path}, {name}", what, means)

    return [
        *(odd(group, f"round {turn} occurs {n} times", _TWICE) for (group, turn), n in turns.items() if n > 1),
        *(odd(group, f"one conversation in {n} categories", _MIXED) for group, n in groups.items() if n > 1),
        *missing_turns(path, questions),
        *(odd(name, "neither reference nor checklist", _THIN) for name in bare),
    ]


def _other_counts(records: list[Any]) -> dict[str, Any]:
    counts: dict[str, Any] = {"records": len(records), "questions": len({record.question_id for record in records})}
    counts["example_ids"] = list(dict.fromkeys(record.question_id for record in records))[:3]
    kind = type(records[0])
    for field in ("model", "rater", "judge", "verdict"):
        if field in kind.model_fields:
            counts[f"{field}s"] = dict(Counter(getattr(record, field) for record in records))
    if kind is ItemScore:
        counts["items"] = len({(record.question_id, record.item) for record in records})
    elif kind is not Answer:
        levels = (record.score if kind is Judgment else record.level for record in records)
        counts["levels"] = dict(sorted(Counter(map(str, levels)).items()))
    return counts
