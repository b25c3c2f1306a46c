from collections import Counter

import numpy as np
import pytest

from medjudge.distill.training_set import WEIGHTS, ScoredAnswers, TrainingSetOptions, build_training_set, people_last
from medjudge.errors import InputError
from medjudge.records import Judgment, TrainingLine


def judged(question_id: str, score: int | None, **fields: object) -> Judgment:
    return Judgment(**{"question_id": question_id, "model": "m", "judge": "gpt", "score": score, **fields})


@pytest.fixture
def pieces(question, answer):
    questions = [question(id=f"q{n}", group=f"g{n // 2}", round=n % 2 + 1, prompt=f"prompt {n}") for n in range(12)]
    return questions, [answer(question_id=question.id, text=f"answer {question.id}") for question in questions]


def build(questions, answers, judgments, scores, **options):
    options = TrainingSetOptions(**{"validation_share": 0.2, **options})
    return build_training_set(ScoredAnswers(questions, answers, judgments, scores), options)


def lines_by_id(training_set):
    return {line.question.id: line for line in [*training_set.train, *training_set.validation]}


def test_a_physician_outranks_a_constructed_level_and_that_a_teacher(pieces, physician_score) -> None:
    questions, answers = pieces
    judgments = [judged(question.id, 5, rationale="because") for question in questions]
    scores = [physician_score(question_id=name, rater="constructed", score=5) for name in ("q3", "q5")]
    scores.append(physician_score(question_id="q3", score=2))
    training_set = build(questions, answers, judgments, scores, weights=WEIGHTS | {"teacher": 0.25})
    lines = lines_by_id(training_set)
    assert (lines["q3"].level, lines["q3"].source, lines["q3"].scored_by) == (2, "physician", ["dr"])
    assert lines["q3"].probabilities == [0, 1, 0, 0, 0]
    assert lines["q3"].rationale is None  # it argues for a 5
    assert (lines["q4"].level, lines["q4"].source, lines["q4"].rationale) == (5, "teacher", "because")
    assert (lines["q5"].level, lines["q5"].source) == (5, "constructed")
    weights = {line.source: line.weight for line in lines.values()}
    assert weights == training_set.summary["weights"] == {"constructed": 1, "physician": 3, "teacher": 0.25}
    assert training_set.summary["raters"] == {"dr": 1}
    counts = {"answers": 2, "other_level": 1, "usable_by_teacher_only": 1, "usable_by_physicians_only": 0}
    assert training_set.summary["teacher_against_physicians"] == counts


def test_rounds_and_raters_become_soft_labels(pieces, physician_score) -> None:
    questions, answers = pieces
    judgments = [judged("q0", 4), judged("q0", 5, round=2), judged("q1", 3, probabilities=[0, 0.25, 0.5, 0.25, 0])]
    judgments.append(judged("q3", None, error="unreadable"))
    scores = [physician_score(question_id="q2", rater=name, score=3 + (name > "a")) for name in "abc"]
    training_set = build(questions, answers, judgments, scores)
    lines = lines_by_id(training_set)
    assert (set(lines), training_set.summary["unscored_judgments"]) == ({"q0", "q1", "q2"}, 1)
    assert lines["q0"].probabilities == [0, 0, 0, 0.5, 0.5]
    assert lines["q0"].level == 4
    assert lines["q1"].probabilities == [0, 0.25, 0.5, 0.25, 0]
    assert lines["q2"].probabilities == pytest.approx([0, 0, 1 / 3, 2 / 3, 0], abs=1e-5)
    assert lines["q2"].level == 3  # a mean of 3.67 is not usable


def test_conversations_stay_whole_and_carry_their_earlier_turns(pieces, physician_score) -> None:
    questions, answers = pieces
    scores = [physician_score(question_id=question.id) for question in questions]
    training_set = build(questions, answers, [], scores, validation_share=0.34, seed=1)
    groups_of = [{line.question.group for line in side} for side in training_set[:2]]
    assert all(groups_of)
    assert not groups_of[0] & groups_of[1]
    assert lines_by_id(training_set)["q5"].earlier == ["prompt 4"]


def test_scores_that_cannot_be_and_nothing_at_all_are_refused(pieces, physician_score) -> None:
    twice = [physician_score(question_id="q3", score=level) for level in (2, 2, 4)]
    for scores, message in (
        ([physician_score(question_id="q0", model="other")], "belongs to no answer: question q0, model other"),
        (twice, "rater dr gave the answer of m to q3, sample 0, level 2 and level 4"),
        ([], "nothing to distil"),
    ):
        with pytest.raises(InputError, match=message):
            build(*pieces, [], scores)


@pytest.fixture
def lenient(question, answer, physician_score):
    """200 conversations, half of them scored by a physician; the teacher is a level above the truth, up to 5."""
    generator = np.random.default_rng(0)
    truth = generator.integers(1, 6, 200)
    questions = [question(id=f"q{n}", prompt=f"prompt {n}", category="MTG") for n in range(200)]
    answers = [answer(question_id=question.id, text=f"answer {question.id}") for question in questions]
    truth = {f"q{n}": int(level) for n, level in enumerate(truth)}
    above = {name: min(5, level + 1) for name, level in truth.items()}
    judgments = [judged(name, level, rationale=f"a reason for {level}") for name, level in above.items()]
    scores = [physician_score(question_id=f"q{n}", score=truth[f"q{n}"]) for n in range(0, 200, 2)]
    return questions, answers, judgments, scores, truth


def test_a_teacher_is_calibrated_before_it_is_copied(lenient) -> None:
    *sources, truth = lenient
    copied = build(*sources, calibrate=False)
    taught = {name: line for name, line in lines_by_id(build(*sources)).items() if line.source == "teacher"}
    assert len(taught) == 100
    # A 5 of this teacher can be a 4 or a 5; all below it is one too high.
    assert all(line.level == truth[name] for name, line in taught.items() if truth[name] < 4)
    assert all(line.level in (4, 5) for name, line in taught.items() if truth[name] >= 4)
    assert sum(line.level == truth[name] for name, line in lines_by_id(copied).items() if name in taught) < 30
    assert all(sum(line.probabilities) == pytest.approx(1, abs=1e-5) for line in taught.values())
    # Its rationale argues for a level that no longer stands.
    kept = [line for line in taught.values() if line.rationale]
    assert all(line.rationale == f"a reason for {line.level}" for line in kept)
    assert len(kept) < sum(line.rationale is not None for line in lines_by_id(copied).values())
    assert copied.summary["calibration"]["teachers"]["gpt"]["why"] == "calibration is switched off"


def test_validation_scores_have_no_part_in_the_map(lenient, physician_score) -> None:
    questions, answers, judgments, scores, _ = lenient
    training_set = build(questions, answers, judgments, scores)
    held = {line.question.id for line in training_set.validation}
    turned = [
        score.model_copy(update={"score": 6 - score.level}) if score.question_id in held else score for score in scores
    ]
    assert turned != scores
    assert build(questions, answers, judgments, turned).train == training_set.train


def test_several_teachers_become_the_mean_of_their_distributions(lenient) -> None:
    questions, answers, judgments, scores, truth = lenient
    # As good as the physicians: a map could not help, so it is copied as it is.
    other = [judged(name, level, judge="other") for name, level in truth.items()]
    rare = [judged("q1", 1, judge="rare", round=number) for number in (1, 2, 3)]
    training_set = build(questions, answers, [*judgments, *other, *rare], scores)
    reports = training_set.summary["calibration"]["teachers"]
    assert {name: report["applied"] for name, report in reports.items()} == {"gpt": True, "other": False, "rare": False}
    line = lines_by_id(training_set)["q1"]
    alone = [lines_by_id(build(questions, answers, some, scores))["q1"].probabilities for some in (judgments, other)]
    assert line.probabilities == pytest.approx(np.mean([*alone, [1, 0, 0, 0, 0]], axis=0), abs=1e-5)
    assert line.scored_by == ["gpt, round 1", "other, round 1", "rare, round 1", "rare, round 2", "rare, round 3"]


def test_synthetic_answers_come_from_the_training_side_only(question, answer, physician_score) -> None:
    reference = (
        "Take at most 4 g of paracetamol a day. Leave six hours between two doses. Avoid alcohol while you take it. "
        "See a doctor where the fever lasts longer than three days. Do not give it to an infant below two months."
    )
    questions = [
        question(id=f"q{n}", prompt=f"What about matter {n}?", reference=f"This is matter {n}. {reference} {n} mg.")
        for n in range(20)
    ]
    answers = [answer(question_id=f"q{n}", text=f"answer {n}") for n in range(10)]
    scores = [physician_score(question_id=f"q{n}", score=n % 5 + 1) for n in range(10)]
    training_set = build(questions, answers, [], scores, synthetic=25)
    synthetic = [line for line in training_set.train if line.source == "synthetic"]
    held = {line.question.id for line in training_set.validation}
    assert 5 <= len(synthetic) <= 25
    assert all(line.source == "physician" for line in training_set.validation)
    assert not held & {name for line in synthetic for name in (line.question.id, *line.made_from)}
    assert any(int(line.question.id[1:]) >= 10 for line in synthetic)  # an unscored question will do
    assert all(line.weight == 0.5 and line.answer.model == "synthetic" for line in synthetic)
    assert all(line.scored_by[0].startswith("synthetic: ") for line in synthetic)
    assert all(line.probabilities[line.level - 1] == 1 for line in synthetic)
    # With nothing scored there are two sides all the same.
    alone = build(questions, [], [], [], synthetic=25)
    texts = [{name for line in side for name in (line.question.id, *line.made_from)} for side in alone[:2]]
    assert all(texts)
    assert not texts[0] & texts[1]
    with pytest.raises(InputError, match="no question to train on has a reference"):
        build([question(id=f"q{n}") for n in range(9)], [], [], [], synthetic=5)
    taken = [answer(question_id="q1", model="synthetic")]
    with pytest.raises(InputError, match="rename it"):
        build(questions, taken, [], [physician_score(question_id="q1", model="synthetic")], synthetic=5)


def test_the_last_stage_is_people_with_three_tenths_of_the_teacher(question, answer) -> None:
    def lines(**counts: int) -> list[TrainingLine]:
        fixed = {"earlier": [], "level": 3, "probabilities": [0, 0, 1, 0, 0], "scored_by": ["x"], "weight": 3}
        return [
            TrainingLine(question=question(id=f"{name}-{n}"), answer=answer(sample=n), source=name, **fixed)
            for name, count in counts.items()
            for n in range(count)
        ]

    train = lines(physician=60, constructed=10, teacher=400, synthetic=20)
    stages = people_last(train, 0)
    assert Counter(line.source for line in stages.first) == {"teacher": 400, "synthetic": 20}
    assert Counter(line.source for line in stages.last) == {"physician": 60, "constructed": 10, "teacher": 30}
    assert {line.weight for line in stages.last} == {1}
    assert people_last(train, 0) == stages != people_last(train, 1)
    for missing, rest in (("physicians' score", lines(teacher=5)), ("teacher's judgment", lines(physician=5))):
        with pytest.raises(InputError, match=f"no answer to train on has a {missing}"):
            people_last(rest, 0)
