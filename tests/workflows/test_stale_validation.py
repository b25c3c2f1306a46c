"""A validation counts only for the judge, rubrics, scheme and answering models that it was made with."""

import json
import shutil
from pathlib import Path

import pytest
from tiny_judges import build_ordinal_judge

from medjudge.judge.folder import read_card
from medjudge.judge.open import JudgeOptions, resolve_judge
from medjudge.store import Run, write_records
from medjudge.validation.study import Settings
from medjudge.validation.validations import statuses_in
from medjudge.workflows.evaluate import EvaluateOptions, evaluate
from medjudge.workflows.judge import introduction
from medjudge.workflows.validate import ValidateOptions, validate

ON_CPU = JudgeOptions(device="cpu")


@pytest.fixture
def judge(tiny_encoder: Path, tmp_path: Path) -> Path:
    return build_ordinal_judge(tmp_path / "judge", tiny_encoder)


@pytest.fixture
def run(sample_run: Path) -> Run:
    """Ten questions of the sample with the answers of two models, all scored by a physician."""
    run = Run(sample_run)
    questions = run.questions()[:10]
    kept = {question.id for question in questions}
    models = sorted({answer.model for answer in run.answers()})[:2]
    answers = [answer for answer in run.answers() if answer.question_id in kept and answer.model in models]
    scores = [
        score.model_copy(update={"rater": "dr-a"})
        for score in run.physician_scores()
        if score.question_id in kept and score.model in models
    ]
    write_records(run.questions_file, questions)
    write_records(run.answers_file, answers)
    write_records(run.physicians_file, scores)
    return run


@pytest.mark.slow
def test_the_study_names_what_it_was_made_with_and_another_model_makes_it_stale(run: Run, judge: Path) -> None:
    options = ValidateOptions(settings=Settings(resamples=100), judging=ON_CPU)
    study = validate(run, str(judge), options=options)
    assert sum(study.models.values()) == study.n
    assert set(study.models) == {answer.model for answer in run.answers()}
    assert read_card(judge).validated_on[0].models == study.models
    assert statuses_in(run, "judge")["OP"].state.value != "stale"
    first = introduction(resolve_judge(str(judge)), ON_CPU, run.scheme(), run, study.models)
    assert "stale" not in first

    # The same judge on answers of a model that no physician scored.
    known = sorted(study.models)[0]
    new = [answer.model_copy(update={"model": "newcomer"}) for answer in run.answers() if answer.model == known]
    other = Run(run.path.with_name("other"))
    other.path.mkdir()
    write_records(other.path / "new.jsonl", new)
    shutil.copy(run.questions_file, other.path / "q.jsonl")
    evaluation = evaluate(
        str(other.path / "q.jsonl"),
        answers=other.path / "new.jsonl",
        judge=str(judge),
        run=other.path / "run",
        options=EvaluateOptions(judging=ON_CPU),
    )
    assert evaluation.status_line.startswith(
        f"stale: not validated on answers of newcomer; run `medjudge validate {other.path / 'run'} --judge judge "
    )
    assert json.loads((other.path / "run" / "scores.json").read_text())["validation_status"]["OP"]["state"] == "stale"

    # Another judge under the name of the validated one.
    card = read_card(judge)
    card.model_copy(update={"temperature": 2.0}).write(judge)
    changed = introduction(resolve_judge(str(judge)), ON_CPU, run.scheme(), run, study.models)
    assert (
        f"stale: validated with other files of this judge; run `medjudge validate {run.path} --judge {judge}" in changed
    )
