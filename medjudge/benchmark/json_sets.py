"""Reads sets of JSON entries: HealthBench, HalluQA and DISC-MedLLM (judged by GPT-4), EVOUNA (judged by people)."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.benchmark.packed import files_in, read_list, read_unpacked
from medjudge.benchmark.published import (
    PublishedSet,
    language_of_text,
    most_frequent,
    question_of,
    sound_entries,
    text_of,
    value_of,
)
from medjudge.files import json_lines, parse_json
from medjudge.records import MOST_ITEMS, Question, RubricItem

HEALTHBENCH = "healthbench"
"""The writer of the completions of the meta-evaluation, whom the file does not name."""
REFERENCE_QA = "reference-qa"
"""The scheme of HalluQA's and EVOUNA's questions."""
RATER = "evouna-annotator"
"""The name of EVOUNA's people, whom the files do not tell apart."""
LEVELS = {True: 5, False: 1}
"""Of a right and of a wrong answer; the sets have nothing between."""
_ENDINGS = (".json", ".json.gz")
_ALTERNATIVES = {"en": ("Right answers: ", "{}", " or "), "zh": ("正确答案：", "“{}”", "或者")}
"""Beginning of a reference with several right answers, form of each, and the words between two."""
_BEST_ANSWERS = ("Best_Answer", "Best_Answer1", "Best_Answer2", "Best_Answer3", "Best_Answer4")
_NO_VERDICT = "Invalid_Judge"
CONSULTATIONS = "consultations"
"""The scheme of DISC-MedLLM's questions."""
_SPEAKERS = {"patient": "患者", "doctor": "医生"}
_CONVERSATION = re.compile(r"\[start of conversation\]\s*(.*)\[end of conversation\]", re.DOTALL)
_TURN = re.compile(rf"^({'|'.join(_SPEAKERS)}):", re.MULTILINE)
_ACCURACY = re.compile(r"^Accuracy:\s*([1-4](?:\.\d+)?|5(?:\.0+)?)\s*$", re.MULTILINE)


class _Verdicts(NamedTuple):
    """A line of the meta-evaluation: physicians' labels of one criterion of one completion."""

    name: str
    completion: str
    criterion: str
    text: str
    prompt: str
    theme: str
    labels: dict[str, bool]


def read_healthbench(path: Path) -> PublishedSet:
    """Read the conversations and their rubrics; the set has no answers.

    The criteria become the question's items, with their points and their axis as theme; a criterion that is written
    twice in a rubric counts once. They also become its checklist, one a line with its points: what an answer must say
    first, the criteria with negative points behind `Must not:`. Levels are not defined by the set: a judge that reads
    checklists gives them.

    Raises:
        InputError: A line has another layout.
    """
    read = PublishedSet()

    def conversation(fields: Any) -> tuple[Question, bool]:
        name, prompt = text_of(fields, "prompt_id"), _dialogue(value_of(fields, "prompt"))
        items = _criteria(value_of(fields, "rubrics"))
        distinct = sorted({item.text: item for item in items[::-1]}.values(), key=items.index)
        themes = [str(tag).removeprefix("theme:") for tag in fields.get("example_tags") or () if "theme:" in str(tag)]
        return _conversation(name, prompt, themes[0] if themes else "", distinct), len(distinct) < len(items)

    for place, (question, twice) in sound_entries(path, _lines(path), conversation):
        read.questions.append(question)
        if twice:
            read.odd(f"{path}, {place}", "a criterion occurs twice in the rubric; it counts once")
    return read


def read_healthbench_meta(path: Path) -> PublishedSet:
    """Read the meta-evaluation: verdicts of physicians on single criteria of completions.

    Each physician's label becomes an ItemScore: true is met, false is not met. The criteria of a conversation become
    the items of its question; the file gives no points, so each is worth 1. The set scores criteria and no answers, so
    there are no levels.

    Raises:
        InputError: A line has another layout.
    """
    read = PublishedSet()
    questions: dict[str, Question] = {}
    criteria: dict[str, dict[str, RubricItem]] = {}
    samples: dict[str, list[str]] = {}
    seen: set[tuple[str, ...]] = set()

    def verdicts(fields: Any) -> _Verdicts:
        name, completion, criterion, text = (
            text_of(fields, each) for each in ("prompt_id", "completion_id", "rubric", "completion")
        )
        theme = str(fields.get("category") or "").removeprefix("cluster:")
        return _Verdicts(
            name, completion, criterion, text, _dialogue(value_of(fields, "prompt")), theme, _labels(fields)
        )

    for place, entry in sound_entries(path, _lines(path), verdicts):
        name, completion, criterion, text, prompt, theme, labels = entry
        questions.setdefault(name, _conversation(name, prompt, theme, []))
        criteria.setdefault(name, {}).setdefault(criterion, RubricItem(text=criterion, points=1, theme=theme))
        known = samples.setdefault(name, [])
        if completion not in known:
            known.append(completion)
            read.answer(name, HEALTHBENCH, text, len(known) - 1)
        for rater, met in labels.items():
            if (key := (name, completion, rater, criterion)) in seen:
                read.odd(f"{path}, {place}", "a physician's verdict on this criterion occurs twice")
                continue
            seen.add(key)
            sample = known.index(completion)
            read.item(name, HEALTHBENCH, f"physician-{rater}", criterion, "met" if met else "not_met", sample)
    read.questions.extend(
        question.model_copy(update={"items": list(criteria[name].values())[:MOST_ITEMS]})
        for name, question in questions.items()
    )
    return read


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    return ((f"line {number}", fields) for number, fields in json_lines(path))


def _conversation(name: str, prompt: str, theme: str, items: list[RubricItem]) -> Question:
    """A question of category MK, as HealthBench has themes and no categories."""
    lines = [(item.points < 0, f"- {item.text} ({item.points:+g})") for item in items]
    wanted, unwanted = ([line for negative, line in lines if negative is side] for side in (False, True))
    checklist = "\n".join([*wanted, *(["Must not:", *unwanted] if unwanted else [])])
    return question_of(
        name,
        "MK",
        prompt,
        language_of_text(prompt),
        subcategory=theme,
        checklist=checklist or None,
        items=items or None,
    )


def _criteria(rubrics: Any) -> list[RubricItem]:
    """The criteria in their order."""
    if not isinstance(rubrics, list) or not rubrics:
        raise ValueError("rubrics needs a list of objects with criterion and points")
    if len(rubrics) > MOST_ITEMS:
        raise ValueError(f"rubrics has {len(rubrics)} criteria, and a question has at most {MOST_ITEMS}")
    items = []
    for number, rubric in enumerate(rubrics, 1):
        points = rubric.get("points") if isinstance(rubric, dict) else None
        if not isinstance(points, (int, float)) or isinstance(points, bool):
            raise ValueError(f"rubrics, criterion {number}: every criterion needs its points, a number")
        tags = [str(tag) for tag in rubric.get("tags") or ()]
        axis = next((tag.removeprefix("axis:") for tag in tags if tag.startswith("axis:")), "")
        items.append(RubricItem(text=text_of(rubric, "criterion"), points=float(points), theme=axis))
    return items


def _labels(fields: dict[str, Any]) -> dict[str, bool]:
    """The label of each physician."""
    labels, raters = value_of(fields, "binary_labels"), value_of(fields, "anonymized_physician_ids")
    if not isinstance(labels, list) or not isinstance(raters, list) or len(labels) != len(raters):
        raise ValueError("binary_labels and anonymized_physician_ids need lists of the same length")
    if any(type(label) is not bool for label in labels):
        raise ValueError("binary_labels: true or false is expected")
    return {str(rater): label for rater, label in zip(raters, labels, strict=True)}


def _dialogue(messages: Any) -> str:
    """A list of messages as one prompt: a single one as it is, several with who says what."""
    listed = messages if isinstance(messages, list) else []
    texts = [
        message.get(name) if isinstance(message, dict) else None for message in listed for name in ("role", "content")
    ]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError("prompt needs a list of messages with role and content")
    turns = [(message["role"].capitalize(), message["content"].strip()) for message in listed]
    return turns[0][1] if len(turns) == 1 else "\n\n".join(f"{role}: {content}" for role, content in turns)


class _Entry(NamedTuple):
    """A question with its answers by model, and for each whether it is right; None without a verdict."""

    question: Question
    answers: dict[str, tuple[str, bool | None]]


def read_halluqa(paths: Sequence[Path]) -> PublishedSet:
    """Read HalluQA: Chinese questions, up to four right answers to each, and GPT-4's verdicts on models' answers.

    A file holds the answers of one model, which it is named after. A question's wording differs between files now and
    then; the most frequent one is kept. `Invalid_Judge` is a judgment without a score.

    Args:
        paths: Files (`.json`, `.json.gz`), or folders of them.

    Raises:
        InputError: A file has another layout.
    """
    read = PublishedSet()
    asked: list[Question] = []
    for path in files_in(paths, *_ENDINGS):
        model, seen = re.sub(r"(?<=.)_output.*$", "", _stem(path)), set[str]()

        def entry_of(fields: Any, model: str = model, seen: set[str] = seen) -> _Entry:
            entry = _halluqa(fields, model)
            if entry.question.id in seen:
                raise ValueError(f"question_id {fields['question_id']} occurs twice")
            seen.add(entry.question.id)
            return entry

        numbered = ((f"[{n}]", fields) for n, fields in enumerate(read_list(path)))
        for place, (question, answers) in sound_entries(path, numbered, entry_of):
            asked.append(question)
            text, right = answers[model]
            read.answer(question.id, model, text)
            level = None if right is None else LEVELS[right]
            read.judgment(question.id, model, level, f"is_hallucination is {_NO_VERDICT}")
            if right is None:
                read.odd(f"{path}, {place}", f"{_NO_VERDICT}: the judgment has no score", about_score=True)
    most_frequent(read, asked, "worded differently in some files; the most frequent wording is kept")
    return read


def _halluqa(fields: Any, model: str) -> _Entry:
    name, prompt, text = value_of(fields, "question_id"), text_of(fields, "question"), value_of(fields, "response")
    if type(name) is not int:
        raise ValueError(f"question_id is {name!r}; a whole number is expected")
    if not isinstance(text, str):
        raise ValueError("response is no text")
    right = [text_of(fields, each) for each in _BEST_ANSWERS if each in fields]
    if not right:
        raise ValueError("no Best_Answer1 to Best_Answer4; at least one right answer is needed")
    verdict = value_of(fields, "is_hallucination")
    if type(verdict) is not bool and verdict != _NO_VERDICT:
        raise ValueError(f"is_hallucination is {verdict!r}; true, false or {_NO_VERDICT} is expected")
    question = question_of(f"halluqa-{name}", "QA", prompt, "zh", reference=_reference(right, "zh"))
    return _Entry(question, {model: (text, None if verdict == _NO_VERDICT else not verdict)})


def read_evouna(paths: Sequence[Path]) -> PublishedSet:
    """Read EVOUNA: open English questions with a short reference, and people's verdicts on systems' answers.

    Questions marked `improper` are left out, and so is an answer without a verdict. So is a question whose text occurs
    twice: in the published set, the first of two holds the answers to another question.

    Args:
        paths: Files (`.json`, `.json.gz`), or folders of them.

    Raises:
        InputError: A file has another layout.
    """
    read = PublishedSet()
    entries: list[_Entry] = []
    for path in files_in(paths, *_ENDINGS):
        stem = _stem(path).lower()
        # An entry's number in its file is part of its name.
        numbered = ((f"[{n}]", (f"evouna-{stem}-{n}", fields)) for n, fields in enumerate(read_list(path)))
        found = [entry for _, entry in sound_entries(path, numbered, _evouna)]
        entries += (entry for entry in found if entry is not None)
        if improper := found.count(None):
            read.odd(str(path), f"{improper:,} questions are marked improper; they are left out")
    times = Counter(question.prompt for question, _ in entries)
    for question, answers in entries:
        if times[question.prompt] > 1:
            read.odd(question.id, "another entry asks the same question; both are left out")
            continue
        read.questions.append(question)
        for model, (text, right) in answers.items():
            if right is None:
                what = "an answer without a verdict; it is left out"
                read.odd(f"{question.id}, {model}", what, about_score=True)
                continue
            read.answer(question.id, model, text)
            read.score(question.id, model, RATER, LEVELS[right])
    return read


def _evouna(entry: tuple[str, Any]) -> _Entry | None:
    name, fields = entry
    if value_of(fields, "improper") is True:
        return None
    prompt, golden = text_of(fields, "question"), text_of(fields, "golden_answer")
    systems = [each.removeprefix("judge_") for each in fields if re.match(r"judge_\S", each)]
    if not systems:
        raise ValueError("no field judge_SYSTEM; at least one system's answer_SYSTEM and judge_SYSTEM are needed")
    answers = {}
    for system in systems:
        text, verdict = value_of(fields, f"answer_{system}"), fields[f"judge_{system}"]
        if not isinstance(text, str | None):
            raise ValueError(f"answer_{system} is no text")
        if verdict == "nan" or (isinstance(verdict, float) and math.isnan(verdict)):
            verdict = None
        if type(verdict) is not bool and verdict is not None:
            raise ValueError(f"judge_{system} is {verdict!r}; true, false or null is expected")
        answers[system] = (text or "", verdict)
    return _Entry(question_of(name, "QA", prompt, "en", reference=_reference(golden.split("/"), "en")), answers)


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


class _Consultation(NamedTuple):
    question: Question
    model: str
    text: str
    accuracy: float
    scores: str


def read_disc_medllm(paths: Sequence[Path]) -> PublishedSet:
    """Read consultations between a simulated patient and a model, with GPT-4's scores on four scales.

    The patient's first message is the question, which all models got; the conversation from the doctor's first reply on
    is the answer, because GPT-4 scored all of it. `Accuracy` becomes the level, 4.5 level 4; the four scores are kept
    as the teacher's reply.

    Args:
        paths: Files (`.jsonl`, `.jsonl.gz`), or folders of them.

    Raises:
        InputError: A file has another layout, or two consultations are of the same question and model.
    """
    read = PublishedSet()
    questions: dict[str, Question] = {}
    seen: set[tuple[str, str]] = set()

    def consultation(line: str) -> _Consultation:
        entry = _consultation(parse_json(line))
        question, key = entry.question, (entry.question.id, entry.model)
        if questions.setdefault(question.id, question) != question:
            raise ValueError("prompt: the patient begins in other words than in an earlier line of this id")
        if key in seen:
            raise ValueError(f"{entry.model} and this id occur a second time; remove one of the two")
        seen.add(key)
        return entry

    for path in files_in(paths, ".jsonl", ".jsonl.gz"):
        lines = ((f"line {n}", line) for n, line in enumerate(read_unpacked(path).split("\n"), 1) if line.strip())
        for place, (question, model, text, accuracy, scores) in sound_entries(path, lines, consultation):
            read.answer(question.id, model, text)
            read.judgment(question.id, model, accuracy, raw=scores)
            if accuracy != int(accuracy):
                what = f"Accuracy is {accuracy:g}; read as level {int(accuracy)}"
                read.odd(f"{path}, {place}", what, about_score=True)
    read.questions.extend(questions.values())
    return read


def _consultation(fields: Any) -> _Consultation:
    source, model, scores = (text_of(fields, name) for name in ("source", "model", "scores"))
    accuracy = _ACCURACY.search(scores)
    if accuracy is None:
        raise ValueError("scores: no line 'Accuracy: N' with N from 1 to 5")
    conversation = _CONVERSATION.search(text_of(fields, "prompt"))
    _, *parts = _TURN.split(conversation[1]) if conversation else [""]
    turns = list(zip(parts[::2], (text.strip() for text in parts[1::2]), strict=True))
    if [speaker for speaker, _ in turns[:2]] != list(_SPEAKERS) or not all(text for _, text in turns):
        raise ValueError(
            "prompt: a conversation is expected between [start of conversation] and [end of conversation], of patient: "
            "and doctor:, first the patient"
        )
    name = f"{source.lower()}-{value_of(fields, 'id')}"
    question = question_of(name, "CON", turns[0][1], "zh")
    text = "\n\n".join(f"{_SPEAKERS[speaker]}：{text}" for speaker, text in turns[1:])
    return _Consultation(question, model, text, float(accuracy[1]), scores)
