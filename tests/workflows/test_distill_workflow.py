import json
import re
import shutil
from pathlib import Path

import pytest
from calls import refused, worked

from medjudge.benchmark.llmeval2 import scheme_of
from medjudge.errors import InputError
from medjudge.records import Answer, PhysicianScore, Question
from medjudge.scheme import LLMEVAL_MED, open_scheme, read_scheme
from medjudge.store import Run, write_records, write_scheme
from medjudge.train.features import read_training_lines
from medjudge.workflows.distill import DistillOptions, distill_training_set


def test_a_training_set_is_written_with_its_scheme_and_returned(sample_run: Path, tmp_path: Path) -> None:
    distilled = distill_training_set([sample_run], tmp_path / "data", options=DistillOptions(validation_share=0.2))
    assert read_training_lines(distilled.train_file) == distilled.train
    assert read_training_lines(distilled.validation_file) == distilled.validation
    assert json.loads(distilled.summary_file.read_text(encoding="utf-8")) == distilled.summary
    assert read_scheme(tmp_path / "data" / "scheme.json") == LLMEVAL_MED
    sizes = f"{len(distilled.train)} answers to train on, {len(distilled.validation)} to validate on"
    assert repr(distilled) == f"{tmp_path / 'data'}: {sizes}"
    with pytest.raises(InputError, match=r"holds train\.jsonl already"):
        distill_training_set([sample_run], tmp_path / "data")


def test_a_scheme_is_chosen_for_a_run_that_keeps_none(medjudge, sample_run: Path, tmp_path: Path) -> None:
    file = sample_run / "questions.jsonl"
    consumer_questions = re.sub(r'"category": ?"\w+"', '"category":"CHQ"', file.read_text(encoding="utf-8"))
    file.write_text(consumer_questions.replace('"zh"', '"en"'), encoding="utf-8")
    refused(medjudge("distill", sample_run, "--out", "data"), "CHQ")
    shutil.copytree(sample_run, tmp_path / "run")
    worked(medjudge("distill", sample_run, "--out", "data", "--scheme", "consumer-health"))
    judged = medjudge("validate", "run", "--judge", "nobody", "--scheme", "consumer-health")
    assert "nobody" in judged.stderr  # the questions were read
    for folder in ("data", "run"):
        assert read_scheme(tmp_path / folder / "scheme.json") == open_scheme("consumer-health")
    for command in (("distill", "run", "--out", "again"), ("validate", "run", "--judge", "similarity")):
        refused(medjudge(*command, "--scheme", "llmeval-med"), "keeps a copy of another scheme")


def subject_run(folder: Path, subject: str, rubric: str | None = None) -> Path:
    """A run of a subject of LLMEval-2: ten questions that two models answered and a person scored."""
    run, scheme = Run(folder / f"run-{subject}"), scheme_of([subject])
    names = [f"{subject}_{number}" for number in range(10)]
    fields = {"category": subject, "reference": "选丙", "language": "zh"}
    keys = [{"question_id": name, "model": model} for name in names for model in ("甲", "乙")]
    run.write_questions(
        [Question(id=name, group=name, prompt=f"{name}？", **fields) for name in names],
        scheme if rubric is None else scheme.model_copy(update={"rubrics": {f"{subject}.zh": rubric}}),
    )
    write_records(run.answers_file, [Answer(**key, text=f"选丙，因为{' '.join(key.values())}") for key in keys])
    scores = [PhysicianScore(**key, rater="p", score=1 if key["model"] == "甲" else 5) for key in keys]
    write_records(run.physicians_file, scores)
    return run.path


def test_runs_of_different_subjects_become_one_set(tmp_path: Path) -> None:
    runs = [subject_run(tmp_path, "Optics"), subject_run(tmp_path, "Law")]
    distilled = distill_training_set(runs, tmp_path / "data", options=DistillOptions(validation_share=0.2))
    lines = [*distilled.train, *distilled.validation]
    assert {line.question.category for line in lines} == {"Optics", "Law"}
    assert len(lines) == 40
    scheme = read_scheme(tmp_path / "data" / "scheme.json")
    assert scheme == scheme_of(["Optics", "Law"])
    # Each line finds its own rubric.
    assert "光学" in scheme.rubrics["Optics.zh"]
    assert "法学" in scheme.rubrics["Law.zh"]


def test_runs_that_do_not_fit_together_are_refused(sample_run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write_scheme(other, open_scheme("consumer-health"))
    for name in ("questions.jsonl", "answers.jsonl"):
        (other / name).touch()
    rubrics = [subject_run(tmp_path / "a", "Optics"), subject_run(tmp_path / "b", "Optics", "另一个标准")]
    for runs, differs in (
        (
            [sample_run, other],
            r"its scheme \(consumer-health\) differs from that of .*sample \(llmeval-med\) in name, ",
        ),
        (rubrics, r"b/run-Optics: its scheme .* in rubrics"),
    ):
        with pytest.raises(InputError, match=f"{differs}.*; distil them one by one, or make the runs anew with one"):
            distill_training_set(runs, tmp_path / "data")
    assert not (tmp_path / "data").exists()
