"""`medjudge report --format` as a user calls it."""

import io
import json
from pathlib import Path

import pandas as pd
import pytest
from calls import refused, worked

from medjudge.records import Judgment
from medjudge.store import Run, write_records


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
    done = worked(medjudge("report", judged.path, "--format", "latex"))
    assert done.stdout.count("\\begin{table}") == done.stdout.count("\\end{table}") == 6
    assert "药物" in done.stdout
    again = medjudge("report", judged.path, "--format", "latex", "--out", "tables/t.tex")
    assert again.stdout == "tables/t.tex\n"
    assert (tmp_path / "tables" / "t.tex").read_text(encoding="utf-8") == done.stdout
    table = medjudge("report", judged.path, "--format", "markdown", "--table", "leaderboard").stdout
    assert table.count("| --- |") == 1
    assert "No physician wrote or checked the sample." in table
    assert not (judged.path / "report.html").exists()
    agreement = medjudge("report", judged.path, "--format", "csv", "--table", "agreement")
    refused(agreement, "medjudge validate", "--judge mine")


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


def test_csv_holds_the_numbers_of_scores_json(medjudge, judged) -> None:
    done = medjudge("report", judged.path, "--format", "csv", "--judge", "mine")
    assert done.stderr == "No physician wrote or checked the sample.\n"
    table = pd.read_csv(io.StringIO(done.stdout), keep_default_na=False).set_index(["model", "part", "subcategory"])
    drugs = json.loads((judged.path / "scores.json").read_text())["models"]["model-a"]["subcategories"]["MK"]["药物"]
    assert table.loc[("model-a", "MK", "药物"), ["rate", "low", "high"]].tolist() == [drugs["rate"], "", ""]
    assert drugs["low"] is drugs["high"] is None  # too few conversations
