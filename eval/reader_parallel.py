"""Answers in their own words: two texts that answer one question independently, one as reference, one as answer.

Graded answers repeat their reference's words; what a model writes does not. MedQuAD has several institutes' answers to
the same question, Huatuo several answers about the same condition. An answer to another question about the same
condition, to the same question about another condition, and a part of an answer are what is worse.
"""

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from reader_examples import Example, as_checklist
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfVectorizer

from medjudge.judge.points import reference_points

GOOD = (0.0, 0.05, 0.15, 0.4, 0.4)
PART = (0.1, 0.35, 0.4, 0.15, 0.0)
RELATED = (0.5, 0.4, 0.1, 0.0, 0.0)
ELSEWHERE = (0.9, 0.1, 0.0, 0.0, 0.0)
_WEIGHT = 0.5
_SHORTEST, _LONGEST = 120, 2500
"""Characters of an English answer."""
_ALIKE = 0.4
"""The least cosine of the character n-grams of two Chinese questions that may be about the same."""
_ASPECTS = (
    "治疗",
    "用药",
    "检查",
    "并发症",
    "病因",
    "临床表现",
    "症状",
    "预防",
    "科室",
    "发病部位",
    "群体",
    "年龄",
    "诊断",
    "机制",
)
"""What a Chinese question may ask of a condition."""
_COMPARES = re.compile("不同|区别|相同|差异|异同")
"""Questions about two conditions are alike where one of the two is."""
_CHECKLIST, _CHECKLIST_ALONE = 0.35, 0.5
"""The share of references that are checklists too, and of these without the reference."""


class Parallel(NamedTuple):
    """Texts that answer one question, and others.

    Attributes:
        prompt: The question.
        reference: One answer to it.
        answer: Another one, written by somebody else.
        related: An answer to another question about the same condition; None where there is none.
        language: `en` or `zh`.
    """

    prompt: str
    reference: str
    answer: str
    related: str | None
    language: str


def medquad_parallels(data: Path) -> list[Parallel]:
    """Questions of MedQuAD that two institutes answer."""
    by_question: dict[str, dict[str, str]] = {}
    by_focus: dict[str, dict[str, str]] = {}
    with gzip.open(data / "medquad" / "medquad.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            text, question = (row["answer"] or "").strip(), " ".join(row["question"].split())
            # A list of links answers nothing.
            if _SHORTEST <= len(text) <= _LONGEST and not text.startswith("These resources"):
                by_question.setdefault(question, {}).setdefault(row["source"], text)
                by_focus.setdefault(row["focus"] or question, {}).setdefault(question, text)
    others = {question: (focus, question) for focus, group in by_focus.items() for question in group}
    found = []
    for question, answers in sorted(by_question.items()):
        texts = list(dict.fromkeys(answers.values()))
        if len(texts) < 2 or question not in others:
            continue
        of_focus = by_focus[others[question][0]]
        related = next((text for other, text in of_focus.items() if other != question and text not in texts), None)
        found.append(Parallel(question, texts[0], texts[1], related, "en"))
    return found


def huatuo_parallels(data: Path) -> list[Parallel]:
    """Pairs of Huatuo's questions that are most alike: those that ask the same give an answer, the others do not."""
    with gzip.open(data / "huatuo-knowledge" / "llama_data.json.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    questions, answers = [row["instruction"] + row["input"] for row in rows], [row["output"].strip() for row in rows]
    vectors = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), sublinear_tf=True).fit_transform(questions)
    found = []
    for at, cosines in enumerate(_cosines(vectors)):
        cosines[at] = 0.0
        near = [other for other in np.argsort(-cosines, kind="stable")[:8] if cosines[other] >= _ALIKE]
        same = [other for other in near if _asks(questions[other]) == _asks(questions[at])]
        different = [other for other in near if not _asks(questions[other]) & _asks(questions[at])]
        if not same or same[0] < at or not _asks(questions[at]) or answers[at] == answers[same[0]]:
            continue
        if _COMPARES.search(questions[at]):
            continue
        if min(len(answers[at]), len(answers[same[0]])) >= 25:
            related = answers[different[0]] if different else None
            found.append(Parallel(questions[at], answers[at], answers[same[0]], related, "zh"))
    return found


def _cosines(vectors: csr_array) -> Iterator[np.ndarray]:
    """The cosines of each row with all rows, (n,) each."""
    for start in range(0, vectors.shape[0], 500):
        yield from (vectors[start : start + 500] @ vectors.T).toarray()


def _asks(question: str) -> frozenset[str]:
    """What the end of a Chinese question asks."""
    end = re.split(r"[，。,；]", question.rstrip("。？?，,"))[-1]
    return frozenset(aspect for aspect in _ASPECTS if aspect in end)


def parallel(pairs: Sequence[Parallel], seed: int) -> list[Example]:
    """Of each pair: the other answer, a part of it, one about the same condition, and one from elsewhere.

    As with graded answers, some references are checklists, beside the reference or in its place.
    """
    draw = Random(f"{seed}-parallel")
    examples: list[Example] = []
    for number, pair in enumerate(pairs):
        elsewhere = draw.choice(pairs)
        texts = [(pair.answer, GOOD, "good"), (_part(pair, draw), PART, "part"), (pair.related, RELATED, "related")]
        if elsewhere.prompt != pair.prompt:
            texts.append((elsewhere.answer, ELSEWHERE, "elsewhere"))
        reference, checklist = pair.reference, ""
        if draw.random() < _CHECKLIST:
            checklist = as_checklist(reference, pair.language, draw)
            if draw.random() < _CHECKLIST_ALONE:
                reference = ""
        for text, label, name in texts:
            if text:
                group, source = f"parallel-{pair.language}-{number}", f"parallel-{name}"
                examples.append(
                    Example(
                        pair.prompt,
                        reference,
                        checklist,
                        text,
                        pair.language,
                        label,
                        None,
                        group,
                        source,
                        _WEIGHT,
                        False,
                    )
                )
    return examples


def _part(pair: Parallel, draw: Random) -> str | None:
    """The first third of an answer, in whole sentences; None where it has fewer than three."""
    spans = reference_points(pair.answer, pair.language)
    return pair.answer[: spans[max(0, len(spans) // 3 - 1)].end].strip() if len(spans) >= 3 else None
