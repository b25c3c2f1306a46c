"""What the reader is measured on beside MEDIQA: Chinese sets that nothing was trained on."""

import sys
import time
from collections import Counter
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
from medjudge.judge.comparison import Reading
from medjudge.judge.evidence import nearness
from medjudge.judge.ordinal import OrdinalJudge, encode
from medjudge.judge.points import reference_points
from medjudge.judge.protocol import Assignment, Judge
from medjudge.judge.reader_judge import ReaderJudge, reading_of
from medjudge.probes.probes import COUNTED, probed
from medjudge.records import Answer, Judgment, Question, TrainingLine
from medjudge.scale import USABLE_FROM
from medjudge.text.answer_keys import in_words
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
NEAR_REWORDED = 0.95
"""The share of reworded references that the untrained nearness calls usable where it is compared."""
SEVERAL_POINTS, LEFT_OPEN = 6, 0.6
"""Points of a reference from which their mean is looked at, and a mean below which much is left open."""
MANY_POINTS = 16
"""Points from which a rule was tried that called an answer unusable if much was left open."""
IN_VIEW = 80
"""Of each category of LLMEval-Med, so many questions were in view when the judge's rules were chosen."""
_MOST_CHANGES = 3
_CHUNK = 32


def judged(judge: Judge, work: Iterable[tuple[Question, Answer]]) -> dict[tuple[str, str], Judgment]:
    """The judgments by question and model."""
    assignments = [Assignment(question, (), answer) for question, answer in work]
    return {(each.question_id, each.model): each for each in judge.judge(assignments)}


def chance_of_usable(judgment: Judgment) -> float:
    """P(level is usable); 0 where the judge gave no score."""
    return sum(judgment.probabilities[USABLE_FROM - 1 :]) if judgment.probabilities else 0.0


def untrained(judge: ReaderJudge, work: Sequence[tuple[Question, Answer]]) -> np.ndarray:
    """The untrained baseline of each answer, (n,)."""
    near: list[float] = []
    for start in range(0, len(work), _CHUNK):
        items = [Assignment(question, (), answer) for question, answer in work[start : start + _CHUNK]]
        known = judge.read_texts([text for item in items for text in _texts(item)], {})
        near += mean_nearness([reading_of(item, known) for item in items]).tolist()
    return np.array(near)


def _texts(item: Assignment) -> tuple[str, str, str, str]:
    question = item.question
    reference = in_words(question.prompt, question.reference or "")
    return question.prompt, reference, question.checklist or "", item.answer.text


def mean_nearness(readings: Sequence[Reading]) -> np.ndarray:
    """The mean nearness of the points of each answer, (n,), or that of its question where there is no point."""
    near = []
    for reading in readings:
        of_points = [nearness(piece) for piece in reading.evidence if piece.kind > 0]
        near.append(np.mean(of_points or [nearness(piece) for piece in reading.evidence]))
    return np.array(near)


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


def llmeval2(judge: ReaderJudge, data: Path, per_subject: int, seed: int) -> dict[str, Any]:
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
    everything = [answer for each in chosen.values() for answer in each]
    work = [(questions[answer.question_id], answer) for answer in everything]
    judgments, near = judged(judge, work), untrained(judge, work)
    scores = np.array([chance_of_usable(judgments[answer.question_id, answer.model]) for answer in everything])
    full = np.array([levels[answer.question_id, answer.model] >= USABLE_FROM for answer in everything])
    subject = np.array([question.category for question, _ in work])
    asked = np.array([question.id for question, _ in work])

    def rows(some: np.ndarray) -> dict[str, Any]:
        groups = list(asked[some])
        return {
            "answers": int(some.sum()),
            **auc_interval(scores[some], full[some], groups),
            "untrained nearness": auc_interval(near[some], full[some], groups),
        }

    everywhere = np.ones(len(work), bool)
    return {"all": rows(everywhere), **{name: rows(subject == name) for name in chosen}}


def points_of_full_marks(judge: ReaderJudge, data: Path) -> dict[str, Any]:
    """How many points LLMEval-2's answers meet where the reference has several, by whether they have full marks.

    Returns:
        By kind of answer: the mean probability that a point is met, and the share of answers for which it is below
        `LEFT_OPEN`.
    """
    lines = [
        line
        for line in llmeval2_lines(data, sys.maxsize, 0)
        if len(reference_points(line.question.reference or "", line.question.language)) >= SEVERAL_POINTS
    ]
    judgments = judged(judge, [(line.question, line.answer) for line in lines])
    met = np.array([_mean_met(judgments[line.question.id, line.answer.model]) for line in lines])
    full, groups = (
        np.array([line.level >= USABLE_FROM for line in lines]),
        np.array([line.question.id for line in lines]),
    )
    return {
        name: {
            "points met": _share(met[some], list(groups[some])),
            f"below {LEFT_OPEN}": _share(met[some] < LEFT_OPEN, list(groups[some])),
        }
        for name, some in (("full marks", full), ("fewer marks", ~full))
    }


def _mean_met(judgment: Judgment) -> float:
    if not judgment.points:
        raise ValueError(f"{judgment.question_id}: the judgment has no points")
    return float(np.mean([point.met for point in judgment.points]))


def llmeval_med(judge: ReaderJudge, data: Path, seed: int) -> dict[str, Any]:
    """LLMEval-Med's references as answers: as they are, reworded, of another question, and with changed facts.

    Returns:
        By variant and category: answers, and the share that the judge calls usable; the same of the untrained nearness,
        with a threshold that `NEAR_REWORDED` of the reworded references reach, and of the questions that were not in
        view when the judge's rules were chosen. By category: the questions of which an answer has `MANY_POINTS` or more
        points, those of the checklist included.
    """
    questions = _with_references(data)
    work, in_view, unchanged = _as_answers(questions, seed)
    judgments, near = judged(judge, work), untrained(judge, work)
    variant = np.array([answer.model for _, answer in work])
    category = np.array([question.category for question, _ in work])
    usable = np.array([_usable(judgments[answer.question_id, answer.model]) for _, answer in work])
    near_enough = near >= np.quantile(near[variant == "reworded"], 1 - NEAR_REWORDED)

    def rows(called: np.ndarray, chosen: np.ndarray) -> dict[str, Any]:
        table: dict[str, Any] = {"questions": len({work[at][0].id for at in np.flatnonzero(chosen)})}
        for name in dict.fromkeys(variant):
            of_category = {"all": chosen & (variant == name)} | {
                each: chosen & (variant == name) & (category == each) for each in sorted(set(category))
            }
            table[name] = {
                each: _share(called[some], [work[at][0].group for at in np.flatnonzero(some)])
                for each, some in of_category.items()
                if some.any()
            }
        return table

    everything = np.ones(len(work), bool)
    many = Counter(
        question.category
        for question, answer in work
        if answer.model == "reference" and len(judgments[question.id, answer.model].points or ()) >= MANY_POINTS
    )
    return {
        **rows(usable, everything),
        f"questions with {MANY_POINTS} points": dict(sorted(many.items())),
        "questions without a fact to change": unchanged,
        "not in view": rows(usable, ~in_view),
        "untrained nearness": rows(near_enough, everything),
    }


def _with_references(data: Path) -> list[Question]:
    """LLMEval-Med's questions whose reference is a text."""
    return [
        question
        for question in read_llmeval_med(data / "llmeval-med" / "dataset.json").questions
        if is_answer(question.reference) and len(question.reference or "") >= 20
    ]


def _as_answers(questions: Sequence[Question], seed: int) -> tuple[list[tuple[Question, Answer]], np.ndarray, int]:
    """Answers made from references.

    Returns:
        Each question with an answer, (n,); which of these were in view when the judge's rules were chosen, (n,); how
        many references had no fact to change.
    """
    draw = Random(f"{seed}-llmeval-med")
    chosen: list[Question] = []
    for category in sorted({question.category for question in questions}):
        of_category = [question for question in questions if question.category == category]
        chosen += draw.sample(of_category, min(IN_VIEW, len(of_category)))
    seen = {question.id for question in chosen}
    work: list[tuple[Question, Answer]] = []
    unchanged = 0
    for question in [*chosen, *(question for question in questions if question.id not in seen)]:
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
    return work, np.array([question.id in seen for question, _ in work]), unchanged


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


def cost_beside_ordinal(judge: ReaderJudge, lines: Sequence[TrainingLine]) -> dict[str, float]:
    """What a token costs, beside the ordinal judge, which was the built-in judge before: both read the same answers.

    Each text counts once: both read it once for all answers to a question.
    """
    second = judge.second
    assert isinstance(second, OrdinalJudge)
    texts = {text for line in lines for text in (line.question.prompt, line.question.reference or "", line.answer.text)}
    settings = second.settings
    of_ordinal = {
        tuple(window)
        for line in lines
        for text in encode(
            second.tokenizer, line.question, (), line.answer.text, settings.max_length, settings.most_windows
        )[:4]
        for window in text
    }
    tokens = {
        "built-in": sum(len(states.ids) for states in judge.encoder.read(sorted(texts - {""}))),
        "ordinal": sum(map(len, of_ordinal)),
    }
    table: dict[str, float] = {"answers": len(lines)}
    for name, each in (("built-in", judge), ("ordinal", second)):
        start = time.perf_counter()
        judged(each, [(line.question, line.answer) for line in lines])
        seconds = time.perf_counter() - start
        table |= {
            f"{name}: tokens encoded per answer": round(tokens[name] / len(lines), 1),
            f"{name}: milliseconds per token": round(1000 * seconds / tokens[name], 4),
        }
    ratio = table["built-in: milliseconds per token"] / table["ordinal: milliseconds per token"]
    return table | {"times the cost per token of the ordinal judge": round(ratio, 2)}


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


def probes(judge: Judge, lines: Sequence[TrainingLine], most: int, seed: int = 0) -> dict[str, Any]:
    """The share of answers whose usable label a probe changes, or leaves usable where it must not.

    Args:
        most: How many answers each probe changes at most: the first ones that it applies to.
    """
    before = judged(judge, [(line.question, line.answer) for line in lines])
    table, scheme = {}, scheme_of(sorted({line.question.category for line in lines}))
    for probe in PROBES:
        changed: list[tuple[Question, Answer]] = []
        for line in lines:
            key = (line.question.id, line.answer.model)
            level = line.level
            if probe in ("negated", "append-harm"):
                level = before[key].score or 1  # of those that the judge calls usable
            answer = probed(line.question, line.answer, probe, seed, level, scheme)
            if answer is not None and len(changed) < most:
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


def _share(values: Sequence[bool] | np.ndarray, groups: Sequence[str]) -> dict[str, float]:
    """The mean of values, such as the share that are true, with an interval over groups."""
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
