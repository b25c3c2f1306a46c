"""`medjudge report --format` as a user calls it."""

import io
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from calls import refused

from medjudge.files import write_json
from medjudge.records import Judgment
from medjudge.store import Run, write_records
from medjudge.validation.study import Settings, agreement_study


@pytest.fixture
def judged(sample_run: Path) -> Run:
    """The sample with judgments that equal the constructed levels."""
    run = Run(sample_run)
    judgments = [
        Judgment(**score.answer_key._asdict(), judge="mine", score=score.level) for score in run.physician_scores()
    ]
    write_records(run.judgments_file("mine"), judgments)
    run.update_manifest(notes=["No physician wrote or checked the sample."])
    return run


def test_tables_go_to_stdout_or_a_file_and_no_page_is_written(medjudge, judged, tmp_path) -> None:
    done = medjudge("report", judged.path, "--format", "latex")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\\begin{table}") == done.stdout.count("\\end{table}") == 6
    assert "药物" in done.stdout
    again = medjudge("report", judged.path, "--format", "latex", "--out", "tables/t.tex")
    assert again.stdout == "tables/t.tex\n"
    assert (tmp_path / "tables" / "t.tex").read_text(encoding="utf-8") == done.stdout
    table = medjudge("report", judged.path, "--format", "markdown", "--table", "leaderboard").stdout
    assert table.count("| --- |") == 1
    assert "No physician wrote or checked the sample." in table
    assert not (judged.path / "report.html").exists()


def test_csv_holds_the_numbers_of_scores_json(medjudge, judged) -> None:
    done = medjudge("report", judged.path, "--format", "csv", "--judge", "mine")
    assert done.stderr == "No physician wrote or checked the sample.\n"
    table = pd.read_csv(io.StringIO(done.stdout), keep_default_na=False).set_index(["model", "part", "subcategory"])
    drugs = json.loads((judged.path / "scores.json").read_text())["models"]["model-a"]["subcategories"]["MK"]["药物"]
    assert table.loc[("model-a", "MK", "药物"), ["rate", "low", "high"]].tolist() == [drugs["rate"], "", ""]
    assert drugs["low"] is drugs["high"] is None  # too few conversations


@pytest.mark.slow
def test_agreement_is_there_after_a_validation(medjudge, judged) -> None:
    wanted = ("report", judged.path, "--format", "csv", "--table", "agreement")
    refused(medjudge(*wanted), "medjudge validate", "--judge mine")
    records = judged.questions(), judged.judgments("mine"), judged.physician_scores()
    study = agreement_study("mine", *records, settings=Settings(resamples=50))
    write_json(judged.agreement_file("mine"), study.model_dump(mode="json"))
    table = pd.read_csv(io.StringIO(medjudge(*wanted).stdout))
    assert set(table[table["measure"] == "cohen_kappa"]["value"]) == {1.0}
    assert set(table["against"]) == {"constructed levels"}
    assert "Agreement with constructed levels" in medjudge("report", judged.path, "--format", "latex").stdout


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--out", "x.csv"], ["--format"]),
        (["--table", "agreement"], ["--format"]),
        (["--format", "csv", "--json"], ["--json"]),
        (["--format", "latex", "--html", "x.html"], ["--html"]),
        (["--html", "."], ["--html .: is a folder"]),
        (["--format", "csv", "--out", "."], ["--out .: is a folder"]),
        (["--format", "docx"], ["docx", "markdown"]),
        (["--format", "csv", "--table", "agreement", "--table", "leaderboard"], ["agreement alone"]),
    ],
)
def test_options_that_do_not_go_together_are_one_line(medjudge, judged, options, parts, tmp_path) -> None:
    refused(medjudge("report", judged.path, *options), *parts)
    assert not (tmp_path / "x.csv").exists()
    assert not [*tmp_path.glob("*.part"), *tmp_path.parent.glob("*.part")]


def test_three_runs_of_one_folder_name_and_model_all_stand_on_the_leaderboard(medjudge, judged, tmp_path) -> None:
    runs = [tmp_path / place / judged.path.name for place in "bc"]
    for run in runs:
        shutil.copytree(judged.path, run)
    all_runs = [judged.path, *runs]
    (board,) = json.loads(medjudge("report", *all_runs, "--html", "page.html", "--json").stdout)["leaderboards"]
    models = json.loads((judged.path / "scores.json").read_text())["models"]
    # Each run is named by the end of its path that no other run has.
    names = {f"{run.parent.name}/{run.name}" for run in all_runs}
    assert len(names) == 3
    assert set(board["models"]) == {f"{name}/{model}" for name in names for model in models}
    table = medjudge("report", *all_runs, "--format", "markdown", "--table", "leaderboard").stdout
    assert table.count("/model-a |") == 3
