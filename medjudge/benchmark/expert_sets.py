"""Consumer health questions scored by experts: MEDIQA 2019, and LiveQA 2017 with the systems' or MedQuAD's answers.

A file that breaks its layout is refused with an InputError that names all its problems.
"""

import csv
import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from medjudge.benchmark.packed import read_zip
from medjudge.benchmark.published import PublishedSet, question_of, read_entries
from medjudge.errors import InputError
from medjudge.files import read_bytes, read_text
from medjudge.records import AnswerKey, Question

LEVEL_OF_MEDIQA = {"4": 5, "3": 4, "2": 2, "1": 1}
"""MEDIQA's score -> level. Excellent (4) and incomplete but correct (3) are the usable ones, as in the task itself."""
SCHEME, CATEGORY, LANGUAGE = "consumer-health", "CHQ", "en"
"""Scheme, category and language of the questions of these sets."""
WITHDRAWN = ("ADAM", "MPlusDrugs", "MPlusHerbsSuppls")
"""Sources whose texts MedQuAD withdrew for copyright; the archive of the answers still holds them."""
_JUDGMENT = re.compile(r"\s*(\d+)\s+([1-4])-\w+\s+(\S+)\s*")


def read_mediqa2019(paths: Sequence[Path]) -> PublishedSet:
    """Read files of MEDIQA 2019, task 3: consumer health questions, several retrieved answers each, one expert score.

    A question's id is made of the file's root element and its QID, because the files number their questions alike. The
    answer at rank k of the retrieval system gets the name `chiqa-rank-k`.
    """
    read = PublishedSet()
    set_name = ""

    def question(element: ElementTree.Element, place: str) -> None:
        number, prompt = element.get("QID"), (element.findtext("QuestionText") or "").strip()
        if not number or not prompt:
            raise ValueError("a question without QID or QuestionText")
        name = f"mediqa-{set_name}-{number}"
        read.questions.append(question_of(name, CATEGORY, prompt, LANGUAGE))
        for answer in element.iter("Answer"):
            answer_id, text = answer.get("AID"), (answer.findtext("AnswerText") or "").strip()
            score, rank = answer.get("ReferenceScore"), answer.get("SystemRank") or ""
            if not text or score not in LEVEL_OF_MEDIQA or not re.fullmatch(r"\d+", rank):
                expected = "AnswerText, a ReferenceScore of 1 to 4, and a number as SystemRank"
                found = f"AnswerText {text[:20]!r}, ReferenceScore {score!r}, SystemRank {rank!r}"
                raise ValueError(f"answer {answer_id} needs {expected}; it has {found}")
            key = read.answer(name, f"chiqa-rank-{int(rank):02d}", text)
            read.score(key, "mediqa-expert", LEVEL_OF_MEDIQA[score])

    for path in paths:
        root = _parsed(path)
        if not root.tag.startswith("MEDIQA2019-Task3-QA"):
            raise InputError(f"{path}: the root element is <{root.tag}>; a file of MEDIQA 2019 task 3 (QA) is expected")
        set_name = root.tag.rsplit("-", 1)[-1].lower()
        read_entries(path, ((f"question {each.get('QID')}", each) for each in root.iter("Question")), question)
    return read


def _parsed(path: Path) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(read_bytes(path))
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise InputError(f"{path}: not valid XML ({error})") from None


def read_liveqa_med(references: Path, judged: Path) -> PublishedSet:
    """Read TREC 2017 LiveQA's medical test questions, their reference answers, and the systems' judged answers.

    A question is its subject and message, its reference all of its reference answers. Answers get the model name
    `system-N`, in the order of the file, which names no systems. Scores are read as MEDIQA's; an answer judged
    unreadable (-2) stays without a score.

    Args:
        references: XML with `NLM-QUESTION` elements.
        judged: `qid score text` per line.
    """
    questions = _liveqa_questions(references)
    read = PublishedSet(list(questions.values()))
    count: Counter[str] = Counter()

    def judgment(line: str, place: str) -> None:
        number, score, answer = [*line.split(None, 2), "", ""][:3]
        if number not in questions or score not in {*LEVEL_OF_MEDIQA, "-2"} or not answer.strip():
            raise ValueError(f"'{line[:40]}' is no question, score (1-4 or -2) and text")
        count[number] += 1
        key = read.answer(questions[number].id, f"system-{count[number]}", answer.strip())
        if score != "-2":
            read.score(key, "nist-assessor", LEVEL_OF_MEDIQA[score])

    read_entries(judged, _filled_lines(read_text(judged)), judgment)
    return read


def _filled_lines(text: str) -> Iterator[tuple[str, str]]:
    return ((f"line {number}", line) for number, line in enumerate(text.splitlines(), start=1) if line.strip())


def _liveqa_questions(path: Path) -> dict[str, Question]:
    """LiveQA's medical test questions with their reference answers, by number."""
    questions: dict[str, Question] = {}

    def question(element: ElementTree.Element, place: str) -> None:
        parts = (element.findtext(f"Original-Question/{part}") or "" for part in ("SUBJECT", "MESSAGE"))
        prompt = ". ".join(text for part in parts if (text := " ".join(part.split())))
        if not prompt:
            raise ValueError("SUBJECT and MESSAGE are both empty; remove it")
        answers = (" ".join((answer.text or "").split()) for answer in element.iter("ANSWER"))
        reference = "\n\n".join(answer for answer in answers if answer) or None
        number = (element.get("qid") or "").removeprefix("TQ")
        questions[number] = question_of(f"liveqa-{number}", CATEGORY, prompt, LANGUAGE, reference=reference)

    elements = ((f"question {each.get('qid') or 'without qid'}", each) for each in _parsed(path).iter("NLM-QUESTION"))
    read_entries(path, elements, question)
    if not questions:
        raise InputError(f"{path}: no NLM-QUESTION in it; the XML of LiveQA's reference answers is expected")
    return questions


def read_liveqa_2479(references: Path, archive: Path) -> PublishedSet:
    """Read LiveQA's questions, MedQuAD's answers to them, and one or two judgments of each.

    Scores are read as MEDIQA's. An answer's model is `medquad-SOURCE`. The file does not name the assessors, and puts
    the lower of two judgments first: two names alternate, so that neither stands for the lower ones. Left out are
    answers of `WITHDRAWN` sources or without text, and questions without answers.

    Args:
        references: The XML of the reference answers, which holds the questions.
        archive: The zip archive with the `.csv` of answers and the `.txt` of judgments.
    """
    packed = read_zip(archive, ".csv", ".txt")
    tables, judged = ([name for name in packed if name.endswith(ending)] for ending in (".csv", ".txt"))
    if not len(tables) == len(judged) == 1:
        raise InputError(f"{archive}: one .csv of answers and one .txt of judgments are expected in it")
    place = f"{archive}, {judged[0]}"
    questions, texts = _liveqa_questions(references), _medquad_answers(f"{archive}, {tables[0]}", packed[tables[0]])
    read = PublishedSet()
    samples: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    times: Counter[AnswerKey] = Counter()
    left_out: list[str] = []

    def judgment(line: str, where: str) -> None:
        match = _JUDGMENT.fullmatch(line)
        if match is None or match[1] not in questions or match[3] not in texts:
            expected = "the number of a question, a score such as 3-Incomplete, and the id of an answer"
            raise ValueError(f"'{line[:60]}' is not {expected}")
        number, score, answer_id = match.groups()
        name, source = questions[number].id, answer_id.partition("_")[0]
        if source in WITHDRAWN or not texts[answer_id]:
            left_out.append(where)
            return
        of_source = samples[name, source]
        sample = of_source.setdefault(answer_id, len(of_source))
        key = read.answer(name, f"medquad-{source}", texts[answer_id], sample, extra={"answer_id": answer_id})
        times[key] += 1
        if times[key] > 2:
            raise ValueError(f"judges {answer_id} a third time for question {number}; remove one of them")
        read.score(key, f"medquad-assessor-{1 + (sample + times[key]) % 2}", LEVEL_OF_MEDIQA[score])

    read_entries(place, _filled_lines(packed[judged[0]]), judgment)
    answered = {answer.question_id for answer in read.answers}
    read.questions.extend(question for question in questions.values() if question.id in answered)
    if left_out:
        sources = f"of {', '.join(WITHDRAWN)}, whose texts MedQuAD withdrew"
        read.odd(place, f"{len(left_out):,} judgments of answers without text, or {sources}; left out")
    return read


def _medquad_answers(place: str, text: str) -> dict[str, str]:
    """The text of each answer by its id. The table has it behind its question and address, and before a bracket."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise InputError(f"{place}: not valid CSV ({error}); check its quotation marks") from None
    if not rows or rows[0] != ["AnswerID", "Answer"] or any(len(row) != 2 for row in rows):
        raise InputError(f"{place}: a table with the columns AnswerID and Answer is expected")
    return {name: answer.partition("Answer:")[2].strip().removesuffix(")").strip() for name, answer in rows[1:]}
