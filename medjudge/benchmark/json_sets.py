"""Reads sets of JSON entries: HealthBench, HalluQA and DISC-MedLLM (judged by GPT-4), EVOUNA (judged by people).

A file that breaks its layout is refused with an InputError that names all its problems.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from medjudge.benchmark.packed import files_in, read_list, read_unpacked
from medjudge.benchmark.published import (
    FilledText,
    Layout,
    PublishedSet,
    language_of_text,
    most_frequent,
    question_of,
    read_entries,
)
from medjudge.files import clipped, json_lines, parse_json
from medjudge.records import MOST_ITEMS, Question, RubricItem

REFERENCE_QA = "reference-qa"
"""The scheme of HalluQA's and EVOUNA's questions."""
RATER = "evouna-annotator"
"""The name of EVOUNA's people, whom the files do not tell apart."""
LEVELS = {True: 5, False: 1}
"""Of a right and of a wrong answer; the sets have nothing between."""
CONSULTATIONS = "consultations"
"""The scheme of DISC-MedLLM's questions."""
_ENDINGS = (".json", ".json.gz")
_ALTERNATIVES = {"en": ("Right answers: ", "{}", " or "), "zh": ("正确答案：", "“{}”", "或者")}
"""Beginning of a reference with several right answers, form of each, and the words between two."""
_BEST_ANSWERS = ("Best_Answer", "Best_Answer1", "Best_Answer2", "Best_Answer3", "Best_Answer4")
_NO_VERDICT = "Invalid_Judge"
_SPEAKERS = {"patient": "患者", "doctor": "医生"}
_CONVERSATION = re.compile(r"\[start of conversation\]\s*(.*)\[end of conversation\]", re.DOTALL)
_TURN = re.compile(rf"^({'|'.join(_SPEAKERS)}):", re.MULTILINE)
_ACCURACY = re.compile(r"^Accuracy:\s*([1-4](?:\.\d+)?|5(?:\.0+)?)\s*$", re.MULTILINE)


class _Message(Layout):
    role: str
    content: str


class _Criterion(Layout):
    criterion: FilledText
    points: float
    tags: list[str] | None = None


class _Healthbench(Layout):
    prompt_id: FilledText
    prompt: Annotated[list[_Message], Field(min_length=1)]
    rubrics: Annotated[list[_Criterion], Field(min_length=1, max_length=MOST_ITEMS)]
    example_tags: list[str] | None = None


class _Meta(Layout):
    prompt_id: FilledText
    prompt: Annotated[list[_Message], Field(min_length=1)]
    completion_id: FilledText
    completion: FilledText
    rubric: FilledText
    category: str | None = None
    binary_labels: list[bool]
    anonymized_physician_ids: list[str | int]


class _Halluqa(Layout):
    question_id: int
    question: FilledText
    response: str
    is_hallucination: Any


class _Evouna(Layout):
    improper: bool
    question: FilledText
    golden_answer: FilledText


class _Consultation(Layout):
    id: str | int
    source: FilledText
    model: FilledText
    scores: FilledText
    prompt: FilledText


def read_healthbench(path: Path) -> PublishedSet:
    """Read the conversations and their rubrics; the set has no answers.

    The criteria become the question's items, with their points and their axis as theme; a criterion that is written
    twice in a rubric counts once. They also become its checklist, one a line with its points: what an answer must say
    first, the criteria with negative points behind `Must not:`. Levels are not defined by the set: a judge that reads
    checklists gives them.
    """
    read = PublishedSet()

    def conversation(fields: Any, place: str) -> None:
        entry = _Healthbench.model_validate(fields)
        rubric = ((each.criterion, each.points, _tagged("axis:", each.tags)) for each in entry.rubrics)
        items = [RubricItem(text=text, points=points, theme=theme) for text, points, theme in rubric]
        distinct = sorted({item.text: item for item in items[::-1]}.values(), key=items.index)
        theme = _tagged("theme:", entry.example_tags)
        read.questions.append(_conversation(entry.prompt_id, entry.prompt, theme, distinct))
        if len(distinct) < len(items):
            read.odd(place, "a criterion occurs twice in the rubric; it counts once")

    read_entries(path, _lines(path), conversation)
    return read


def read_healthbench_meta(path: Path) -> PublishedSet:
    """Read the meta-evaluation: verdicts of physicians on single criteria of completions.

    Each physician's label becomes an ItemScore: true is met, false is not met. The criteria of a conversation become
    the items of its question; the file gives no points, so each is worth 1. The set scores criteria and no answers, so
    there are no levels.
    """
    read = PublishedSet()
    questions: dict[str, Question] = {}
    criteria: dict[str, dict[str, RubricItem]] = {}
    samples: dict[str, list[str]] = {}

    def verdicts(fields: Any, place: str) -> None:
        entry = _Meta.model_validate(fields)
        name, theme = entry.prompt_id, (entry.category or "").removeprefix("cluster:")
        if len(entry.binary_labels) != len(entry.anonymized_physician_ids):
            raise ValueError("binary_labels and anonymized_physician_ids need lists of the same length")
        questions.setdefault(name, _conversation(name, entry.prompt, theme, []))
        criterion = RubricItem(text=entry.rubric, points=1, theme=theme)
        criteria.setdefault(name, {}).setdefault(entry.rubric, criterion)
        known = samples.setdefault(name, [])
        if entry.completion_id not in known:
            known.append(entry.completion_id)
        # The file does not name the writers of the completions.
        key = read.answer(name, "healthbench", entry.completion, known.index(entry.completion_id))
        for rater, met in zip(entry.anonymized_physician_ids, entry.binary_labels, strict=True):
            try:
                read.item(key, f"physician-{rater}", entry.rubric, "met" if met else "not_met")
            except ValueError as twice:
                read.odd(place, str(twice))

    read_entries(path, _lines(path), verdicts)
    read.questions.extend(
        question.model_copy(update={"items": list(criteria[name].values())[:MOST_ITEMS]})
        for name, question in questions.items()
    )
    return read


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    return ((f"line {number}", fields) for number, fields in json_lines(path))


def _tagged(prefix: str, tags: Sequence[str] | None) -> str:
    return next((tag.removeprefix(prefix) for tag in tags or () if tag.startswith(prefix)), "")


def _conversation(name: str, messages: Sequence[_Message], theme: str, items: list[RubricItem]) -> Question:
    """A question of category MK, as HealthBench has themes and no categories; several messages say who speaks."""
    turns = [f"{message.role.capitalize()}: {message.content.strip()}" for message in messages]
    prompt = "\n\n".join(turns) if len(turns) > 1 else messages[0].content.strip()
    wanted, unwanted = (
        [f"- {item.text} ({item.points:+g})" for item in items if (item.points < 0) is negative]
        for negative in (False, True)
    )
    checklist = "\n".join([*wanted, *(["Must not:", *unwanted] if unwanted else [])])
    others = {"subcategory": theme, "checklist": checklist or None, "items": items or None}
    return question_of(name, "MK", prompt, language_of_text(prompt), **others)


def read_halluqa(paths: Sequence[Path]) -> PublishedSet:
    """Read HalluQA: Chinese questions, up to four right answers to each, and GPT-4's verdicts on models' answers.

    A file holds the answers of one model, which it is named after. A question's wording differs between files now and
    then; the most frequent one is kept. `Invalid_Judge` is a judgment without a score.

    Args:
        paths: Files (`.json`, `.json.gz`), or folders of them.
    """
    read = PublishedSet()
    asked: list[Question] = []
    model = ""

    def answer(fields: Any, place: str) -> None:
        entry = _Halluqa.model_validate(fields)
        right = {name: fields[name] for name in _BEST_ANSWERS if name in fields}
        if wrong := [name for name, text in right.items() if not isinstance(text, str) or not text.strip()]:
            raise ValueError(f"{wrong[0]} is empty or no text; give its text, or remove the field")
        if not right:
            raise ValueError("no Best_Answer1 to Best_Answer4; at least one right answer is needed")
        name, verdict = f"halluqa-{entry.question_id}", entry.is_hallucination
        if type(verdict) is not bool and verdict != _NO_VERDICT:
            raise ValueError(f"is_hallucination is {clipped(verdict)}; true, false or {_NO_VERDICT} is expected")
        asked.append(question_of(name, "QA", entry.question, "zh", reference=_reference(right.values(), "zh")))
        level = None if verdict == _NO_VERDICT else LEVELS[not verdict]
        key = read.answer(name, model, entry.response)
        read.judgment(key, level, f"is_hallucination is {_NO_VERDICT}")
        if level is None:
            read.odd(place, f"{_NO_VERDICT}: the judgment has no score")

    for path in files_in(paths, *_ENDINGS):
        model = re.sub(r"(?<=.)_output.*$", "", _stem(path))
        read_entries(path, read_list(path), answer)
    most_frequent(read, asked, "worded differently in some files; the most frequent wording is kept")
    return read


def read_evouna(paths: Sequence[Path]) -> PublishedSet:
    """Read EVOUNA: open English questions with a short reference, and people's verdicts on systems' answers.

    Questions marked `improper` are left out, and so is an answer without a verdict. So is a question whose text occurs
    twice: in the published set, the first of two holds the answers to another question.

    Args:
        paths: Files (`.json`, `.json.gz`), or folders of them.
    """
    read = PublishedSet()
    entries: list[tuple[Question, dict[str, tuple[str, bool | None]]]] = []

    def answers(named: tuple[str, Any], place: str) -> None:
        name, fields = named
        entry = _Evouna.model_validate(fields)
        systems = [each.removeprefix("judge_") for each in fields if re.match(r"judge_\S", each)]
        if not systems:
            raise ValueError("no field judge_SYSTEM; at least one system's answer_SYSTEM and judge_SYSTEM are needed")
        reference = _reference(entry.golden_answer.split("/"), "en")
        question = question_of(name, "QA", entry.question, "en", reference=reference)
        entries.append((question, {system: _judged(fields, system) for system in systems}))

    for path in files_in(paths, *_ENDINGS):
        listed = read_list(path)
        proper = [(at, one) for at, one in listed if not (isinstance(one, dict) and one.get("improper") is True)]
        # An entry's number in its file is part of its name.
        stem = _stem(path).lower()
        read_entries(path, ((at, (f"evouna-{stem}-{at.strip('[]')}", fields)) for at, fields in proper), answers)
        if improper := len(listed) - len(proper):
            read.odd(str(path), f"{improper:,} questions are marked improper; they are left out")
    times = Counter(question.prompt for question, _ in entries)
    for question, answered in entries:
        if times[question.prompt] > 1:
            read.odd(question.id, "another entry asks the same question; both are left out")
            continue
        read.questions.append(question)
        for model, (text, right) in answered.items():
            if right is None:
                read.odd(f"{question.id}, {model}", "an answer without a verdict; it is left out")
            else:
                read.score(read.answer(question.id, model, text), RATER, LEVELS[right])
    return read


def _judged(fields: dict[str, Any], system: str) -> tuple[str, bool | None]:
    """A system's answer, and people's verdict on it: right, wrong, or none."""
    if f"answer_{system}" not in fields:
        raise ValueError(f"answer_{system} is missing")
    text, verdict = fields[f"answer_{system}"], fields[f"judge_{system}"]
    if not isinstance(text, str | None):
        raise ValueError(f"answer_{system} is no text")
    if verdict == "nan" or (isinstance(verdict, float) and math.isnan(verdict)):
        verdict = None
    if not isinstance(verdict, bool | None):
        raise ValueError(f"judge_{system} is {verdict!r}; true, false or null is expected")
    return text or "", verdict


def _reference(alternatives: Iterable[str], language: str) -> str:
    """One of several right answers as it is; several as a text that says that each of them is right."""
    distinct: dict[str, str] = {}
    for text in alternatives:
        if text.strip():
            distinct.setdefault(text.strip().casefold(), text.strip())
    if len(distinct) < 2:
        return "".join(distinct.values())
    begins, each, between = _ALTERNATIVES[language]
    return begins + between.join(each.format(text.removesuffix("。")) for text in distinct.values())


def _stem(path: Path) -> str:
    return re.sub(r"\.json(\.gz)?$", "", path.name)


def read_disc_medllm(paths: Sequence[Path]) -> PublishedSet:
    """Read consultations between a simulated patient and a model, with GPT-4's scores on four scales.

    The patient's first message is the question, which all models got; the conversation from the doctor's first reply on
    is the answer, because GPT-4 scored all of it. `Accuracy` becomes the level, 4.5 level 4; the four scores are kept
    as the teacher's reply.

    Args:
        paths: Files (`.jsonl`, `.jsonl.gz`), or folders of them.
    """
    read = PublishedSet()
    questions: dict[str, Question] = {}

    def consultation(line: str, place: str) -> None:
        entry = _Consultation.model_validate(parse_json(line))
        found = _ACCURACY.search(entry.scores)
        if found is None:
            raise ValueError("scores: no line 'Accuracy: N' with N from 1 to 5")
        (_, prompt), *turns = _turns(entry.prompt)
        name, accuracy = f"{entry.source.lower()}-{entry.id}", float(found[1])
        question = question_of(name, "CON", prompt, "zh")
        if questions.setdefault(name, question) != question:
            raise ValueError("prompt: the patient begins in other words than in an earlier line of this id")
        text = "\n\n".join(f"{_SPEAKERS[speaker]}：{text}" for speaker, text in turns)
        read.judgment(read.answer(name, entry.model, text), accuracy, raw=entry.scores)
        if accuracy != int(accuracy):
            read.odd(place, f"Accuracy is {accuracy:g}; read as level {int(accuracy)}")

    for path in files_in(paths, ".jsonl", ".jsonl.gz"):
        lines = ((f"line {n}", line) for n, line in enumerate(read_unpacked(path).split("\n"), 1) if line.strip())
        read_entries(path, lines, consultation)
    read.questions.extend(questions.values())
    return read


def _turns(prompt: str) -> list[tuple[str, str]]:
    """Speaker and text of each turn of the conversation in a prompt."""
    conversation = _CONVERSATION.search(prompt)
    _, *parts = _TURN.split(conversation[1]) if conversation else [""]
    turns = list(zip(parts[::2], (text.strip() for text in parts[1::2]), strict=True))
    if [speaker for speaker, _ in turns[:2]] != list(_SPEAKERS) or not all(text for _, text in turns):
        raise ValueError(
            "prompt: a conversation is expected between [start of conversation] and [end of conversation], of patient: "
            "and doctor:, first the patient"
        )
    return turns
