"""A study of a run is stale where what it was made from was changed since."""

import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from calls import change_json

from medjudge.annotate.add_scores import add_records
from medjudge.annotate.draw import read_deferred
from medjudge.benchmark.sample import sample_folder
from medjudge.records import Judgment
from medjudge.store import Run, write_records
from medjudge.validation.records import FIGURES_CHANGED, JUDGMENTS_CHANGED, SCORES_CHANGED, read_study
from medjudge.validation.status import ValidationState
from medjudge.validation.study import Settings
from medjudge.validation.validations import statuses_in
from medjudge.workflows.report import write_report
from medjudge.workflows.validate import ValidateOptions, validate

FEW = ValidateOptions(settings=Settings(resamples=50))


@pytest.fixture(scope="module")
def validated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample as a physician scored it, judged by `exact` and validated."""
    run = Run(tmp_path_factory.mktemp("validated") / "run")
    shutil.copytree(sample_folder(), run.path)
    scores = [score.model_copy(update={"rater": "dr-a"}) for score in run.physician_scores()]
    write_records(run.physicians_file, scores)
    keys = [(score.answer_key, score.level) for score in scores]
    made = [Judgment(**key._asdict(), judge="exact", score=level) for key, level in keys]
    write_records(run.judgments_file("exact"), made)
    validate(run, "exact", options=FEW)
    write_report([run.path])
    return run.path


@pytest.fixture
def run(validated: Path, tmp_path: Path) -> Run:
    shutil.copytree(validated, tmp_path / "run")
    return Run(tmp_path / "run")


def replace_a_score(run: Run) -> None:
    first = run.physician_scores()[0]
    add_records(run, [first.model_copy(update={"score": 1 if first.score != 1 else 2, "dimensions": None})], True)


def delete_the_scores(run: Run) -> None:
    run.physicians_file.unlink()


def change_a_judgment(run: Run) -> None:
    first, *others = run.judgments("exact")
    write_records(run.judgments_file("exact"), [first.model_copy(update={"score": 6 - (first.score or 1)}), *others])


def change_a_reference(run: Run) -> None:
    first, *others = run.questions()
    run.write_questions([first.model_copy(update={"reference": "Another reference."}), *others], run.scheme())


def type_a_coverage(run: Run) -> None:
    change_json(run.agreement_file("exact"), coverage=0.9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (replace_a_score, SCORES_CHANGED),
        (delete_the_scores, SCORES_CHANGED),
        (change_a_judgment, JUDGMENTS_CHANGED),
        (change_a_reference, SCORES_CHANGED),
        (type_a_coverage, FIGURES_CHANGED),
    ],
)
def test_a_study_whose_material_was_changed_is_stale_and_its_figures_are_shown_nowhere(
    run: Run, change: Callable[[Run], None], reason: str
) -> None:
    before = write_report([run.path]).page.read_text()
    assert "Agreement of <bdi>exact</bdi>" in before
    change(run)
    assert read_study(run, "exact").changed == reason
    status = statuses_in(run, "exact")["OP"]
    assert status.state is ValidationState.STALE
    assert reason in status.line
    assert "kappa" not in status.line
    page = write_report([run.path]).page.read_text()
    assert reason in page
    assert "Agreement of <bdi>exact</bdi>" not in page


def test_what_is_added_later_leaves_a_study_as_it_is(run: Run) -> None:
    first = run.physician_scores()[0]
    add_records(run, [first.model_copy(update={"rater": "dr-b"})])
    made = run.judgments("exact")
    write_records(run.judgments_file("exact"), [*made, made[0].model_copy(update={"round": 2})])
    assert read_study(run, "exact").changed is None


@pytest.mark.slow
def test_a_study_of_scores_from_elsewhere_and_one_without_hashes_are_read(run: Run, tmp_path: Path) -> None:
    elsewhere = tmp_path / "scores.jsonl"
    shutil.move(run.physicians_file, elsewhere)
    study = validate(run, "exact", physicians=elsewhere, options=FEW)
    assert study.made_from.scores is None
    assert read_study(run, "exact").changed is None
    fields = json.loads(run.agreement_file("exact").read_text())
    del fields["made_from"]
    run.agreement_file("exact").write_text(json.dumps(fields))
    change_a_judgment(run)
    assert read_study(run, "exact").changed is None


@pytest.mark.slow
def test_what_earlier_versions_added_to_a_run_is_ignored(run: Run) -> None:
    """Alarms since another run, conformal sets, variances, and the stages of an escalation to an API judge."""
    before = statuses_in(run, "exact")
    summary = json.loads(run.agreement_file("exact").read_text())
    conformal = {"error_rate": 0.1, "usable_threshold": 0.4, "level_threshold": 0.6, "calibrated_on": 48}
    brier = {"value": 0.1, "low": 0.05, "high": 0.2}
    confidence = {"n": 280, "brier": brier, "ece": 0.1, "curve": [], "risk_coverage": [], "conformal": conformal}
    fields = {**summary, "since": {"since": "march", "alarm": True}, "confidence": confidence}
    figures = json.dumps({name: value for name, value in fields.items() if name != "made_from"}, sort_keys=True)
    fields["made_from"]["figures_sha256"] = sha256(figures.encode()).hexdigest()
    run.agreement_file("exact").write_text(json.dumps(fields))
    (run.path / "variance").mkdir()
    (run.path / "variance" / "exact.json").write_text('{"judge": 0.1}')
    (key, *_) = [answer.key for answer in run.answers()]
    run.deferred_file.write_text(json.dumps({**key._asdict(), "usable_probability": 0.5, "not_ruled_out": ["usable"]}))
    stages = {"error_rate": 0.1, "stages": [{"judge": "exact", "settled": 280}], "for_people": 0}
    entry = {"cascade": stages, "validated_on": [{**summary, "conformal": conformal}]}
    run.update_manifest(judges={"exact+gpt": entry})
    shutil.copy(run.judgments_file("exact"), run.judgments_file("exact+gpt"))
    assert read_study(run, "exact").changed is None
    assert statuses_in(run, "exact") == before
    assert len(run.judgments("exact+gpt")) == 280
    assert read_deferred(run) == [key]
    write_report([run.path], judge="exact+gpt")
