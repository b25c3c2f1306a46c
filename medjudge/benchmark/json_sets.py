"""Reads sets of JSON entries: HealthBench, HalluQA and DISC-MedLLM (judged by GPT-4), EVOUNA (judged by people)."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from medjudge.benchmark.packed import files_in, read_list, read_unpacked
from medjudge.benchmark.published import (
    PublishedSet,
    language_of_text,
    most_frequent,
    question_of,
    read_entries,
    text_of,
    value_of,
)
from medjudge.files import json_lines, parse_json
from medjudge.records import MOST_ITEMS, AnswerKey, Question, RubricItem

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

    def conversation(fields: Any, place: str) -> None:
        name, prompt = text_of(fields, "prompt_id"), _dialogue(value_of(fields, "prompt"))
        items = _criteria(value_of(fields, "rubrics"))
        distinct = sorted({item.text: item for item in items[::-1]}.values(), key=items.index)
        themes = [str(tag).removeprefix("theme:") for tag in fields.get("example_tags") or () if "theme:" in str(tag)]
        read.questions.append(_conversation(name, prompt, themes[0] if themes else "", distinct))
        if len(distinct) < len(items):
            read.odd(place, "a criterion occurs twice in the rubric; it counts once")

    read_entries(path, _lines(path), conversation)
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

    def verdicts(fields: Any, place: str) -> None:
        name, completion, criterion, text = (
            text_of(fields, each) for each in ("prompt_id", "completion_id", "rubric", "completion")
        )
        theme = str(fields.get("category") or "").removeprefix("cluster:")
        prompt, labels = _dialogue(value_of(fields, "prompt")), _labels(fields)
        questions.setdefault(name, _conversation(name, prompt, theme, []))
        criteria.setdefault(name, {}).setdefault(criterion, RubricItem(text=criterion, points=1, theme=theme))
        known = samples.setdefault(name, [])
        if completion not in known:
            known.append(completion)
            read.answer(name, HEALTHBENCH, text, len(known) - 1)
        for rater, met in labels.items():
            if (key := (name, completion, rater, criterion)) in seen:
                read.odd(place, "a physician's verdict on this criterion occurs twice")
                continue
            seen.add(key)
            sample = known.index(completion)
            read.item(name, HEALTHBENCH, f"physician-{rater}", criterion, "met" if met else "not_met", sample)

    read_entries(path, _lines(path), verdicts)
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
        numbered = ((f"[{n}]", fields) for n, fields in enumerate(read_list(path)))
        model = re.sub(r"(?<=.)_output.*$", "", _stem(path))
        read_entries(path, numbered, partial(_add_halluqa, read, asked, model, set()))
    most_frequent(read, asked, "worded differently in some files; the most frequent wording is kept")
    return read


def _add_halluqa(
    read: PublishedSet, asked: list[Question], model: str, seen: set[int], fields: Any, place: str
) -> None:
    number, prompt, text = value_of(fields, "question_id"), text_of(fields, "question"), value_of(fields, "response")
    if type(number) is not int:
        raise ValueError(f"question_id is {number!r}; a whole number is expected")
    if not isinstance(text, str):
        raise ValueError("response is no text")
    right = [text_of(fields, each) for each in _BEST_ANSWERS if each in fields]
    if not right:
        raise ValueError("no Best_Answer1 to Best_Answer4; at least one right answer is needed")
    verdict = value_of(fields, "is_hallucination")
    if type(verdict) is not bool and verdict != _NO_VERDICT:
        raise ValueError(f"is_hallucination is {verdict!r}; true, false or {_NO_VERDICT} is expected")
    if number in seen:
        raise ValueError(f"question_id {number} occurs twice")
    seen.add(number)
    name = f"halluqa-{number}"
    asked.append(question_of(name, "QA", prompt, "zh", reference=_reference(right, "zh")))
    read.answer(name, model, text)
    level = None if verdict == _NO_VERDICT else LEVELS[not verdict]
    read.judgment(AnswerKey(name, model, 0), level, f"is_hallucination is {_NO_VERDICT}")
    if level is None:
        read.odd(place, f"{_NO_VERDICT}: the judgment has no score", about_score=True)


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
    entries: list[tuple[Question, dict[str, tuple[str, bool | None]]]] = []
    for path in files_in(paths, *_ENDINGS):
        stem, listed = _stem(path).lower(), read_list(path)
        # An entry's number in its file is part of its name.
        numbered = ((f"[{n}]", (f"evouna-{stem}-{n}", fields)) for n, fields in enumerate(listed))
        read_entries(path, numbered, partial(_add_evouna, entries))
        improper = sum(isinstance(fields, dict) and fields.get("improper") is True for fields in listed)
        if improper:
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


def _add_evouna(
    entries: list[tuple[Question, dict[str, tuple[str, bool | None]]]], entry: tuple[str, Any], place: str
) -> None:
    name, fields = entry
    if value_of(fields, "improper") is True:
        return
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
    entries.append((question_of(name, "QA", prompt, "en", reference=_reference(golden.split("/"), "en")), answers))


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

    Raises:
        InputError: A file has another layout, or two consultations are of the same question and model.
    """
    read = PublishedSet()
    questions: dict[str, Question] = {}
    seen: set[tuple[str, str]] = set()

    def consultation(line: str, place: str) -> None:
        fields = parse_json(line)
        source, model, scores = (text_of(fields, name) for name in ("source", "model", "scores"))
        found = _ACCURACY.search(scores)
        if found is None:
            raise ValueError("scores: no line 'Accuracy: N' with N from 1 to 5")
        (_, prompt), *turns = _turns(text_of(fields, "prompt"))
        name, accuracy = f"{source.lower()}-{value_of(fields, 'id')}", float(found[1])
        question = question_of(name, "CON", prompt, "zh")
        if questions.setdefault(name, question) != question:
            raise ValueError("prompt: the patient begins in other words than in an earlier line of this id")
        if (name, model) in seen:
            raise ValueError(f"{model} and this id occur a second time; remove one of the two")
        seen.add((name, model))
        read.answer(name, model, "\n\n".join(f"{_SPEAKERS[speaker]}：{text}" for speaker, text in turns))
        read.judgment(AnswerKey(name, model, 0), accuracy, raw=scores)
        if accuracy != int(accuracy):
            read.odd(place, f"Accuracy is {accuracy:g}; read as level {int(accuracy)}", about_score=True)

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
