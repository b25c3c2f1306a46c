"""What the tests of the client share: a key, and the account of a run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from medjudge.store import Run


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of no value")


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Run]:
    """A locked run, with `prices.yaml` beside it."""
    (tmp_path / "prices.yaml").write_text("m: {input: 1.0, output: 10.0, date: 2025-01-01, source: a test}")
    run = Run(tmp_path / "run")
    with run.lock():
        yield run
