"""Runs to be scored on pages."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scoring_pages import MODEL, planned_run

from medjudge.scheme import LLMEVAL_MED
from medjudge.store import Run


@pytest.fixture
def knowledge(tmp_path: Path, question: Callable[..., Any], answer: Callable[..., Any]) -> Run:
    """Twelve short answers."""
    questions = [
        question(id=f"q{n}", category=LLMEVAL_MED.category_ids[n % 4], prompt=f"Question {n}?") for n in range(12)
    ]
    answers = [answer(question_id=f"q{n}", model=MODEL, text=f"Reply {n}.") for n in range(12)]
    return planned_run(tmp_path / "run", questions, answers, ("dr-a", "dr-b"))


@pytest.fixture
def letters(tmp_path: Path, question: Callable[..., Any], answer: Callable[..., Any]) -> Run:
    """Two generated texts."""
    questions = [question(id=f"q{n}", category="MTG", prompt=f"Write letter {n}.") for n in range(2)]
    return planned_run(tmp_path / "letters", questions, [answer(question_id=f"q{n}", model=MODEL) for n in range(2)])
