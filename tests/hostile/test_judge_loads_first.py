import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from calls import change_json

from medjudge.judge.open import similarity_folder


def test_a_judge_that_cannot_be_loaded_leaves_no_run_folder_behind(tmp_path: Path, medjudge: Callable) -> None:
    broken = tmp_path / "judges" / "broken"
    shutil.copytree(similarity_folder(), broken)
    change_json(broken / "judge.json", base_model=str(tmp_path / "nowhere"), base_source=None)
    failed = medjudge("eval", "--judge", "judges/broken", "--run", "runs/new", "--limit", 1)
    assert failed.returncode == 2
    assert "nowhere: no such folder" in failed.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["answer", "eval"])
def test_a_model_that_cannot_be_loaded_leaves_no_run_folder_behind(
    command: str, tmp_path: Path, tiny_lm: Path, medjudge: Callable
) -> None:
    shutil.copytree(tiny_lm, tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"")
    judge = ["--judge", "similarity"] if command == "eval" else []
    for models in (["broken"], [str(tiny_lm), "broken"]):
        named = [part for model in models for part in ("--model", model)]
        failed = medjudge(command, *named, *judge, "--run", "runs/new", "--limit", 1, "--device", "cpu")
        assert failed.returncode == 2
        assert "model broken: its files are missing or corrupt" in failed.stderr
        assert not (tmp_path / "runs").exists()
