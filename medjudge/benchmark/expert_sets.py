"""Brings expert-scored sets into the project's records."""

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from medjudge.errors import InputError
from medjudge.files import read_bytes, read_text
from medjudge.records import Answer, PhysicianScore, Question

LEVEL_OF_MEDIQA = {"4": 5, "3": 4, "2": 2, "1": 1}
"""MEDIQA's score -> level. Excellent (4) and incomplete but correct (3) are the usable ones, as in the task itself."""


SCHEME, CATEGORY, LANGUAGE = "consumer-health", "CHQ", "en"
"""What the questions of these sets belong to."""


class ExpertSet(NamedTuple):
    """Questions, their answers, and the experts' scores of these answers."""

    questions: list[Question]
    answers: list[Answer]
    scores: list[PhysicianScore]


def read_mediqa2019(paths: list[Path]) -> ExpertSet:
    """Reads files of MEDIQA 2019, task 3: consumer health questions, several retrieved answers each, one expert score.

    A question's id is made of the file's root element and its QID, because the files number their questions alike. The
    answer at rank k of the retrieval system gets the name `chiqa-rank-k`.

    Raises:
        InputError: A file is not such XML, or an answer's text or score is missing or unknown.
    """
    everything = ExpertSet([], [], [])
    seen: dict[str, Path] = {}
    for path in paths:
        root = _root(path)
        set_name = root.tag.rsplit("-", 1)[-1].lower()
        for element in root.iter("Question"):
            question = _question(element, set_name, path)
            if question.id in seen:
                raise InputError(
                    f"{path}: question {question.id} was read from {seen[question.id]} already; name each file once"
                )
            seen[question.id] = path
            everything.questions.append(question)
            for answer, score in _answers(element, question.id, path):
                everything.answers.append(answer)
                everything.scores.append(score)
    return everything


def _parsed(path: Path) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(read_bytes(path))
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise InputError(f"{path}: not valid XML ({error})") from None


def _root(path: Path) -> ElementTree.Element:
    root = _parsed(path)
    if not root.tag.startswith("MEDIQA2019-Task3-QA"):
        raise InputError(f"{path}: the root element is <{root.tag}>; a file of MEDIQA 2019 task 3 (QA) is expected")
    return root


def _question(element: ElementTree.Element, set_name: str, path: Path) -> Question:
    number = element.get("QID")
    text = (element.findtext("QuestionText") or "").strip()
    if not number or not text:
        raise InputError(f"{path}: a question without QID or QuestionText (QID {number})")
    name = f"mediqa-{set_name}-{number}"
    return Question(id=name, category=CATEGORY, group=name, prompt=text, language=LANGUAGE)


def _answers(element: ElementTree.Element, question_id: str, path: Path) -> list[tuple[Answer, PhysicianScore]]:
    pairs: list[tuple[Answer, PhysicianScore]] = []
    for answer in element.iter("Answer"):
        place = f"{path}, answer {answer.get('AID')}"
        text = (answer.findtext("AnswerText") or "").strip()
        if not text:
            raise InputError(f"{place}: AnswerText is empty")
        score = answer.get("ReferenceScore")
        if score not in LEVEL_OF_MEDIQA:
            raise InputError(f"{place}: ReferenceScore is {score!r}; 1, 2, 3 or 4 is expected")
        rank = answer.get("SystemRank") or ""
        if not re.fullmatch(r"\d+", rank):
            raise InputError(f"{place}: SystemRank is {rank!r}; a number is expected")
        model = f"chiqa-rank-{int(rank):02d}"
        if any(before.model == model for before, _ in pairs):
            raise InputError(f"{place}: SystemRank {rank} occurs twice in one question")
        pairs.append(
            (
                Answer(question_id=question_id, model=model, text=text),
                PhysicianScore(
                    question_id=question_id, model=model, rater="mediqa-expert", score=LEVEL_OF_MEDIQA[score]
                ),
            )
        )
    return pairs


def read_liveqa_med(references: Path, judged: Path) -> ExpertSet:
    """Reads TREC 2017 LiveQA's medical test questions, their reference answers, and the systems' judged answers.

    A question is its subject and message, its reference all of its reference answers. Answers get the model name
    `system-N`, in the order of the file, which names no systems. Scores are read as MEDIQA's; an answer judged
    unreadable (-2) stays without a score.

    Args:
        references: XML with `NLM-QUESTION` elements.
        judged: `qid score text` per line.

    Raises:
        InputError: A file is of another kind, or a line has an unknown question or score.
    """
    questions = liveqa_questions(references)
    expert_set = ExpertSet(list(questions.values()), [], [])
    count: Counter[str] = Counter()
    for line, text in enumerate(read_text(judged).splitlines(), start=1):
        if not text.strip():
            continue
        number, score, answer = [*text.split(None, 2), "", ""][:3]
        if number not in questions or score not in {*LEVEL_OF_MEDIQA, "-2"} or not answer.strip():
            raise InputError(f"{judged}, line {line}: '{text[:40]}' is no question, score (1-4 or -2) and text")
        count[number] += 1
        name, model = f"liveqa-{number}", f"system-{count[number]}"
        expert_set.answers.append(Answer(question_id=name, model=model, text=answer.strip()))
        if score != "-2":
            level = LEVEL_OF_MEDIQA[score]
            expert_set.scores.append(PhysicianScore(question_id=name, model=model, rater="nist-assessor", score=level))
    return expert_set


def liveqa_questions(path: Path) -> dict[str, Question]:
    """LiveQA's medical test questions with their reference answers, by number.

    Raises:
        InputError: The file is of another kind, or a question has no text.
    """
    elements = {
        (element.get("qid") or "").removeprefix("TQ"): element for element in _parsed(path).iter("NLM-QUESTION")
    }
    if not elements:
        raise InputError(f"{path}: no NLM-QUESTION in it; the XML of LiveQA's reference answers is expected")
    return {number: _liveqa_question(number, element, path) for number, element in elements.items()}


def _liveqa_question(number: str, element: ElementTree.Element, path: Path) -> Question:
    message = [
        " ".join((element.findtext(f"Original-Question/{part}") or "").split()) for part in ("SUBJECT", "MESSAGE")
    ]
    prompt = ". ".join(part for part in message if part)
    if not prompt:
        raise InputError(f"{path}, question {number or 'without qid'}: SUBJECT and MESSAGE are both empty; remove it")
    answers = [" ".join((answer.text or "").split()) for answer in element.iter("ANSWER")]
    return Question(
        id=f"liveqa-{number}",
        category=CATEGORY,
        group=f"liveqa-{number}",
        prompt=prompt,
        reference="\n\n".join(answer for answer in answers if answer) or None,
        language=LANGUAGE,
    )
