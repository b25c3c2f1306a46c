"""Runs to be scored on pages, and a browser for them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from browsing import served, watched
from scoring_run import TOKEN, answer, build_run, planned, question, run_of

from medjudge.annotate.access import Access
from medjudge.annotate.serve import annotation_app
from medjudge.annotate.tasks import LEVELS, Task
from medjudge.scheme import LLMEVAL_MED
from medjudge.store import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return build_run(tmp_path / "run")


@pytest.fixture
def knowledge(tmp_path: Path) -> Run:
    """Twelve short answers, which dr-a and dr-b are to score."""
    questions = [question(f"q{n}", LLMEVAL_MED.category_ids[n % 4], prompt=f"Question {n}?") for n in range(12)]
    run = run_of(tmp_path / "run", questions, [answer(f"q{n}", text=f"Reply {n}.") for n in range(12)])
    planned(run, seed=3)
    return run


@pytest.fixture
def letters(tmp_path: Path) -> Run:
    """Two generated texts."""
    run = run_of(
        tmp_path / "letters", [question(f"q{n}", "MTG") for n in range(2)], [answer(f"q{n}") for n in range(2)]
    )
    planned(run, raters=["dr-a"], overlap=1, seed=3)
    return run


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens dr-a's page of a run, which is served on loopback, or a link; see `watched` for what fails the test."""
    with ExitStack() as tabs:

        def opened(link: Run | str, task: Task = LEVELS, **options: Any) -> Any:
            if isinstance(link, Run):
                app = annotation_app(link, task.read_plan(link), Access({TOKEN: "dr-a"}), task)
                link = f"{tabs.enter_context(served(app))}/?token={TOKEN}"
            page = tabs.enter_context(watched(browser, **options))
            page.goto(link)
            page.wait_for_selector("h1")
            page.wait_for_load_state()  # the heading is there before the style sheet
            assert "token" not in page.url
            return page

        yield opened
