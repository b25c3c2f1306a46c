"""Reads sets that call answers right or wrong by a reference: HalluQA, judged by GPT-4, and EVOUNA, by people."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.benchmark.llmeval_med import Oddity
from medjudge.benchmark.packed import files_in, read_list
from medjudge.benchmark.published import (
    PublishedSet,
    answer_of,
    empty_set,
    field,
    judgment_of_teacher,
    text_field,
)
from medjudge.records import PhysicianScore, Question
from medjudge.tables.columns import Problems

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

    name: str
    prompt: str
    reference: str
    answers: dict[str, tuple[str, bool | None]]

    def question(self, language: str) -> Question:
        return Question(
            id=self.name,
            category=CATEGORY,
            group=self.name,
            prompt=self.prompt,
            reference=self.reference,
            language=language,
        )


def read_halluqa(paths: Sequence[Path]) -> PublishedSet:
    """Reads HalluQA: Chinese questions, up to four right answers to each, and GPT-4's verdicts on models' answers.

    A file holds the answers of one model, which it is named after. A question's wording differs between files now and
    then; the most frequent one is kept. `Invalid_Judge` is a judgment without a score.

    Args:
        paths: Files (`.json`, `.json.gz`), or folders of them.

    Raises:
        InputError: A file has another layout.
    """
    read = empty_set()
    wordings: dict[str, list[_Entry]] = {}
    for path in files_in(paths, *_ENDINGS):
        model = re.sub(r"(?<=.)_output.*$", "", _stem(path))
        problems, seen = Problems(path), set()
        for number, fields in enumerate(read_list(path)):
            place = f"[{number}]"
            try:
                entry = _halluqa(fields, model)
                if entry.name in seen:
                    raise ValueError(f"question_id {fields['question_id']} occurs twice")
            except ValueError as error:
                problems.add(place, str(error))
                continue
            seen.add(entry.name)
            wordings.setdefault(entry.name, []).append(entry)
            text, right = entry.answers[model]
            read.answers.append(answer_of(entry.name, model, text))
            level = None if right is None else LEVELS[right]
            read.judgments.append(judgment_of_teacher(entry.name, model, level, f"is_hallucination is {_NO_VERDICT}"))
            if right is None:
                read.oddities.append(Oddity(f"{path}, {place}", f"{_NO_VERDICT}: the judgment has no score", True))
        problems.refuse()
    for name, entries in wordings.items():
        (wording, _), *others = Counter((entry.prompt, entry.reference) for entry in entries).most_common()
        kept = next(entry for entry in entries if (entry.prompt, entry.reference) == wording)
        read.questions.append(kept.question("zh"))
        if others:
            read.oddities.append(Oddity(name, "worded differently in some files; the most frequent wording is kept"))
    return read


def _halluqa(fields: Any, model: str) -> _Entry:
    name, prompt, text = field(fields, "question_id"), text_field(fields, "question"), field(fields, "response")
    if type(name) is not int:
        raise ValueError(f"question_id is {name!r}; a whole number is expected")
    if not isinstance(text, str):
        raise ValueError("response is no text")
    right = [text_field(fields, each) for each in _BEST_ANSWERS if each in fields]
    if not right:
        raise ValueError("no Best_Answer1 to Best_Answer4; at least one right answer is needed")
    verdict = field(fields, "is_hallucination")
    if type(verdict) is not bool and verdict != _NO_VERDICT:
        raise ValueError(f"is_hallucination is {verdict!r}; true, false or {_NO_VERDICT} is expected")
    is_right = None if verdict == _NO_VERDICT else not verdict
    return _Entry(f"halluqa-{name}", prompt, _reference(right, "zh"), {model: (text, is_right)})


def read_evouna(paths: Sequence[Path]) -> PublishedSet:
    """Reads EVOUNA: open English questions with a short reference, and people's verdicts on systems' answers.

    Questions marked `improper` are left out, and so is an answer without a verdict. So is a question whose text occurs
    twice: in the published set, the first of two holds the answers to another question.

    Args:
        paths: Files (`.json`, `.json.gz`), or folders of them.

    Raises:
        InputError: A file has another layout.
    """
    read = empty_set()
    entries: list[_Entry] = []
    for path in files_in(paths, *_ENDINGS):
        problems, improper = Problems(path), 0
        for number, fields in enumerate(read_list(path)):
            try:
                if field(fields, "improper") is True:
                    improper += 1
                    continue
                entries.append(_evouna(fields, f"evouna-{_stem(path).lower()}-{number}"))
            except ValueError as error:
                problems.add(f"[{number}]", str(error))
        problems.refuse()
        if improper:
            read.oddities.append(Oddity(str(path), f"{improper:,} questions are marked improper; they are left out"))
    times = Counter(entry.prompt for entry in entries)
    for entry in entries:
        if times[entry.prompt] > 1:
            read.oddities.append(Oddity(entry.name, "another entry asks the same question; both are left out"))
            continue
        read.questions.append(entry.question("en"))
        for model, (text, right) in entry.answers.items():
            if right is None:
                what = "an answer without a verdict; it is left out"
                read.oddities.append(Oddity(f"{entry.name}, {model}", what, about_score=True))
                continue
            read.answers.append(answer_of(entry.name, model, text))
            score = PhysicianScore(question_id=entry.name, model=model, rater=RATER, score=LEVELS[right])
            read.scores.append(score)
    return read


def _evouna(fields: Any, name: str) -> _Entry:
    prompt, golden = text_field(fields, "question"), text_field(fields, "golden_answer")
    systems = [each.removeprefix("judge_") for each in fields if re.match(r"judge_\S", each)]
    if not systems:
        raise ValueError("no field judge_SYSTEM; at least one system's answer_SYSTEM and judge_SYSTEM are needed")
    answers = {}
    for system in systems:
        text, verdict = field(fields, f"answer_{system}"), fields[f"judge_{system}"]
        if not isinstance(text, str | None):
            raise ValueError(f"answer_{system} is no text")
        if verdict == "nan" or (isinstance(verdict, float) and math.isnan(verdict)):
            verdict = None
        if type(verdict) is not bool and verdict is not None:
            raise ValueError(f"judge_{system} is {verdict!r}; true, false or null is expected")
        answers[system] = (text or "", verdict)
    return _Entry(name, prompt, _reference(golden.split("/"), "en"), answers)


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
