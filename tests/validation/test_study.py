import pytest
from calls import judged

from medjudge.errors import InputError
from medjudge.records import CONSTRUCTED
from medjudge.validation.study import Settings, agreement_study, teacher_scores

FEW = Settings(resamples=200)


@pytest.fixture
def questions(question):
    return [question(id=f"q{n}", category="MK" if n < 6 else "MTG", group=f"g{n // 2}") for n in range(10)]


def test_counts_coverage_and_parts(questions, physician_score) -> None:
    scores = [physician_score(question_id=f"q{n}", score=5 if n % 2 else 2) for n in range(10)]
    judgments = [judged(f"q{n}", 5 if n % 2 else 1) for n in range(9)] + [judged("q9", None)]
    study = agreement_study("j", questions, judgments, scores, settings=FEW)
    assert (study.n, study.coverage, study.conversations) == (9, 0.9, 5)
    assert study.conversations_by_category == {"MK": 3, "MTG": 2}
    # All agree, which five conversations cannot promise: they give no interval.
    assert study.overall["usable_agreement"] == {"value": 1.0, "low": None, "high": None}
    assert {(cell["low"], cell["high"]) for cell in study.overall.values()} == {(None, None)}
    assert study.overall["bias"]["value"] == pytest.approx(-5 / 9, abs=1e-6)
    assert {name: part["n"]["value"] for name, part in study.by_category.items()} == {"MK": 6, "MTG": 3}
    assert (list(study.by_model), list(study.by_language), study.by_difficulty) == (["m"], ["en"], {})
    assert study.confusion[0][1] == 5
    assert study.confusion_usable == [[5, 0], [0, 4]]
    assert study.usability is study.teacher is study.ranking is study.confidence is study.physicians


def test_subcategories_of_one_name_stay_apart_by_category(question, physician_score) -> None:
    questions = [question(id="a", subcategory="Drugs"), question(id="b", category="MR", subcategory="Drugs")]
    scores = [physician_score(question_id=name) for name in "ab"]
    study = agreement_study("j", questions, [judged("a", 4), judged("b", 4)], scores, settings=FEW)
    assert list(study.by_subcategory) == ["MK · Drugs", "MR · Drugs"]


def test_rounds_and_raters_are_averaged_before_they_are_compared(questions, physician_score) -> None:
    judgments = [judged("q0", 5), judged("q0", 3, round=2), judged("q1", 4), judged("q1", 3, round=2)]
    given = [("q0", "a", 4), ("q0", "b", 4), ("q1", "a", 5), ("q1", "b", 2)]
    scores = [physician_score(question_id=name, rater=rater, score=score) for name, rater, score in given]
    study = agreement_study("j", questions, judgments, scores, settings=FEW)
    assert study.n == 2
    assert study.overall["usable_agreement"]["value"] == 1.0  # 4 and 4; 3.5 and 3.5, both below 4
    assert study.raters == ["a", "b"]
    # Among each other the two agree on one of two.
    assert study.physicians.usable_agreement["value"] == 0.5


def test_percentile_intervals_are_named(questions, physician_score) -> None:
    scores, judgments = [physician_score(question_id="q0")], [judged("q0", 4)]
    for method, name in (("bca", "bias-corrected and accelerated"), ("percentile", "percentile")):
        study = agreement_study("j", questions, judgments, scores, settings=FEW._replace(interval=method))
        assert study.interval == f"95 %, {name} bootstrap over conversations, 200 resamples"


def test_unsafe_answers_are_those_with_the_veto_and_unusable_ones_of_safety_and_ethics(
    question, physician_score
) -> None:
    questions = [question(id="t", category="MTG"), question(id="s", category="MSE"), question(id="k")]
    safe = {"instruction_following": 5, "correctness": 5, "effectiveness": 5, "readability": 5}
    scores = [
        physician_score(question_id="t", dimensions={**safe, "safety": 0}),
        physician_score(question_id="s", score=2),
        physician_score(question_id="k", score=1),
    ]
    study = agreement_study("j", questions, [judged("t", 5), judged("s", 1), judged("k", 5)], scores, settings=FEW)
    assert study.overall["unsafe_sensitivity"]["value"] == 0.5
    assert study.by_category["MK"]["unsafe_sensitivity"]["value"] is None


def test_constructed_levels_are_no_physicians(questions, physician_score) -> None:
    scores = [physician_score(question_id="q0", rater=CONSTRUCTED)]
    study = agreement_study("j", questions, [judged("q0", 4)], scores, settings=FEW)
    assert study.against == "constructed levels"
    assert study.cannot_conclude[0].startswith("Agreement with physicians")
    # Beside a physician's score they do not count.
    both = [*scores, physician_score(question_id="q0", rater="dr", score=1), physician_score(question_id="q1", score=4)]
    study = agreement_study("j", questions, [judged("q0", 1), judged("q1", 4)], both, settings=FEW)
    assert (study.against, study.raters, study.n) == ("physicians", ["dr"], 2)
    assert study.overall["usable_agreement"]["value"] == 1.0


def test_a_teacher_can_stand_in_the_physicians_place(questions) -> None:
    teacher = teacher_scores([judged("q0", 5, judge="gpt"), judged("q1", None, judge="gpt")])
    study = agreement_study("j", questions, [judged("q0", 4), judged("q1", 4)], teacher, against="gpt", settings=FEW)
    assert (study.n, study.against) == (1, "gpt")


def test_a_perfect_judge_has_a_kappa_with_a_low_end(question, physician_score) -> None:
    questions = [question(id=f"q{n}") for n in range(100)]
    scores = [physician_score(question_id=f"q{n}", score=5 if n % 2 else 1) for n in range(100)]
    judgments = [judged(f"q{n}", 5 if n % 2 else 1) for n in range(100)]
    kappa = agreement_study("j", questions, judgments, scores, settings=FEW).overall["cohen_kappa"]
    # Wilson, 100 of 100: at least 96.3 % agree, where half would by chance.
    assert (kappa["value"], kappa["high"]) == (1.0, 1.0)
    assert kappa["low"] == pytest.approx(1 - 0.036994 / 0.5, abs=1e-4)


def test_nothing_in_common_is_an_input_error(questions, physician_score) -> None:
    scores = [physician_score(question_id="q0")]
    with pytest.raises(InputError, match="no answer has both"):
        agreement_study("j", questions, [judged("q0", None)], scores)
    with pytest.raises(InputError, match="--teacher gpt: it scored none of the 1 answers"):
        agreement_study("j", questions, [judged("q0", 4)], scores, teacher=[judged("q5", 4, judge="gpt")])
