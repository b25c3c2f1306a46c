import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from calls import judged
from scipy.stats import binomtest

from medjudge.benchmark.llmeval_med import read_llmeval_scores
from medjudge.records import AnswerKey, ErrorKind
from medjudge.scheme import LLMEVAL_MED
from medjudge.statistics.estimates import clustered_wilson
from medjudge.validation.usability import (
    NOT_JUDGED,
    REASONS,
    QuestionCounts,
    Rate,
    best_first,
    count_questions,
    coverage,
    score_models,
)

CATEGORY_OF = {category.title["zh"]: category.id for category in LLMEVAL_MED.categories}


def test_usable_is_the_mean_over_samples_and_rounds(question) -> None:
    questions = [question(id="a"), question(id="b", category="MSE"), question(id="c", category="MSE")]
    judgments = [
        judged("a", 5),
        judged("a", 3, sample=1),
        judged("a", 4, sample=2),  # mean 4: usable
        judged("b", 5),
        judged("b", 3, round=2),
        judged("b", 3, sample=1),  # mean 3.67: not
        judged("c", None),  # unscored: not usable, and said
    ]
    rates = score_models(questions, judgments, ["m", "silent"])
    assert replace(rates["m"].overall, low=0, high=0) == Rate(
        rate=33.33, low=0, high=0, usable=1, questions=3, unscored=1
    )
    assert rates["m"].parts["MSE"].rate == 0
    assert rates["silent"].overall.unscored == 3
    assert "MTG" not in rates["m"].parts


def test_the_lowest_levels_of_a_model_are_shares_of_its_scored_answers(question) -> None:
    levels = [1, 1, 2, 4, 5, 5, 5, 5, 5, 5, None]
    questions = [question(id=str(place)) for place in range(11)]
    (rates,) = score_models(questions, [judged(str(n), level) for n, level in enumerate(levels)], ["m"]).values()
    first, second = rates.lowest[1], rates.lowest[2]
    assert (first.share, first.answers, second.share, second.answers, second.scored) == (20, 2, 30, 3, 10)
    interval = binomtest(2, 10).proportion_ci(method="wilson")
    assert (first.low, first.high) == pytest.approx((100 * interval.low, 100 * interval.high), abs=1e-4)
    (silent,) = score_models(questions, [judged("0", None)], ["m"]).values()
    assert (silent.lowest[1].share, silent.lowest[1].scored) == (None, 0)
    for count in (7, 8):  # few conversations give a rate without an interval
        few = [question(id=str(place)) for place in range(count)]
        (rates,) = score_models(few, [judged(str(place), 5) for place in range(count)], ["m"]).values()
        assert rates.overall.rate == 100
        assert {rates.overall.low is not None, rates.lowest[1].low is not None} == {count == 8}


def test_where_nothing_was_scored_there_is_no_rate_and_missing_answers_are_counted_apart(question) -> None:
    questions = [question(id="a"), question(id="b"), question(id="c", category="MSE")]
    judgments = [judged("a", None), judged("c", 5, model="best")]
    answers = [AnswerKey("a", "m", 0), AnswerKey("b", "m", 0), AnswerKey("c", "best", 0)]
    rates = score_models(questions, judgments, ["m", "best"], answers=answers)
    assert rates["m"].overall == Rate(None, None, None, usable=0, questions=3, unscored=2, not_answered=1)
    assert rates["best"].parts["MK"].rate is None
    assert (rates["best"].overall.usable, rates["best"].overall.not_answered) == (1, 2)
    assert list(best_first(rates)) == ["best", "m"]


def test_unscored_answers_are_counted_by_reason_and_questions_once(question) -> None:
    questions = [question(id=name) for name in "abcd"]
    keys = [AnswerKey(name, model, 0) for name in "abc" for model in ("m", "n")]
    kinds = [("a", "m", "language"), ("a", "n", "language"), ("b", "m", "window")]
    judgments = [judged(name, None, model=model, error_kind=kind) for name, model, kind in kinds]
    judgments.append(judged("c", 4))
    counted = coverage(keys, judgments)
    assert (counted.answers, counted.unscored) == (6, 5)
    assert counted.reasons == {REASONS[ErrorKind.LANGUAGE]: 2, REASONS[ErrorKind.WINDOW]: 1, NOT_JUDGED: 2}
    assert counted.why.startswith("2 ")
    assert set(REASONS) == {None, *ErrorKind}
    assert count_questions(questions, keys, judgments) == QuestionCounts(questions=4, not_answered=1, unscored=2)


def test_rates_equal_those_of_aggregate_digit_for_digit(tmp_path) -> None:
    """Aggregate.py's rule, with exact fractions: the mean of the valid scores 0-5, usable from 4, rounded to 2."""
    generator = np.random.default_rng(0)
    choices = ["5", "4", "4", "5", "3", "2", "1", "-1", -1, "", "10", "0", 5]
    scores = {
        (name, group): [choices[generator.integers(len(choices))] for _ in range(3)]
        for index, name in enumerate(CATEGORY_OF)
        for group in range(7 + 13 * index)
    }
    entry = {"round": 1, "problem": "p", "model_answer": "a", "model_answer_judgement": "…"}
    paths = [tmp_path / f"{number}.json" for number in range(3)]
    for number, path in enumerate(paths):
        file: dict[str, list[dict]] = {}
        for (name, group), values in scores.items():
            one = {**entry, "groupCode": group, "category1": name, "model_answer_score": values[number]}
            file.setdefault(name, []).append(one)
        path.write_text(json.dumps(file, ensure_ascii=False), encoding="utf-8")
    usable: dict[str, list[bool]] = {"OP": []}
    for (name, _), values in scores.items():
        valid = [int(value) for value in values if str(value) in list("012345")]
        for part in ("OP", CATEGORY_OF[name]):
            usable.setdefault(part, []).append(bool(valid) and Fraction(sum(valid), len(valid)) >= 4)
    read = read_llmeval_scores(paths, "m", "gpt-4o")
    ours = score_models(read.questions, read.judgments, ["m"])["m"]
    expected = {part: round(sum(of_part) / len(of_part) * 100.0, 2) for part, of_part in usable.items()}
    assert {part: rate.rate for part, rate in ours.parts.items()} == expected


def test_the_interval_is_wilsons_for_single_questions_and_wider_for_conversations() -> None:
    usable = np.array([True] * 14 + [False] * 6)
    alone = clustered_wilson(usable, np.arange(20))
    wilson = binomtest(14, 20).proportion_ci(method="wilson")
    assert alone == pytest.approx((0.7, wilson.low, wilson.high))
    _, low, high = clustered_wilson(usable, np.arange(20) // 2)
    assert low < alone.low
    assert high > alone.high
    _, low, high = clustered_wilson(np.ones(12, dtype=bool), np.arange(12))  # all usable, and still an interval
    assert 0.7 < low < 0.8
    assert high == 1
