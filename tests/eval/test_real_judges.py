"""The local judges of the study on real scores, on answers whose quality is planted in one of their numbers."""

from pathlib import Path

import numpy as np
import pytest
import real_cells
from real_cascade import Costs, cascade_table
from real_cells import Cell, Cells, Elsewhere, judges_table
from real_few import errors, few_table
from real_head import Head, Lines, fitted
from real_material import UNSEEN, Material, drawn, folds, lines_for, one_hot
from real_paired import against_teacher, area, levels_of
from real_plots import write_plots
from real_trials import TRIALS, _folded, pairs_of, people_last, plain
from sklearn.metrics import roc_auc_score

from medjudge.chat_api.prices import Price
from medjudge.records import AnswerKey

COSTS = Costs(Price(input=2.0, output=10.0, date="2026-01-01", source="a test"), minutes=3, hour=60)


def planted(seed: int, questions: int = 60, models: int = 8) -> Material:
    """Answers with a quality that one number shows; the teacher is lenient, most so in one of three subjects."""
    draw = np.random.default_rng(seed)
    n = questions * models
    question, model = np.repeat(np.arange(questions), models), np.tile(np.arange(models), questions)
    quality = draw.normal(size=n) + model / models
    people = np.clip(np.rint(3 + 1.3 * quality), 1, 5).astype(int)
    subject = np.array(["law", "maths", "optics"], dtype=object)[question % 3]
    expected = np.clip(people + (subject == "law") + (draw.random(n) < 0.6), 1, 5).astype(float)
    values = np.column_stack([quality + 0.4 * draw.normal(size=n), draw.normal(size=(n, 5))])
    return Material(
        keys=[AnswerKey(f"q{seed}-{q}", f"m{m}", 0) for q, m in zip(question, model, strict=True)],
        values=values,
        gated=values,
        untrained=quality + draw.normal(size=n),
        expected=expected,
        people=people,
        subject=subject,
        conversation=np.array([f"q{seed}-{q}" for q in question], dtype=object),
        model=np.array([f"m{m}" for m in model], dtype=object),
        tokens=np.full(n, 300),
    )


@pytest.fixture(scope="module")
def material() -> Material:
    return planted(0)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few judges with few trees, one seed."""
    recipe = [("teacher", 0), ("calibrated", 200), ("people", 200), ("both", 200)]
    monkeypatch.setattr(real_cells, "RECIPES", dict.fromkeys(UNSEEN, recipe))
    for module in ("real_cells", "real_few", "real_cascade", "real_trials"):
        monkeypatch.setattr(f"{module}.SEEDS", (0,))
    monkeypatch.setattr("real_few.FEW", (50, 200))
    monkeypatch.setattr("real_learners.TREES", 10)
    monkeypatch.setattr("real_paired.RESAMPLES", 100)


@pytest.mark.parametrize("unseen", UNSEEN)
def test_a_fold_holds_whole_questions_models_or_subjects(material: Material, unseen: str) -> None:
    fold = folds(material, unseen, 3)
    groups = {"questions": material.conversation, "models": material.model, "subjects": material.subject}[unseen]
    assert all(len(set(fold[groups == name])) == 1 for name in set(groups))
    assert len(set(fold)) > 1


def test_people_outrank_the_calibrated_teacher_and_a_larger_draw_holds_the_smaller_one(material: Material) -> None:
    rows = np.arange(300)
    few, many = drawn(rows, 50, 1), drawn(rows, 200, 1)
    assert set(few) < set(many) < set(rows)
    lines = lines_for(material, "both", rows, many)
    assert (lines.labels[many] == one_hot(material.people[many])).all()
    others = np.setdiff1d(rows, many)
    lenient = others[material.subject[others] == "law"]
    raw, mapped = material.expected[lenient].mean(), (lines.labels[lenient] @ np.arange(1, 6)).mean()
    truth = material.people[lenient].mean()
    assert abs(mapped - truth) < abs(raw - truth) / 2
    assert len(lines_for(material, "people", rows, few).rows) == 50
    assert (lines_for(material, "teacher", rows, few).labels == one_hot(material.expected[:300])).all()


def test_the_head_finds_the_planted_number_and_a_start_holds_it(material: Material) -> None:
    lines = Lines(np.arange(400), one_hot(material.people[:400]), np.ones(400))
    head = fitted(material.values, lines, 1.0)
    assert abs(head.weights[0]) > 5 * np.abs(head.weights[1:]).max()
    assert (np.diff(head.cuts) > 0).all()
    found = head.probabilities(material.values[400:])
    assert np.allclose(found.sum(axis=1), 1)
    assert (found >= 0).all()
    assert (np.abs(levels_of(found) - material.people[400:]) <= 1).mean() > 0.9
    start = Head(np.array([0.0, 9, 0, 0, 0, 0]), np.array([-2.0, -1, 0, 1]))
    assert fitted(material.values, lines, 1e9, start).weights == pytest.approx(start.weights, abs=1e-3)


def test_the_area_from_counts_is_that_of_the_ranks() -> None:
    draw = np.random.default_rng(0)
    people, scores = draw.integers(1, 6, 300), draw.integers(0, 20, 300)
    counts = np.zeros((20, 5))
    np.add.at(counts, (scores, people - 1), 1)
    assert float(area(counts[..., None])[0]) == pytest.approx(roc_auc_score(people >= 4, scores))


def test_only_a_judge_that_agrees_as_often_as_the_teacher_is_non_inferior(material: Material) -> None:
    against = (material.expected, material.people, material.conversation)
    better = against_teacher([one_hot(material.people)], *against)
    assert better["non-inferior at 2 points"]
    assert better["share of gpt-4's kappa"]["value"] > 1
    worse = against_teacher([np.full((480, 5), 0.2)], *against)
    assert not worse["non-inferior at 2 points"]
    both = against_teacher([one_hot(material.people), np.full((480, 5), 0.2)], *against)
    kappa = [row["judge"]["cohen_kappa"]["value"] for row in (better, both, worse)]
    assert kappa[1] == pytest.approx((kappa[0] + kappa[2]) / 2, abs=1e-5)


@pytest.mark.usefixtures("quick")
def test_calibrated_labels_beat_a_lenient_teachers_and_a_cell_is_made_once(material: Material, tmp_path: Path) -> None:
    cells = Cells(material, tmp_path)
    table = judges_table(cells)
    rows = table["unseen questions"]
    kappa = {name: row["judge"]["cohen_kappa"]["value"] for name, row in rows.items()}
    assert kappa["the teacher's scores, calibrated by 200 of people's scores"] > kappa["the teacher's scores"]
    assert max(kappa, key=kappa.__getitem__) != "nothing"
    assert set(cells.seconds) == {path.stem for path in (tmp_path / "cells").glob("*.npy")}
    kept = tmp_path / "cells" / "questions-both-200-0.npy"
    np.save(kept, np.full((480, 5), 0.2))
    assert (cells.probabilities(Cell("questions", "both", 200, 0)) == 0.2).all()


@pytest.mark.usefixtures("quick")
def test_few_scores_correct_the_rates_and_are_drawn_in_two_plots(material: Material, tmp_path: Path) -> None:
    table = few_table(Cells(material, tmp_path))
    assert table["200"]["judge, 20% to people"]["mean_error"] < table["200"]["judge alone"]["mean_error"]
    assert table["200"]["people alone"]["mean_error"] < table["50"]["people alone"]["mean_error"]
    assert table["200"]["prediction-powered"]["mean_error"] < table["200"]["people alone"]["mean_error"]
    truth = {f"m{at}": float(material.usable[material.model == f"m{at}"].mean()) for at in range(8)}
    assert errors(material, truth)["mean_error"] == 0
    assert errors(material, truth)["order_spearman"] == 1
    for name in write_plots(table, tmp_path / "plots"):
        assert "prediction-powered" in (tmp_path / "plots" / name).read_text()


@pytest.mark.usefixtures("quick")
def test_a_cascade_costs_less_than_gpt4_and_people_decide_what_it_leaves_open(
    material: Material, tmp_path: Path
) -> None:
    table = cascade_table(Cells(material, tmp_path), COSTS, people=200)["for a thousand answers"]
    assert table["people alone"]["usd_people"] == pytest.approx(1000 * 3)
    assert table["gpt-4 alone"]["usd_gpt4"] == pytest.approx(1000 * (700 * 2 + 200 * 10) / 1e6)
    assert table["local judge alone"]["usd_gpt4"] == 0
    middle = table["cascade, error rate 0.1"]
    assert 0 < middle["usd_gpt4"] < table["gpt-4 alone"]["usd_gpt4"]
    assert middle["share_to_people"] < middle["share_to_gpt4"]
    assert middle["usable_agreement"] > table["gpt-4 alone"]["usable_agreement"]
    assert middle["usable_agreement"] >= table["cascade, error rate 0.1, without people"]["usable_agreement"]


@pytest.mark.usefixtures("quick")
def test_a_judge_of_one_folder_judges_another(material: Material, tmp_path: Path) -> None:
    other = planted(1, questions=20)
    table = judges_table(Elsewhere(material, other, tmp_path))
    assert list(table) == ["unseen questions"]
    row = table["unseen questions"]["the calibrated teacher's scores, and 200 of people's scores that outrank them"]
    assert row["judge"]["cohen_kappa"]["value"] > 0.5


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", TRIALS)
def test_every_trial_judges_every_answer(material: Material, tmp_path: Path, name: str) -> None:
    found = _folded(Cells(material, tmp_path), TRIALS[name], 200, 0)
    assert np.allclose(found.sum(axis=1), 1)
    assert ((found[:, 3:].sum(axis=1) >= 0.5) == material.usable).mean() > 0.65


def test_pairs_are_of_one_question_and_in_the_order_of_their_labels(material: Material) -> None:
    rows = np.arange(200)
    pairs = pairs_of(material, lines_for(material, "both", rows, rows), 0)
    assert len(pairs.better) > 100
    assert (material.conversation[pairs.better] == material.conversation[pairs.worse]).all()
    assert (material.people[pairs.better] > material.people[pairs.worse]).all()


def test_what_people_say_last_counts_more_than_beside_the_teacher(
    material: Material, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("real_trials.RIDGE", 1.0)
    wrong = material._replace(expected=6.0 - material.people)
    rows, held = np.arange(320), material.only(np.arange(320, 480))
    scored = drawn(rows, 60, 0)
    lines = lines_for(wrong, "teacher", rows, scored)
    lines.labels[scored] = one_hot(material.people[scored])

    def agreement(found: np.ndarray) -> float:
        return float(((found[:, 3:].sum(axis=1) >= 0.5) == held.usable).mean())

    last = agreement(people_last(wrong, lines, scored, held, 0))
    assert last > 0.7
    assert last > agreement(plain(wrong, lines, scored, held, 0)) + 0.2
