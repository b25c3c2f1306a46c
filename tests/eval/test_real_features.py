"""What the study's judges see of an answer, with the published encoder; and the study on folders it never saw."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import real_distillation
from real_calibration import TEACHER
from real_cascade import Costs
from real_cells import Cells
from real_config import split, trained_by
from real_features import MOST_TOKENS, UNTRAINED, features_of
from real_material import Material, gated, material_of
from real_wording import wording
from study import Study
from tiny_models import build_tiny_encoder

from medjudge.benchmark.llmeval2 import scheme_of
from medjudge.chat_api.prices import Price
from medjudge.records import Answer, Judgment, PhysicianScore, Question
from medjudge.store import Run, write_records

CAPITALS = {"法国": "巴黎", "日本": "东京", "埃及": "开罗", "德国": "柏林", "秘鲁": "利马"}


def folder_of(path: Path, questions: int = 5, models: int = 4) -> Run:
    """Questions with a right, a wrong and an evading answer; GPT-4 is a level too lenient."""
    run = Run(path)
    path.mkdir(parents=True)
    asked, answers, scores, judgments = [], [], [], []
    names = list(CAPITALS)
    for number in range(questions):
        land, other = names[number % 5], names[(number + 1) % 5]
        fields = {"id": f"q{number}", "group": f"q{number}", "category": "Law", "subcategory": "", "scene": ""}
        prompt, reference = f"{land}的首都是哪里？（第{number}问）", f"{land}的首都是{CAPITALS[land]}。"
        asked.append(Question(**fields, prompt=prompt, reference=reference, language="zh"))
        texts = [f"答案是{CAPITALS[land]}。", f"答案是{CAPITALS[other]}，这是一座大城市。", "抱歉，我无法回答。", ""]
        for at in range(models):
            key = {"question_id": f"q{number}", "model": f"m{at}", "sample": 0}
            text = texts[(at + number) % 4]
            answers.append(Answer(**key, text=text, finish_reason=None if text else "length"))
            level = (5, 2, 1, 1)[(at + number) % 4]
            scores.append(PhysicianScore(**key, rater="person", score=level))
            judgments.append(Judgment(**key, judge=TEACHER, score=min(5, level + 1), expected=min(5, level + 1)))
    run.write_questions(asked, scheme_of(["Law"]))
    write_records(run.answers_file, answers)
    write_records(run.physicians_file, scores)
    write_records(run.judgments_file(TEACHER), judgments)
    return run


def test_wording_sees_numbers_options_and_sides() -> None:
    right = wording("2+3等于几？", "5", "等于5。")
    assert (right["numbers met"], right["new numbers met"], right["verbatim"]) == (1, 1, 1)
    assert wording("2+3等于几？", "5", "等于6。")["numbers met"] == 0
    chosen = wording("选哪个？A 一 B 二 C 三", "B", "答案是B")
    assert (chosen["options met"], chosen["options beyond"], chosen["first option"]) == (1, 0, 1)
    assert wording("选哪个？A 一 B 二 C 三", "B", "A或C")["options beyond"] == 2
    assert wording("对吗？", "对", "不对，因为")["same side"] == -1
    assert wording("对吗？", "否", "不是的")["same side"] == 1
    assert wording("为什么？", None, "抱歉")["no reference"] == 1


def test_a_right_answer_is_nearer_to_the_reference_and_nothing_is_read_twice(tmp_path: Path) -> None:
    run = folder_of(tmp_path / "run")
    answers = run.answers()
    answers[0] = answers[0].model_copy(update={"text": "长" * (4 * MOST_TOKENS)})
    write_records(run.answers_file, answers)
    features = features_of(run, tmp_path, tmp_path / "axes.npz")
    # Without the five empty answers. Of the long one the beginning is read.
    assert len(features.keys) == 15
    assert features.values.shape == (15, len(features.names))
    assert np.isfinite(features.values).all()
    assert gated(features).shape[1] > features.values.shape[1]
    near = dict(zip(features.keys, features.column(UNTRAINED), strict=True))
    kind = {key: (int(key.model[1]) + int(key.question_id[1:])) % 4 for key in near}
    means = [np.mean([value for key, value in near.items() if kind[key] == each]) for each in (0, 1, 2)]
    assert means[0] > means[2]
    assert (features.tokens > 5).all()
    shutil.rmtree(tmp_path / "states")
    again = features_of(run, tmp_path, tmp_path / "axes.npz")
    assert (again.values == features.values).all()
    material = material_of(run.path, tmp_path, tmp_path / "axes.npz")
    assert material.people.max() == 5
    assert (material.expected >= material.people).all()


def test_the_split_for_a_config_keeps_questions_apart(tmp_path: Path) -> None:
    learn, held_out = split(folder_of(tmp_path / "run"), tmp_path / "parts", people=10)
    ids = [{question.id for question in part.questions()} for part in (learn, held_out)]
    assert not ids[0] & ids[1]
    assert len(ids[0] | ids[1]) == 5
    assert len(learn.physician_scores()) == 10
    assert len(held_out.physician_scores()) == len(held_out.answers())
    assert len(learn.judgments(TEACHER)) == len(learn.answers())


@pytest.mark.slow
def test_a_tiny_judge_of_a_config_is_trained_and_compared_with_the_teacher(tmp_path: Path) -> None:
    run = folder_of(tmp_path / "work" / "run", questions=40)
    base = build_tiny_encoder(tmp_path / "base")
    config = tmp_path / "tiny.yaml"
    config.write_text(
        f"kind: ordinal\ntrain_file: a\nvalidation_file: b\noutput_dir: c\nmodel_name_or_path: {base}\n"
        "lora_r: 4\nmax_length: 64\nmax_steps: 3\nper_device_train_batch_size: 8\nlearning_rate: 1.0e-3\nseed: 0\n"
    )
    found = trained_by(Study(tmp_path / "work"), run.path, config)
    assert found["overall"]["n"]["value"] > 20
    assert found["teacher"]["teacher"] == TEACHER
    assert (tmp_path / "work" / "config-tiny" / "tiny" / "judge.json").exists()


@pytest.mark.slow
def test_the_tables_of_a_folder_that_the_study_never_saw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("real_cells", "real_few", "real_cascade"):
        monkeypatch.setattr(f"{module}.SEEDS", (0,))
    monkeypatch.setattr("real_few.FEW", (50,))
    monkeypatch.setattr("real_cells.RECIPES", {"questions": [("teacher", 0), ("both", 50), ("both", 3200)]})
    study = Study(tmp_path / "work")
    home = material_of(folder_of(tmp_path / "home", questions=30).path, tmp_path / "work", tmp_path / "work/axes.npz")
    other = folder_of(tmp_path / "other", questions=12)
    costs = Costs(Price(input=1.0, output=1.0, date="2026-01-01", source="a test"))
    tables = real_distillation.unseen(study, Cells(home, tmp_path / "work"), other.path, costs)
    assert set(tables) == {"teacher", "calibration", "judges", "few scores", "cascade"}
    rows = tables["judges"]["unseen questions"]
    assert rows["the teacher's scores"]["judge"]["cohen_kappa"]["value"] > 0.5
    assert json.loads(json.dumps(tables)) == tables


def test_material_of_another_order_is_the_same(tmp_path: Path) -> None:
    first = material_of(folder_of(tmp_path / "run").path, tmp_path, tmp_path / "axes.npz")
    assert isinstance(first, Material)
    some = first.only(np.array([3, 1]))
    assert some.keys == [first.keys[3], first.keys[1]]
    assert (some.values == first.values[[3, 1]]).all()
