"""A hospital's first study on the paths of its three users: the engineer, two physicians, and the head of department.

The tests of the scoring page and of the report try both in a browser.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from calls import worked
from forms import fill_in
from openpyxl import load_workbook

from medjudge.benchmark.sample import sample_folder
from medjudge.store import Run

GOOD, POOR = "model-甲", "model-乙"
RATERS = ("王医生", "李医生")
EACH = 12
"""Answers that each physician scores."""


@pytest.mark.slow
def test_a_hospitals_first_study(tmp_path: Path, tiny_similarity: Path, medjudge: Callable) -> None:
    run = Run(tmp_path / "runs" / "ward")

    # ---- The engineer gets from questions to rates
    worked(medjudge("data", "template", "sample", "--format", "xlsx", "--out", "answers.xlsx"))
    asked = [one for one in Run(sample_folder()).questions() if one.language == "zh" and one.round == 1]
    workbook = load_workbook(tmp_path / "answers.xlsx")
    row_of = {row[0].value: row for row in workbook.active.iter_rows(min_row=2)}
    for question in asked:
        _, _, model, text = row_of[question.id]
        model.value, text.value = GOOD, question.reference
        workbook.active.append([question.id, None, POOR, "多喝水。"])
    workbook.save(tmp_path / "answers.xlsx")
    own = ("eval", "--benchmark", "sample", "--judge", tiny_similarity, "--run", run.path, "--answered-only")
    judged = worked(medjudge(*own, "--answers", "answers.xlsx"))
    assert f"{len(asked)} questions, {len(asked)} of them with an answer; the judge can read" in judged.stderr
    assert f"{2 * len(asked)} answers judged, 0 unscored" in judged.stdout
    assert "never validated against physicians" in judged.stdout
    rates = json.loads((run.path / "scores.json").read_text(encoding="utf-8"))["models"]
    assert rates[GOOD]["OP"]["rate"] > rates[POOR]["OP"]["rate"]

    # ---- The physicians score in Chinese
    raters = ("--rater", RATERS[0], "--rater", RATERS[1])
    worked(medjudge("annotate", "export", run.path, *raters, "--each", EACH, "--out", "forms"))
    forms = [tmp_path / "forms" / f"{rater}.xlsx" for rater in RATERS]
    for form in forms:
        fill_in(form, run.path, lambda _, model: 4 if model == GOOD else 2)
    worked(medjudge("annotate", "import", run.path, *forms))
    scores = run.physician_scores()
    assert len(scores) == 2 * EACH
    assert {score.rater for score in scores} == set(RATERS)
    validated = worked(medjudge("validate", run.path, "--judge", tiny_similarity))
    assert "GATE INCONCLUSIVE" in validated.stdout  # twelve answers can neither pass it nor fail it

    # ---- The head of department reads the report
    worked(medjudge("report", run.path, "--lang", "zh", "--html", "report.html"))
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '<html lang="zh' in page
    assert {GOOD, POOR} <= set(re.findall("model-[甲乙]", page))
