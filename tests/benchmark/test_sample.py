"""The bundled sample keeps its promises."""

from collections import Counter

import numpy as np

from medjudge.benchmark.sample import sample_folder
from medjudge.item_records import ItemScore
from medjudge.pair_records import PhysicianPair
from medjudge.records import CONSTRUCTED, Answer, AnswerKey, PhysicianScore, Question
from medjudge.scheme import LLMEVAL_MED
from medjudge.statistics.item_scores import level_of_items
from medjudge.store import read_records
from medjudge.text.checklist_items import items_of

QUESTIONS = read_records(sample_folder() / "questions.jsonl", Question)
ANSWERS = read_records(sample_folder() / "answers.jsonl", Answer)
SCORES = read_records(sample_folder() / "physician_scores.jsonl", PhysicianScore)


def test_size_languages_and_conversations() -> None:
    assert 50 <= len(QUESTIONS) <= 60
    assert set(Counter(question.category for question in QUESTIONS)) == set(LLMEVAL_MED.category_ids)
    assert Counter(question.language for question in QUESTIONS)["zh"] >= 10
    turns = Counter(question.group for question in QUESTIONS)
    assert sum(count > 1 for count in turns.values()) >= 5
    assert max(turns.values()) == 3


def test_every_question_has_reference_checklist_and_an_answer_of_each_level() -> None:
    levels: dict[str, list[int]] = {}
    for score in SCORES:
        levels.setdefault(score.question_id, []).append(score.level)
    for question in QUESTIONS:
        assert question.reference
        core, secondary = ("核心需求", "次要需求") if question.language == "zh" else ("Core req", "Secondary req")
        assert core in (question.checklist or "")
        assert secondary in (question.checklist or "")
        assert sorted(levels[question.id]) == [1, 2, 3, 4, 5]
    assert {score.rater for score in SCORES} == {"constructed"}
    assert {answer.key for answer in ANSWERS} == {score.answer_key for score in SCORES}
    texts = {answer.text for answer in ANSWERS}
    assert len(texts) == len(ANSWERS)
    assert texts.isdisjoint(question.reference for question in QUESTIONS)  # no answer is the reference


def test_length_does_not_give_the_level_away() -> None:
    length = {answer.key: len(answer.text) for answer in ANSWERS}
    language = {question.id: question.language for question in QUESTIONS}
    for code in ("en", "zh"):
        pairs = np.array([(length[s.answer_key], s.level) for s in SCORES if language[s.question_id] == code])
        assert abs(np.corrcoef(pairs.T)[0, 1]) < 0.15


def test_pairs_of_the_sample_prefer_the_higher_level_and_say_who_wrote_them() -> None:
    levels = {(score.question_id, score.model): score.score for score in SCORES}
    pairs = read_records(sample_folder() / "physician_pairs.jsonl", PhysicianPair)
    assert {pair.rater for pair in pairs} == {CONSTRUCTED}
    assert {pair.question_id for pair in pairs} == {score.question_id for score in SCORES}
    for pair in pairs:
        first, second = levels[pair.question_id, pair.first], levels[pair.question_id, pair.second]
        assert pair.preferred == ("first" if first > second else "second")
    assert len({tuple(sorted((pair.first, pair.second))) for pair in pairs}) == 10
    assert 0.4 < sum(pair.preferred == "first" for pair in pairs) / len(pairs) < 0.6


def test_its_verdicts_on_items_fit_the_constructed_levels() -> None:
    questions = {question.id: question for question in QUESTIONS}
    scores = read_records(sample_folder() / "item_scores.jsonl", ItemScore)
    levels = {score.answer_key: score.level for score in SCORES}
    met: dict[AnswerKey, dict[str, bool]] = {}
    for score in scores:
        assert score.rater == CONSTRUCTED
        met.setdefault(score.answer_key, {})[score.item] = score.verdict == "met"
    assert len(met) == 15
    apart = []
    for key, verdicts in met.items():
        items = items_of(questions[key.question_id])
        assert [item.text for item in items] == list(verdicts)
        apart.append(abs((level_of_items(items, list(verdicts.values())) or 0) - levels[key]))
    # A dangerous answer is below, one with a right detail above what its items alone would give.
    assert sorted(apart) == [0] * 13 + [1] * 2
