"""What the reader is measured on beside MEDIQA: Chinese sets that nothing was trained on."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from medjudge.benchmark.llmeval2 import read_llmeval2
from medjudge.benchmark.llmeval_med import read_llmeval_med
from medjudge.distill.alterations import ALTERATIONS, altered
from medjudge.distill.dressing import opened
from medjudge.distill.sources import Source, is_answer
from medjudge.judge.protocol import Assignment, Judge
from medjudge.records import Answer, Judgment, Question
from medjudge.scale import USABLE_FROM
from medjudge.text.outline import written
from medjudge.text.reordering import reordered

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
        changed = _with_changed_facts(source, draw)
        unchanged += changed is None
        texts = {
            "reference": question.reference,
            "reworded": _reworded(source, draw),
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


def _share(values: Sequence[bool], groups: Sequence[str]) -> dict[str, float]:
    """How many values are true, with an interval over groups."""
    numbers = np.array(values, dtype=float)
    return {"answers": len(values), **interval(groups, lambda rows: float(numbers[rows].mean()))}


def _reworded(source: Source, draw: Random) -> str:
    """The reference in another order and behind an opening."""
    text = reordered(source.text, source.wording.grammar, draw)
    return opened(text, source.question.prompt, source.wording, draw)


def _with_changed_facts(source: Source, draw: Random) -> str | None:
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
