"""Runs to report on."""

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medjudge.benchmark.sample import sample_folder
from medjudge.files import file_sha256, write_json
from medjudge.records import Judgment, PhysicianScore
from medjudge.report.page import report_page
from medjudge.scale import median_level
from medjudge.scheme import LLMEVAL_MED
from medjudge.statistics.estimates import Estimate
from medjudge.store import Run, write_records
from medjudge.validation.other_judges import LeaveOutStudy, leave_out_rows
from medjudge.validation.probe_effect import ProbeEffect, ProbeStudy
from medjudge.validation.study import Settings, agreement_study, with_parts


@pytest.fixture(scope="session")
def validated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample, judged by `mine` and `gpt`; three physicians scored half of it, and `mine` was validated."""
    run = Run(tmp_path_factory.mktemp("runs") / "validated")
    shutil.copytree(sample_folder(), run.path)
    questions, answers = run.questions(), run.answers()
    level = {score.answer_key: score.level for score in run.physician_scores()}
    draw = np.random.default_rng(0)

    def judged(judge: str, noise: float) -> list[Judgment]:
        judgments = []
        for answer in answers:
            weights = np.exp(-np.square(np.arange(1, 6) - level[answer.key] - draw.normal(0, noise)))
            shares = (weights / weights.sum()).round(6)
            said = {"score": median_level(shares), "probabilities": shares.tolist(), "rationale": "as I see it"}
            judgments.append(Judgment(**answer.key._asdict(), judge=judge, **said))
        return judgments

    mine, gpt = judged("mine", 1), judged("gpt", 0.5)
    scores = []
    for answer, rater in product(answers[: len(answers) // 2], ("Dr A", "Dr B", "Dr C")):
        score = int(np.clip(level[answer.key] + draw.integers(-1, 2), 1, 5))
        scores.append(PhysicianScore(**answer.key._asdict(), rater=rater, score=score))
    write_records(run.physicians_file, scores)
    for judgments in (mine, gpt):
        write_records(run.judgments_file(judgments[0].judge), judgments)
    study = agreement_study("mine", questions, mine, scores, teacher=gpt, settings=Settings(resamples=200))
    zero = Estimate(value=0.0, low=0.0, high=0.05)
    effect = ProbeEffect(n=40, conversations=35, unscored=0, shift=zero, flips=zero, to_usable=zero, to_unusable=zero)
    probes = ProbeStudy(answers=40, effects={"filler": effect}, not_applied=[])
    rows = leave_out_rows("category", questions, {"MK": gpt, "MLU": gpt}, mine, scores, resamples=200)
    rows = [row.model_copy(update={"removed": 9}) for row in rows]
    study = with_parts(study, LLMEVAL_MED.gate, probes, LeaveOutStudy(by="category", config="tiny.yaml", rows=rows))
    study = study.model_copy(update={"file": "physician_scores.jsonl"})
    write_json(run.agreement_file("mine"), study.model_dump(mode="json"))
    return run.path


@pytest.fixture
def run(validated: Path, tmp_path: Path) -> Run:
    """A copy that a test may change."""
    return Run(Path(shutil.copytree(validated, tmp_path / "copy")))


@pytest.fixture
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where matplotlib is not installed; and faster, where plots are not what is tested."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


_PAGES: dict[str, str] = {}
"""The pages made so far, by their language and the files of their runs: plots take a while to draw."""


def _page(runs: Sequence[Run], language: str) -> str:
    files = [(run.path.name, file) for run in runs for file in sorted(run.path.rglob("*")) if file.is_file()]
    parts = [language, *(f"{name} {file.name} {file_sha256(file)}" for name, file in files)]
    if (key := "\n".join(parts)) not in _PAGES:
        _PAGES[key] = report_page(runs, language)
    return _PAGES[key]


@pytest.fixture
def open_report(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Writes the report of some runs and opens it in Chromium at an address; see `watched` for what fails the test."""
    from browsing import watched

    with ExitStack() as tabs:

        def report(*runs: Run, address: str = "", language: str = "en", **options: Any) -> Any:
            (tmp_path / "report.html").write_text(_page(runs, language), encoding="utf-8")
            page = tabs.enter_context(watched(request.getfixturevalue("browser"), **options))
            page.goto((tmp_path / "report.html").as_uri() + address)
            if options.get("java_script_enabled", True):
                page.locator("html[data-ready]").wait_for(state="attached")
            return page

        yield report
