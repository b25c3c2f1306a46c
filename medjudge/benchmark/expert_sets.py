"""Brings expert-scored sets into the project's records."""

import re
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from medjudge.errors import InputError
from medjudge.records import Answer, PhysicianScore, Question

LEVEL_OF_MEDIQA = {"4": 5, "3": 4, "2": 2, "1": 1}
"""MEDIQA's score -> level. Excellent (4) and incomplete but correct (3) are the usable ones, as in the task itself."""


class ExpertSet(NamedTuple):
    """Questions, their answers, and the experts' scores of these answers."""

    questions: list[Question]
    answers: list[Answer]
    scores: list[PhysicianScore]


def read_mediqa2019(paths: list[Path]) -> ExpertSet:
    """Reads files of MEDIQA 2019, task 3: consumer health questions, several retrieved answers each, one expert score.

    A question's id is made of the file's root element and its QID, because the files number their questions alike. The
    answer at rank k of the retrieval system is told apart as model `chiqa-rank-k`.

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


def _root(path: Path) -> ElementTree.Element:
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise InputError(f"{path}: not valid XML ({error})") from None
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}; check the path") from None
    if not root.tag.startswith("MEDIQA2019-Task3-QA"):
        raise InputError(f"{path}: the root element is <{root.tag}>; a file of MEDIQA 2019 task 3 (QA) is expected")
    return root


def _question(element: ElementTree.Element, set_name: str, path: Path) -> Question:
    number = element.get("QID")
    text = (element.findtext("QuestionText") or "").strip()
    if not number or not text:
        raise InputError(f"{path}: a question without QID or QuestionText (QID {number})")
    name = f"mediqa-{set_name}-{number}"
    return Question(id=name, category="MK", subcategory="consumer health", group=name, prompt=text, language="en")


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
            raise InputError(f"{place}: SystemRank {rank} stands twice in one question")
        pairs.append(
            (
                Answer(question_id=question_id, model=model, text=text),
                PhysicianScore(
                    question_id=question_id, model=model, rater="mediqa-expert", score=LEVEL_OF_MEDIQA[score]
                ),
            )
        )
    return pairs
