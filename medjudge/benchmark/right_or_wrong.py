"""Reads sets that call answers right or wrong by a reference: HalluQA, judged by GPT-4, and EVOUNA, by people."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.benchmark.packed import files_in, read_list
from medjudge.benchmark.published import PublishedSet, most_frequent, question_of, sound_entries, text_of, value_of
from medjudge.records import Question

SCHEME, CATEGORY = "reference-qa", "QA"
RATER = "evouna-annotator"
"""The name of EVOUNA's people, whom the files do not tell apart."""
LEVELS = {True: 5, False: 1}
"""Of a right and of a wrong answer; the sets have nothing between."""
_ENDINGS = (".json", ".json.gz")
_ALTERNATIVES = {"en": ("Right answers: ", "{}", " or "), "zh": ("正确答案：", "“{}”", "或者")}
"""How a reference with several right answers begins, how each is written, and what stands between two."""
_BEST_ANSWERS = ("Best_Answer", "Best_Answer1", "Best_Answer2", "Best_Answer3", "Best_Answer4")
_NO_VERDICT = "Invalid_Judge"


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
    question = question_of(f"halluqa-{name}", CATEGORY, prompt, "zh", reference=_reference(right, "zh"))
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
    return _Entry(question_of(name, CATEGORY, prompt, "en", reference=_reference(golden.split("/"), "en")), answers)


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
