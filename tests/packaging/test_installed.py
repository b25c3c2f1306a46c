"""An installation by pip: recipes and configs are found in a wheel, an sdist and an editable install."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import calls
import pytest
from calls import worked

REPOSITORY = Path(__file__).parent.parent.parent
_LOOK = """
import json, medjudge
from medjudge.shipped import config_file, shipped
names = ("recipes/train_judge.py", "configs/eval/gate.yaml", "configs/accelerate/two-cpu.yaml")
files = [medjudge.__file__, str(config_file("minilm-ordinal")), *(str(shipped(name)) for name in names)]
print(json.dumps(files))
"""


def python(*arguments: str | Path, cwd: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    """Runs this Python with only `path` before its own packages."""
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1", "HF_HUB_OFFLINE": "1"}
    return calls.python(*arguments, cwd=cwd, env=environment)


def built(source: Path, target: str, out: Path) -> Path:
    """Builds a source tree with the backend that pip would call; `target` is wheel, editable or sdist."""
    pytest.importorskip("hatchling", reason="hatchling builds the wheel; pip install hatchling")
    out.mkdir()
    call = f"import hatchling.build as backend; print(backend.build_{target}({str(out)!r}))"
    done = worked(python("-c", call, cwd=source, path=os.environ.get("PYTHONPATH", "")))
    return out / done.stdout.split()[-1]


def installed(wheel: Path, folder: Path) -> str:
    """Installs a wheel, without what it depends on."""
    options = ("-q", "--no-deps", "--no-index")
    worked(python("-m", "pip", "install", *options, "--target", folder, wheel, cwd=wheel.parent))
    return str(folder)


def unpacked_sdist(tmp_path: Path) -> Path:
    archive = built(REPOSITORY, "sdist", tmp_path / "sdist")
    shutil.unpack_archive(archive, tmp_path / "unpacked")
    (folder,) = (tmp_path / "unpacked").iterdir()
    return folder


@pytest.fixture(scope="session")
def wheel_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder that a wheel of this repository is installed in."""
    folder = tmp_path_factory.mktemp("wheel")
    return installed(built(REPOSITORY, "wheel", folder / "built"), folder / "site")


def looked_up(path: str, cwd: Path) -> list[Path]:
    """The places of the package and its files in an installation; all of them exist."""
    done = worked(python("-c", _LOOK, cwd=cwd, path=path))
    files = [Path(file) for file in json.loads(done.stdout)]
    assert all(file.is_file() for file in files), files
    return files


def test_a_wheel_holds_recipes_and_configs(wheel_path, tmp_path) -> None:
    package, *files = looked_up(wheel_path, tmp_path)
    assert package.parent == Path(wheel_path) / "medjudge"
    assert all(file.is_relative_to(package.parent) for file in files)


@pytest.mark.slow
def test_an_sdist_installs_with_recipes_and_configs(tmp_path) -> None:
    source = unpacked_sdist(tmp_path)
    (package, *files) = looked_up(str(source), tmp_path)  # as unpacked
    assert package.parent.parent == source
    assert all(file.is_relative_to(source) for file in files)
    path = installed(built(source, "wheel", tmp_path / "wheel"), tmp_path / "site")
    package, *files = looked_up(path, tmp_path)
    assert all(file.is_relative_to(Path(path) / "medjudge") for file in files)


def test_an_editable_install_finds_the_recipes_and_configs_of_the_checkout(tmp_path) -> None:
    path = installed(built(REPOSITORY, "editable", tmp_path / "wheel"), tmp_path / "site")
    (link,) = Path(path).glob("*.pth")
    assert link.read_text().split() == [str(REPOSITORY)]
    # As `site` does with a .pth file, but first: the tests may run beside an editable install of another checkout.
    package, *files = looked_up(os.pathsep.join([path, str(REPOSITORY)]), tmp_path)
    assert package.parent.parent == REPOSITORY
    assert all(file.is_relative_to(REPOSITORY) for file in files), files


@pytest.mark.slow
def test_medjudge_train_from_a_wheel_in_an_empty_folder(wheel_path, tmp_path, tiny_encoder) -> None:
    """`distill` names `medjudge train` next; it runs the recipe of the installed package."""
    sample = Path(wheel_path) / "medjudge" / "data" / "sample"
    distilled = worked(python("-m", "medjudge.cli", "distill", sample, "--out", "data", cwd=tmp_path, path=wheel_path))
    assert "Next: medjudge train --config gemma3-270m-lora " in distilled.stdout
    small = ["--model_name_or_path", tiny_encoder, "--max-length", "32", "--lora_r=2", "--max_steps", "3"]
    often = ["--eval_strategy", "steps", "--eval_steps", "3", "--logging_steps", "1", "--output_dir", "judge"]
    command = ["-m", "medjudge.cli", "train", "--config", "minilm-ordinal", *small, *often, "--json"]
    trained = worked(python(*command, cwd=tmp_path, path=wheel_path))
    printed = json.loads(trained.stdout)
    assert printed["judge"] == "judge"
    assert 0 <= printed["validation"]["usable_agreement"] <= 1
    card = json.loads((tmp_path / "judge" / "judge.json").read_text())
    assert (card["training"]["lora_r"], len(card["training"]["loss"])) == (2, 3)
