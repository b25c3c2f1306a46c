"""A hospital's first study on the paths of its three users: the engineer, two physicians, and the head of department.

The questions are LLMEval-Med's; the 30 answers to 15 of them, by two models, are in chinese_answers.jsonl and were
written for this test. The tests of the scoring page and of the report try both in a browser.
"""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from calls import refused, worked
from forms import fill_in
from openpyxl import load_workbook

from medjudge.store import Run

GOOD, POOR = "model-甲", "model-乙"
RATERS = ("王医生", "李医生")
EACH = 12
"""Answers that each physician scores."""

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.slow
def test_a_hospitals_first_study(real_data: Path, tmp_path: Path, medjudge: Command) -> None:
    benchmark = real_data / "llmeval-med" / "dataset.json"
    if not benchmark.exists():
        pytest.skip("MEDJUDGE_REAL_DATA has no llmeval-med/dataset.json")
    run = Run(tmp_path / "runs" / "ward")
    the_engineer_gets_from_questions_to_rates(benchmark, run, tmp_path, medjudge)
    the_physicians_score_in_chinese(run, tmp_path, medjudge)
    worked(medjudge("report", run.path, "--lang", "zh", "--html", "report.html"))
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '<html lang="zh' in page
    assert {GOOD, POOR} <= set(re.findall("model-[甲乙]", page))


def the_engineer_gets_from_questions_to_rates(benchmark: Path, run: Run, folder: Path, medjudge: Command) -> None:
    checked = worked(medjudge("data", "check", benchmark))
    assert "questions: 667" in checked.stdout
    assert "example ids: MK-" in checked.stdout
    assert checked.stdout.count("\n") < 40  # 907 oddities, in groups

    assert medjudge("data", "template", benchmark, "--format", "xlsx", "--out", "template.xlsx").returncode == 0
    written = (Path(__file__).parent / "chinese_answers.jsonl").read_text(encoding="utf-8")
    answers = [json.loads(line) for line in written.splitlines()]
    fill_in_answers(folder / "template.xlsx", answers, folder / "answers.xlsx")
    stray = {"question_id": "MK-9999-1", "model": POOR, "text": "多喝水。"}
    fill_in_answers(folder / "template.xlsx", [*answers, stray], folder / "stray.xlsx")

    own = ("eval", "--benchmark", benchmark, "--judge", "similarity", "--run", run.path, "--answered-only")
    refused(medjudge(*own, "--answers", "template.xlsx"), "no answer in it", "medjudge data template")
    refused(medjudge(*own, "--answers", "stray.xlsx"), "'MK-9999-1'", "medjudge data template")
    assert not run.path.exists()

    judged = worked(medjudge(*own, "--answers", "answers.xlsx"))
    assert "15 questions, 15 of them with an answer; the judge can read 15 of these" in judged.stderr
    assert "30 answers judged, 0 unscored" in judged.stdout
    assert "never validated against physicians" in judged.stdout
    rates = json.loads((run.path / "scores.json").read_text(encoding="utf-8"))["models"]
    best, worst = (judged.stdout.index(f"{rates[name]['OP']['rate']:.2f} ") for name in (GOOD, POOR))
    assert best < worst


def fill_in_answers(template: Path, answers: list[Any], filled: Path) -> None:
    """Fills in the template as in a spreadsheet program; the second answer to a question is a row at the end."""
    workbook = load_workbook(template)
    sheet = workbook.active
    row_of = {row[0].value: row for row in sheet.iter_rows(min_row=2)}
    for answer in answers:
        row = row_of.pop(answer["question_id"], None)
        if row is None:
            sheet.append([answer["question_id"], None, answer["model"], answer["text"]])
        else:
            row[2].value, row[3].value = answer["model"], answer["text"]
    workbook.save(filled)


def the_physicians_score_in_chinese(run: Run, folder: Path, medjudge: Command) -> None:
    raters = ("--rater", RATERS[0], "--rater", RATERS[1])
    assert medjudge("annotate", "export", run.path, *raters, "--each", EACH, "--out", "forms").returncode == 0
    forms = [folder / "forms" / f"{rater}.xlsx" for rater in RATERS]
    fill_in(forms[0], run.path, lambda _, model: 7 if model == GOOD else 2)
    wrong = medjudge("annotate", "import", run.path, forms[0])
    assert wrong.returncode == 2
    assert re.search("score in F[0-9]+ is 7", wrong.stderr)
    assert not run.physicians_file.exists()
    for form in forms:
        fill_in(form, run.path, lambda _, model: 4 if model == GOOD else 2)
    assert medjudge("annotate", "import", run.path, *forms).returncode == 0
    scores = run.physician_scores()
    assert len(scores) == 2 * EACH
    assert {score.rater for score in scores} == set(RATERS)

    validated = worked(medjudge("validate", run.path, "--judge", "similarity"))
    assert "GATE INCONCLUSIVE" in validated.stdout  # twelve answers can neither pass it nor fail it
    assert run.agreement_file("similarity").exists()
