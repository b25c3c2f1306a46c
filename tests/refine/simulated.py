"""A benchmark whose checklists lack a point on some questions, physicians who know it, and a judge that reads them."""

import json
import re
from collections.abc import Set
from hashlib import sha256
from pathlib import Path

import numpy as np

from medjudge.records import Answer, AnswerKey, Judgment, PhysicianScore, Question
from medjudge.refine.disagreements import Material
from medjudge.scheme import LLMEVAL_MED
from medjudge.validation.answers import paired

MODELS = [f"model-{letter}" for letter in "abcdefghij"]
CORE = ("rest", "fluids")
LACKING = range(8)
"""The questions whose checklist lacks the point 'no alcohol'."""


def checklist_of(*points: str) -> str:
    return "Core requirements:\n" + "\n".join(f"{number}. {point}" for number, point in enumerate(points, 1))


def judge_by_the_checklist(body: dict) -> str:
    """5, less two levels for each point of the checklist that the answer lacks; one in six is a level off."""
    user_message = body["messages"][1]["content"]
    checklist = user_message.partition("# Checklist")[2].partition("# Answer to grade")[0]
    answer = user_message.partition("<<<ANSWER")[2]
    points = re.findall(r"^\d+\. (.+)$", checklist, re.MULTILINE)
    level = 5 - 2 * sum(point not in answer for point in points)
    level += {0: 1, 1: -1}.get(sha256((checklist + answer).encode()).digest()[0] % 12, 0)
    return f"Reasons.\nScore: {min(5, max(1, level))}"


def write_run(folder: Path) -> Path:
    """A run of 20 questions, ten models, two samples, two physicians.

    The physicians hold 'no alcohol' for needed and six models never say it; some checklists do not ask for it.
    """
    draw = np.random.default_rng(1)
    questions, answers, scores = [], [], []
    for number in range(20):
        name = f"q{number:02d}"
        points = CORE if number in LACKING else (*CORE, "no alcohol")
        fields = {"reference": "rest, fluids, no alcohol", "checklist": checklist_of(*points), "language": "en"}
        prompt = f"How is condition {number:02d} treated?"
        questions.append({"id": name, "category": "MK", "group": name, "prompt": prompt, **fields})
        for place, model in enumerate(MODELS):
            for sample in range(2):
                covered = [point for point in CORE if draw.random() < 0.95]
                covered += ["no alcohol"] if place % 3 == 0 else []
                key = {"question_id": name, "model": model, "sample": sample}
                answers.append({**key, "text": f"Text-{name}-{model}-{sample}. Advice: {', '.join(covered)}."})
                level = 5 - 2 * sum(point not in covered for point in (*CORE, "no alcohol"))
                comment = "complete" if "no alcohol" in covered else "alcohol is not advised against"
                for rater in ("dr-a", "dr-b"):
                    score = level + (draw.choice([-1, 1]) if draw.random() < 0.2 else 0)
                    noted = f"Comment-{name}-{model}-{sample}: {comment}"
                    scores.append({**key, "rater": rater, "score": int(min(5, max(1, score))), "comment": noted})
    folder.mkdir()
    for file, records in (("questions", questions), ("answers", answers), ("physician_scores", scores)):
        (folder / f"{file}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def material(
    questions: list[Question],
    answers: list[Answer],
    judgments: list[Judgment],
    scores: list[PhysicianScore],
    held_out: Set[AnswerKey] = frozenset(),
) -> Material:
    """The input of a refinement, from records."""
    by_id, by_key = {question.id: question for question in questions}, {answer.key: answer for answer in answers}
    pairs = paired(questions, judgments, scores)
    held = np.array([key in held_out for key in pairs.keys], dtype=bool)
    return Material(by_id, by_key, scores, judgments, pairs, held, LLMEVAL_MED)


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
