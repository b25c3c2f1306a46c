import json
import shutil
from pathlib import Path

import pytest

from medjudge.benchmark.sample import sample_folder
from medjudge.errors import InputError
from medjudge.judge.study_summary import AgainstKind, CheckKind, CheckState
from medjudge.records import Judgment
from medjudge.store import Run, write_records
from medjudge.validation.records import Study, read_study
from medjudge.validation.study import Settings
from medjudge.workflows.validate import ValidateOptions, validate

FEW = Settings(resamples=100)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """The sample with imported judgments: `contrary` turns the scale over, the other judges give the levels."""
    run = Run(tmp_path / "run")
    shutil.copytree(sample_folder(), run.path)
    for name in ("exact", "contrary", "physicians"):
        levels = {score.answer_key: score.level for score in run.physician_scores()}
        scores = {key: 6 - level if name == "contrary" else level for key, level in levels.items()}
        judged = [Judgment(**key._asdict(), judge=name, score=score) for key, score in scores.items()]
        write_records(run.judgments_file(name), judged)
    return run


def test_a_study_is_returned_typed_and_written_as_json(run: Run, tmp_path: Path) -> None:
    scores = tmp_path / "scores.jsonl"
    write_records(scores, [score.model_copy(update={"rater": "dr-a"}) for score in run.physician_scores()])
    study = validate(run.path, "contrary", physicians=scores, options=ValidateOptions(settings=FEW))
    assert isinstance(study, Study)
    assert (study.n, study.coverage, study.against_kind) == (280, 1.0, AgainstKind.PHYSICIANS)
    assert (study.overall["usable_agreement"]["value"] or 0) < 0.5
    failed = [(check.kind, check.part) for check in study.gate.in_state(CheckState.FAILED)]
    assert (CheckKind.USABLE_AGREEMENT, "MTG") in failed
    assert read_study(run, "contrary") == study
    written = json.loads(run.agreement_file("contrary").read_text(encoding="utf-8"))
    assert written["schema_version"] == 1
    assert written["gate"]["passed"] is False
    assert repr(study).startswith("Study(contrary against physicians, 280 answers in ")
    assert "gate failed; usable agreement 0." in repr(study)


@pytest.mark.parametrize(
    ("against", "options", "problem"),
    [
        ("nobody", ValidateOptions(), "--against nobody: no such judge"),
        ("contrary", ValidateOptions(), "--against contrary: the judge itself"),
        ("physicians", ValidateOptions(), "--against physicians: a judge of this name would be taken for physicians"),
        ("exact", ValidateOptions(label_map="good=5"), "--against compares with a judge; leave out"),
        (None, ValidateOptions(teacher="nobody"), "--teacher nobody: no such judge"),
        (None, ValidateOptions(probe_answers=5), "--probes: contrary is known by its judgments only"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_judged(
    run: Run, against: str | None, options: ValidateOptions, problem: str
) -> None:
    with pytest.raises(InputError) as error:
        validate(run, "contrary", against=against, options=options)
    assert str(error.value).startswith(problem)
    assert not run.agreement_file("contrary").exists()
