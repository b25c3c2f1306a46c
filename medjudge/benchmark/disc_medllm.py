"""Reads the evaluation of DISC-MedLLM: Chinese consultations of several models, scored by GPT-4."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.benchmark.packed import files_in, read_unpacked
from medjudge.benchmark.published import PublishedSet, question_of, sound_entries, text_of, value_of
from medjudge.files import parse_json
from medjudge.records import Question

SCHEME, CATEGORY, LANGUAGE = "consultations", "CON", "zh"
_SPEAKERS = {"patient": "患者", "doctor": "医生"}
_CONVERSATION = re.compile(r"\[start of conversation\]\s*(.*)\[end of conversation\]", re.DOTALL)
_TURN = re.compile(rf"^({'|'.join(_SPEAKERS)}):", re.MULTILINE)
_ACCURACY = re.compile(r"^Accuracy:\s*([1-4](?:\.\d+)?|5(?:\.0+)?)\s*$", re.MULTILINE)


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
    question = question_of(name, CATEGORY, turns[0][1], LANGUAGE)
    text = "\n\n".join(f"{_SPEAKERS[speaker]}：{text}" for speaker, text in turns[1:])
    return _Consultation(question, model, text, float(accuracy[1]), scores)
