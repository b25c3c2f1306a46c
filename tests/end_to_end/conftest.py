from pathlib import Path

import pytest

from eval.robustness.kills import start_folder


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with answers, scores and judgments that the stations start from; it is copied."""
    return start_folder(tmp_path_factory.mktemp("start"))
