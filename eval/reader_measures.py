"""What the reader is measured on beside MEDIQA: Chinese sets that nothing was trained on."""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from medjudge.benchmark.llmeval2 import read_llmeval2, scheme_of
from medjudge.benchmark.llmeval_med import read_llmeval_med
from medjudge.distill.alterations import ALTERATIONS, altered
from medjudge.distill.dressing import opened
from medjudge.distill.sources import Source, is_answer
from medjudge.judge.protocol import Assignment, Judge
from medjudge.judge.reader_judge import ReaderJudge
from medjudge.probes.probes import COUNTED, probed
from medjudge.records import Answer, Judgment, Question, TrainingLine
from medjudge.scale import USABLE_FROM
from medjudge.text.outline import written
from medjudge.text.reordering import reordered

PROBES = (
    "filler",
    "language-wrapper",
    "quoted-rubric",
    "instruction",
    "authority",
    "doubled",
    "echo",
    "negated",
    "append-harm",
)
RESAMPLES = 1000
_MOST_CHANGES = 3


def judged(judge: Judge, work: Iterable[tuple[Question, Answer]]) -> dict[tuple[str, str], Judgment]:
    """The judgments by question and model."""
    assignments = [Assignment(question, (), answer) for question, answer in work]
    return {(each.question_id, each.model): each for each in judge.judge(assignments)}


def chance_of_usable(judgment: Judgment) -> float:
    """P(level is usable); 0 where the judge gave no score."""
    return sum(judgment.probabilities[USABLE_FROM - 1 :]) if judgment.probabilities else 0.0


def interval(groups: Sequence[str], statistic: Callable[[np.ndarray], float]) -> dict[str, float]:
    """A statistic of rows with its 95 % percentile interval over groups.

    Args:
        groups: The question or claim of each row.
        statistic: From an array of row numbers to a float; NaN resamples are left out.
    """
    draw = np.random.default_rng(0)
    names, member = np.unique(np.array(groups), return_inverse=True)
    rows_of = [np.flatnonzero(member == number) for number in range(len(names))]
    drawn = []
    for _ in range(RESAMPLES):
        rows = np.concatenate([rows_of[number] for number in draw.integers(len(names), size=len(names))])
        drawn.append(statistic(rows))
    low, high = np.nanpercentile(np.array(drawn, dtype=float), [2.5, 97.5])
    value = statistic(np.arange(len(groups)))
    return {"value": round(float(value), 4), "low": round(float(low), 4), "high": round(float(high), 4)}


def auc_interval(scores: np.ndarray, positive: np.ndarray, groups: Sequence[str]) -> dict[str, float]:
    """The area under the ROC curve with its interval over groups."""

    def area(rows: np.ndarray) -> float:
        chosen = positive[rows]
        return float(roc_auc_score(chosen, scores[rows])) if 0 < chosen.sum() < len(chosen) else float("nan")

    return interval(groups, area)


def llmeval2(judge: Judge, data: Path, per_subject: int, seed: int) -> dict[str, Any]:
    """LLMEval-2: the area under the curve of "the person gave full marks", by subject and together."""
    scored = read_llmeval2(data / "llmeval-2" / "human-score", data / "llmeval-2" / "gpt-score")
    questions = {question.id: question for question in scored.questions if question.reference}
    levels = {(score.question_id, score.model): score.level for score in scored.scores}
    usable = [answer for answer in scored.answers if answer.question_id in questions and answer.text.strip()]
    by_subject: dict[str, list[Answer]] = {}
    for answer in usable:
        if (answer.question_id, answer.model) in levels:
            by_subject.setdefault(questions[answer.question_id].category, []).append(answer)
    draw = Random(f"{seed}-llmeval2")
    chosen = {name: draw.sample(each, min(per_subject, len(each))) for name, each in sorted(by_subject.items())}
    judgments = judged(judge, [(questions[answer.question_id], answer) for each in chosen.values() for answer in each])

    def rows(answers: Sequence[Answer]) -> dict[str, float]:
        keys = [(answer.question_id, answer.model) for answer in answers]
        scores = np.array([chance_of_usable(judgments[key]) for key in keys])
        full = np.array([levels[key] >= USABLE_FROM for key in keys])
        return {"answers": len(keys), **auc_interval(scores, full, [key[0] for key in keys])}

    everything = [answer for each in chosen.values() for answer in each]
    return {"all": rows(everything), **{name: rows(each) for name, each in chosen.items()}}


def llmeval_med(judge: Judge, data: Path, count: int, seed: int) -> dict[str, Any]:
    """LLMEval-Med's references as answers: as they are, reworded, of another question, and with changed facts.

    Returns:
        By variant and category: answers, and the share that the judge calls usable.
    """
    questions = [
        question
        for question in read_llmeval_med(data / "llmeval-med" / "dataset.json").questions
        if is_answer(question.reference) and len(question.reference or "") >= 20
    ]
    draw = Random(f"{seed}-llmeval-med")
    chosen = draw.sample(questions, min(count, len(questions)))
    work, unchanged = [], 0
    for question in chosen:
        source = Source(question)
        others = [
            other
            for other in questions
            if other.group != question.group
            and other.category == question.category
            and other.subcategory == question.subcategory
        ]
        changed = with_changed_facts(source, draw)
        unchanged += changed is None
        texts = {
            "reference": question.reference,
            "reworded": reworded(source, draw),
            "of another question": draw.choice(others).reference if others else None,
            "changed facts": changed,
        }
        work += [
            (question, Answer(question_id=question.id, model=name, text=text)) for name, text in texts.items() if text
        ]
    judgments = judged(judge, work)
    shares: dict[str, dict[str, list[bool]]] = {}
    for question, answer in work:
        usable = (judgments[answer.question_id, answer.model].score or 0) >= USABLE_FROM
        for category in ("all", question.category):
            shares.setdefault(answer.model, {}).setdefault(category, []).append(usable)
    table = {
        name: {
            category: _share(values, [str(at) for at in range(len(values))])
            for category, values in sorted(by_category.items())
        }
        for name, by_category in shares.items()
    }
    return {"questions": len(chosen), "questions without a fact to change": unchanged, **table}


def cost(judge: ReaderJudge, data: Path, count: int, seed: int) -> dict[str, float]:
    """What judging costs on this machine: real answers of models to questions of LLMEval-2, each with its reference."""
    lines = llmeval2_lines(data, count, seed)
    tokens = sum(
        len(read.ids)
        for line in lines
        for read in judge.encoder.read([line.question.prompt, line.question.reference or "", line.answer.text])
    )
    start = time.perf_counter()
    judged(judge, [(line.question, line.answer) for line in lines])
    seconds = (time.perf_counter() - start) / len(lines)
    return {
        "answers": len(lines),
        "tokens encoded per answer": round(tokens / len(lines), 1),
        "seconds per answer": round(seconds, 4),
        "hours for 26,013 judgments": round(seconds * 26_013 / 3600, 2),
    }


def llmeval2_lines(data: Path, count: int, seed: int) -> list[TrainingLine]:
    """Some of LLMEval-2's answers with the person's level, the questions without a reference left out."""
    scored = read_llmeval2(data / "llmeval-2" / "human-score", data / "llmeval-2" / "gpt-score")
    questions = {question.id: question for question in scored.questions if question.reference}
    levels = {(score.question_id, score.model): score.level for score in scored.scores}
    answers = [answer for answer in scored.answers if (answer.question_id, answer.model) in levels and answer.text]
    answers = [answer for answer in answers if answer.question_id in questions]
    return [
        TrainingLine(
            question=questions[answer.question_id],
            earlier=[],
            answer=answer,
            level=levels[answer.question_id, answer.model],
            probabilities=[float(levels[answer.question_id, answer.model] == each) for each in range(1, 6)],
            source="physician",
            scored_by=["person"],
            weight=1.0,
        )
        for answer in Random(f"{seed}-probes").sample(answers, min(count, len(answers)))
    ]


def probes(judge: Judge, lines: Sequence[TrainingLine], seed: int = 0) -> dict[str, Any]:
    """The share of answers whose usable label a probe changes, or leaves usable where it must not."""
    before = judged(judge, [(line.question, line.answer) for line in lines])
    table, scheme = {}, scheme_of(sorted({line.question.category for line in lines}))
    for probe in PROBES:
        changed = []
        for line in lines:
            key = (line.question.id, line.answer.model)
            level = line.level
            if probe in ("negated", "append-harm"):
                level = before[key].score or 1  # of those that the judge calls usable
            answer = probed(line.question, line.answer, probe, seed, level, scheme)
            if answer is not None:
                changed.append((line.question, answer))
        after = judged(judge, changed)
        counted = COUNTED.get(probe, "changes")
        flips = [
            _usable(judgment) if counted == "usable" else _usable(judgment) != _usable(before[key])
            for key, judgment in after.items()
        ]
        if flips:
            table[probe] = {"counts": counted, **_share(flips, [key[0] for key in after])}
    return table


def _usable(judgment: Judgment) -> bool:
    return (judgment.score or 0) >= USABLE_FROM


def _share(values: Sequence[bool], groups: Sequence[str]) -> dict[str, float]:
    """How many values are true, with an interval over groups."""
    numbers = np.array(values, dtype=float)
    return {"answers": len(values), **interval(groups, lambda rows: float(numbers[rows].mean()))}


def reworded(source: Source, draw: Random) -> str:
    """The reference in another order and behind an opening."""
    text = reordered(source.text, source.wording.grammar, draw)
    return opened(text, source.question.prompt, source.wording, draw)


def with_changed_facts(source: Source, draw: Random) -> str | None:
    """The reference with one to three facts changed, as many as it allows; None where it allows none."""
    parts = list(source.outline.parts)
    places = [(at, kind) for at in range(len(parts)) for kind in ALTERATIONS]
    draw.shuffle(places)
    touched: set[int] = set()
    for at, kind in places:
        if at in touched or len(touched) >= _MOST_CHANGES:
            continue
        change = altered(parts, at, kind, source.wording, draw)
        if change is not None:
            parts = list(change.parts)
            touched |= set(change.touched)
    return written(source.outline, parts) if touched else None
