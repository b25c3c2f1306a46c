"""The bundled sample keeps its promises."""

from collections import Counter

from medjudge.benchmark.sample import sample_folder
from medjudge.pair_records import PhysicianPair
from medjudge.records import CONSTRUCTED, Answer, PhysicianScore, Question
from medjudge.scheme import LLMEVAL_MED
from medjudge.store import read_records
from medjudge.text.checklist_items import items_of

QUESTIONS = read_records(sample_folder() / "questions.jsonl", Question)
ANSWERS = read_records(sample_folder() / "answers.jsonl", Answer)
SCORES = read_records(sample_folder() / "physician_scores.jsonl", PhysicianScore)


def test_the_sample_has_conversations_in_two_languages_and_an_answer_of_each_level() -> None:
    assert 50 <= len(QUESTIONS) <= 60
    assert {question.category for question in QUESTIONS} == set(LLMEVAL_MED.category_ids)
    assert sum(question.language == "zh" for question in QUESTIONS) >= 10
    turns = Counter(question.group for question in QUESTIONS)
    assert sum(count > 1 for count in turns.values()) >= 5
    levels: dict[str, list[int]] = {}
    for score in SCORES:
        levels.setdefault(score.question_id, []).append(score.level)
    for question in QUESTIONS:
        assert question.reference
        assert {item.importance for item in items_of(question)} == {"core", "secondary"}
        assert sorted(levels[question.id]) == [1, 2, 3, 4, 5]
    assert {score.rater for score in SCORES} == {"constructed"}
    assert {answer.key for answer in ANSWERS} == {score.answer_key for score in SCORES}
    texts = {answer.text for answer in ANSWERS}
    assert len(texts) == len(ANSWERS)
    assert texts.isdisjoint(question.reference for question in QUESTIONS)  # no answer is the reference


def test_pairs_of_the_sample_prefer_the_higher_level_and_say_who_wrote_them() -> None:
    levels = {(score.question_id, score.model): score.score for score in SCORES}
    pairs = read_records(sample_folder() / "physician_pairs.jsonl", PhysicianPair)
    assert {pair.rater for pair in pairs} == {CONSTRUCTED}
    assert {pair.question_id for pair in pairs} == {score.question_id for score in SCORES}
    for pair in pairs:
        first, second = levels[pair.question_id, pair.first], levels[pair.question_id, pair.second]
        assert pair.preferred == ("first" if first > second else "second")
    assert 0.4 < sum(pair.preferred == "first" for pair in pairs) / len(pairs) < 0.6
