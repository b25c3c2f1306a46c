import numpy as np
import pytest

from medjudge.distill.calibrate import calibrate_teacher, calibrated, cross_fitted, fit_teacher_map
from medjudge.records import Judgment
from medjudge.scale import median_level
from medjudge.scheme import LLMEVAL_MED
from medjudge.statistics.measures import confusion, usable_agreement

EYE = np.eye(5)


def scored(n: int, seed: int, lenient: str | None = "MTG") -> tuple[np.ndarray, ...]:
    """A teacher like GPT-4 in the paper: near the physicians, but in one category up to two levels too high.

    Expected score, physicians' level, category and conversation (three answers each).
    """
    generator = np.random.default_rng(seed)
    conversation = np.arange(n) // 3
    category = generator.choice(LLMEVAL_MED.category_ids, n)[conversation].astype(object)
    physician = generator.choice([1, 2, 3, 4, 5], n, p=[0.08, 0.15, 0.22, 0.3, 0.25])
    teacher = physician + generator.choice([-1, 0, 1], n, p=[0.1, 0.75, 0.15])
    too_high = category == lenient
    teacher[too_high] = physician[too_high] + generator.choice([0, 1, 2], too_high.sum(), p=[0.1, 0.35, 0.55])
    return np.clip(teacher, 1, 5).astype(float), physician, category, conversation


def log_loss(labels: np.ndarray, physician: np.ndarray) -> float:
    return float(-np.log(np.maximum(labels[np.arange(len(labels)), physician - 1], 1e-12)).mean())


def as_records(question, teacher, physician, category, conversation, **fields):
    questions, rounds = {}, {}
    for n, score in enumerate(teacher):
        questions[f"q{n}"] = question(id=f"q{n}", group=f"g{conversation[n]}", category=category[n])
        more = {name: values[n] for name, values in fields.items()}
        scored = Judgment(question_id=f"q{n}", model="m", judge="t", score=round(score), **more)
        rounds[scored.answer_key] = [scored]
    return rounds, dict(zip(rounds, physician.tolist(), strict=True)), questions


def test_a_lenient_teacher_agrees_better_with_unseen_physicians_after_calibration() -> None:
    teacher, physician, category, conversation = scored(900, 0)
    unseen, truth, of, _ = scored(6000, 1)
    raw = unseen.astype(int)
    labels = calibrated(fit_teacher_map(teacher, physician, category, conversation), unseen, of)
    after = np.array([median_level(row) for row in labels])
    softened = min(log_loss((1 - share) * EYE[raw - 1] + share / 5, truth) for share in np.linspace(0.01, 0.9, 90))
    assert log_loss(labels, truth) < softened - 0.2
    mtg = of == "MTG"
    gain = usable_agreement(confusion(after[mtg], truth[mtg])) - usable_agreement(confusion(raw[mtg], truth[mtg]))
    assert gain > 0.05
    # Where the teacher was right, nothing is lost.
    assert usable_agreement(confusion(after[~mtg], truth[~mtg])) >= usable_agreement(confusion(raw[~mtg], truth[~mtg]))
    assert abs((after - truth).mean()) < abs((raw - truth).mean()) / 2


def test_maps_are_monotone_and_their_rows_distributions() -> None:
    teacher, physician, category, conversation = scored(120, 0)
    between = np.clip(teacher + np.random.default_rng(0).normal(0, 0.4, 120), 1, 5)
    fitted = fit_teacher_map(between, physician, category, conversation)
    for name in (*LLMEVAL_MED.category_ids, "never scored"):
        rows = calibrated(fitted, np.linspace(1, 5, 101), np.full(101, name, dtype=object))
        assert rows.sum(axis=1) == pytest.approx(np.ones(101))
        assert rows.min() > 0
        above = 1 - np.cumsum(rows, axis=1)[:, :4]
        assert (np.diff(above, axis=0) > -1e-12).all()


def test_three_pairs_leave_a_category_near_the_overall_map() -> None:
    teacher, physician, category, conversation = scored(600, 3)
    keep = np.flatnonzero(category != "MSE")
    teacher[keep[:3]], physician[keep[:3]], category[keep[:3]] = 5.0, 1, "MSE"
    fitted = fit_teacher_map(*(column[keep] for column in (teacher, physician, category, conversation)))
    names = np.array(["MSE", "elsewhere", "MTG"], dtype=object)
    five = calibrated(fitted, np.full(3, 5.0), names)
    assert np.abs(five[0] - five[1]).sum() / 2 < 0.25
    assert np.abs(five[2] - five[1]).sum() / 2 > 0.1  # a category with many pairs goes its own way
    assert five[1] == pytest.approx(fitted.maps[-1][-1])


def test_a_held_out_label_does_not_see_its_own_conversation() -> None:
    teacher, physician, category, conversation = scored(150, 5)
    raw = EYE[teacher.astype(int) - 1]
    before = cross_fitted(teacher, raw, physician, category, conversation)
    other = physician.copy()
    other[conversation == 7] = 6 - other[conversation == 7]
    after = cross_fitted(teacher, raw, other, category, conversation)
    assert (after.after[conversation == 7] == before.after[conversation == 7]).all()
    assert (after.before[conversation == 7] == before.before[conversation == 7]).all()
    assert (after.after != before.after).any()


def test_the_report_says_that_calibration_helped(question) -> None:
    calibration = calibrate_teacher(*as_records(question, *scored(450, 6)))
    assert calibration.report["applied"]
    assert calibration.report["conversations"] == 150
    loss, bias = (calibration.report["held_out"][name] for name in ("log_loss", "bias"))
    assert loss["difference"]["high"] < 0
    assert loss["difference"]["value"] == pytest.approx(loss["after"]["value"] - loss["before"]["value"], abs=1e-5)
    assert abs(bias["after"]["value"]) < bias["before"]["low"]
    assert calibration.report["map"]["probabilities"]["MTG"]["5"][4] < 0.6


def test_too_few_pairs_are_copied_as_they_are(question) -> None:
    rounds, physicians, questions = as_records(question, *scored(120, 7))
    few = dict(list(physicians.items())[:29])
    calibration = calibrate_teacher(rounds, few, questions)
    assert calibration.teacher_map is None
    assert "30 answers in 10 conversations" in calibration.report["why"]
    nine = {name: asked.model_copy(update={"group": f"g{int(name[1:]) % 9}"}) for name, asked in questions.items()}
    assert calibrate_teacher(rounds, physicians, nine).teacher_map is None
    assert calibrate_teacher({}, {}, {}).report["answers"] == 0


def test_a_teacher_that_knows_the_physicians_probabilities_is_copied_as_it_is(question) -> None:
    generator = np.random.default_rng(8)
    _, _, category, conversation = scored(300, 8)
    # Its probabilities are the truth, and they differ at one and the same expected score.
    probabilities = generator.dirichlet([0.3] * 5, 300)
    physician = np.array([generator.choice(5, p=row) + 1 for row in probabilities])
    expected = probabilities @ np.arange(1, 6)
    rounds, physicians, questions = as_records(
        question, expected, physician, category, conversation, probabilities=probabilities.tolist(), expected=expected
    )
    calibration = calibrate_teacher(rounds, physicians, questions)
    assert calibration.teacher_map is None
    assert "no lower" in calibration.report["why"]
    assert calibration.report["held_out"]["log_loss"]["difference"]["value"] > 0
