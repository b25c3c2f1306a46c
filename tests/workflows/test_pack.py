"""A bundle: what goes in, and that a machine without a network gets the same scores from it."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from calls import refused_with as refused
from calls import worked

from medjudge import __file__ as package_file
from medjudge.judge.open import QUICKSTART_MARK

PACKAGE = Path(package_file).parent


def without_the_base_model(folder: Path) -> Path:
    """A virtual environment with this Python's packages, except the one with the built-in judge's base model."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        # An editable install is a .pth file; the metadata in dist-info, which names the version, stays.
        if not package.name.startswith("gemma3_270m") and package.name != "medjudge" and package.suffix != ".pth":
            (site / package.name).symlink_to(package)
    (site / "medjudge").symlink_to(PACKAGE)
    return folder / "bin" / "python"


def judgments(run: Path) -> list[str]:
    return sorted((run / "judgments" / "built-in.jsonl").read_text().splitlines())


@pytest.mark.slow
def test_a_bundle_judges_without_a_network_as_with_one(medjudge, tmp_path: Path) -> None:
    """In a network namespace without interfaces, from the bundle alone: bit for bit the same scores."""
    probe = ["unshare", "--net", "true"]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("this kernel or user may not make a network namespace")
    worked(medjudge("pack", "--judge", "built-in", "--benchmark", "sample", "--out", "bundle.tar", "--json"))
    unpacked = worked(medjudge("unpack", "bundle.tar", "--out", "kit", "--json"))
    printed = json.loads(unpacked.stdout)
    assert printed["about"]["answers"] == 280
    assert (tmp_path / "kit" / "judges" / "built-in" / "base" / "model.safetensors").is_file()
    assert medjudge("eval", "--judge", "built-in", "--limit", "8", "--run", "online").returncode in (0, 1)
    (command,) = printed["commands"]
    words = [*command.split()[1:], "--limit", "8", "--run", "offline"]
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "HF_HUB_OFFLINE")}
    done = subprocess.run(
        ["unshare", "--net", without_the_base_model(tmp_path / "venv"), "-m", "medjudge.cli", *words],
        cwd=tmp_path,
        env={**environment, "HF_HOME": str(tmp_path / "empty")},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode in (0, 1), done.stderr[-3000:]
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    assert len(judgments(tmp_path / "online")) == 40
    assert judgments(tmp_path / "offline") == judgments(tmp_path / "online")


def test_servers_links_and_pickles_are_refused_and_other_files_left_out(medjudge, tmp_path: Path) -> None:
    judge = tmp_path / "mine"
    shutil.copytree(PACKAGE / "data" / "similarity", judge)
    (judge / "train.log").write_text("step 1")
    (judge / QUICKSTART_MARK).touch()
    packed = worked(medjudge("pack", "--judge", judge, "--benchmark", "sample", "--out", "b.tar", "--json"))
    assert json.loads(packed.stdout)["left_out"] == ["train.log"]
    assert medjudge("unpack", "b.tar", "--out", "kit").returncode == 0
    assert (tmp_path / "kit" / "judges" / "mine" / QUICKSTART_MARK).is_file()  # the quickstart's judge is known as such
    for name, reason in (
        ("training_args.bin", "training_args.bin may be in pickle format"),
        ("notes.md", "notes.md: a link"),
    ):
        (judge / name).symlink_to("/etc/passwd")
        refused(medjudge("pack", "--judge", judge, "--benchmark", "sample", "--out", "c.tar"), reason)
        (judge / name).unlink()
    refused(
        medjudge("pack", "--judge", "openai:gpt", "--benchmark", "sample", "--out", "c.tar"), "needs a judge folder"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar", "kit", "mine"]
