"""Reads 2,479 judgments of MedQuAD's answers to the medical test questions of TREC LiveQA 2017."""

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from medjudge.benchmark.expert_sets import LEVEL_OF_MEDIQA, liveqa_questions
from medjudge.benchmark.llmeval_med import Oddity
from medjudge.benchmark.packed import read_unpacked, read_zip
from medjudge.benchmark.published import PublishedSet, empty_set
from medjudge.errors import InputError
from medjudge.records import Answer, PhysicianScore
from medjudge.tables.columns import Problems

WITHDRAWN = ("ADAM", "MPlusDrugs", "MPlusHerbsSuppls")
"""Sources whose texts MedQuAD withdrew for copyright; the archive of the answers still holds them."""
_JUDGMENT = re.compile(r"\s*(\d+)\s+([1-4])-\w+\s+(\S+)\s*")


class _Files(NamedTuple):
    """The XML of the questions, and the place and the text of the table of answers and of the judgments."""

    xml: Path
    table: tuple[str, str]
    judgments: tuple[str, str]


def read_liveqa_2479(paths: Sequence[Path]) -> PublishedSet:
    """Reads the questions, MedQuAD's answers to them, and one or two judgments of each.

    Scores are read as MEDIQA's. An answer's model is `medquad-SOURCE`. The file does not name the assessors, and puts
    the lower of two judgments first: two names alternate, so that neither stands for the lower ones. Left out are
    answers of `WITHDRAWN` sources or without text, and questions without answers.

    Args:
        paths: The XML of the reference answers, which holds the questions, and the zip archive, or its `.csv` of
            answers and its `.txt` of judgments.

    Raises:
        InputError: A file is missing or of another kind, or a line has an unknown question, answer or score.
    """
    files = _files(paths)
    questions, texts = liveqa_questions(files.xml), _answers(*files.table)
    place, judgments = files.judgments
    read, problems, left_out = empty_set(), Problems(Path(place)), 0
    answers: dict[tuple[str, str], Answer] = {}
    samples: Counter[tuple[str, str]] = Counter()
    times: Counter[tuple[str, str]] = Counter()
    for line, text in enumerate(judgments.splitlines(), start=1):
        if not text.strip():
            continue
        match = _JUDGMENT.fullmatch(text)
        if match is None or match[1] not in questions or match[3] not in texts:
            what = (
                f"'{text[:60]}' is not the number of a question, a score such as 3-Incomplete, and the id of an answer"
            )
            problems.add(f"line {line}", what)
            continue
        number, score, answer_id = match.groups()
        name, source = questions[number].id, answer_id.partition("_")[0]
        if source in WITHDRAWN or not texts[answer_id]:
            left_out += 1
            continue
        key, model = (name, answer_id), f"medquad-{source}"
        times[key] += 1
        if times[key] > 2:
            problems.add(f"line {line}", f"judges {answer_id} a third time for question {number}; remove one of them")
            continue
        if times[key] == 1:
            samples[name, model] += 1
            answers[key] = Answer(
                question_id=name,
                model=model,
                sample=samples[name, model] - 1,
                text=texts[answer_id],
                extra={"answer_id": answer_id},
            )
        sample = answers[key].sample
        rater, level = f"medquad-assessor-{1 + (sample + times[key]) % 2}", LEVEL_OF_MEDIQA[score]
        read.scores.append(PhysicianScore(question_id=name, model=model, sample=sample, rater=rater, score=level))
    problems.refuse()
    read.answers.extend(answers.values())
    answered = {name for name, _ in answers}
    read.questions.extend(question for question in questions.values() if question.id in answered)
    if left_out:
        sources = ", ".join(WITHDRAWN)
        what = (
            f"{left_out:,} judgments of answers without text, or of {sources}, whose texts MedQuAD withdrew; left out"
        )
        read.oddities.append(Oddity(place, what, about_score=True))
    return read


def _files(paths: Sequence[Path]) -> _Files:
    texts: dict[str, str] = {}
    for path in paths:
        if path.suffix == ".zip":
            texts |= {f"{path}, {name}": text for name, text in read_zip(path, ".csv", ".txt").items()}
        elif path.suffix in (".csv", ".txt"):
            texts[str(path)] = read_unpacked(path)
    xml = [path for path in paths if path.suffix == ".xml"]
    tables, judgments = ([each for each in texts.items() if each[0].endswith(end)] for end in (".csv", ".txt"))
    if not len(xml) == len(tables) == len(judgments) == 1:
        raise InputError(
            "liveqa-2479: name the XML of the reference answers, which holds the questions, and the zip archive of the "
            "answers, or its .csv and its .txt"
        )
    return _Files(xml[0], tables[0], judgments[0])


def _answers(place: str, text: str) -> dict[str, str]:
    """The text of each answer by its id. The table has it behind its question and address, and before a bracket."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise InputError(f"{place}: not valid CSV ({error}); check its quotation marks") from None
    if not rows or rows[0] != ["AnswerID", "Answer"] or any(len(row) != 2 for row in rows):
        raise InputError(f"{place}: a table with the columns AnswerID and Answer is expected")
    return {name: answer.partition("Answer:")[2].strip().removesuffix(")").strip() for name, answer in rows[1:]}
