"""The container of `medjudge serve`, as far as it can be checked without building it."""

import json
import re
import shutil
from pathlib import Path

import pytest
import typer
from calls import python, worked

from medjudge.cli.main import app

REPOSITORY = Path(__file__).parent.parent.parent
LINES = (REPOSITORY / "docs" / "Containerfile").read_text(encoding="utf-8").splitlines()


def instructions(name: str) -> list[str]:
    return [line.split(maxsplit=1)[1] for line in LINES if line.startswith(f"{name} ")]


def test_it_starts_a_command_that_the_app_knows_on_the_port_that_it_exposes() -> None:
    (entry,) = map(json.loads, instructions("ENTRYPOINT"))
    root = typer.main.get_command(app)
    assert entry[0] == "medjudge"
    parsed = root.commands[entry[1]].make_context("serve", entry[2:]).params
    assert (parsed["host"], [str(parsed["port"])]) == ("0.0.0.0", instructions("EXPOSE"))
    assert [str(parsed["runs"])] == instructions("VOLUME")


def test_the_package_can_be_built_from_what_it_copies(tmp_path) -> None:
    pytest.importorskip("hatchling", reason="hatchling builds the wheel; pip install hatchling")
    source = tmp_path / "src"
    for copied in instructions("COPY"):
        *names, target = copied.split()
        for name in names:
            place = tmp_path / target.lstrip("/") / (name if target.endswith("/") else "")
            place.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (REPOSITORY / name).is_dir() else shutil.copy
            copy(REPOSITORY / name, place)
    call = f"import hatchling.build as backend; backend.build_wheel({str(tmp_path)!r})"
    worked(python("-c", call, cwd=source))
    assert list(tmp_path.glob("medjudge-*.whl"))
    (installed,) = [line for line in instructions("RUN") if "/src[" in line]
    extras = set(re.search(r"/src\[([\w,]+)\]", installed)[1].split(","))
    declared = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    assert all(re.search(rf"^{extra} = \[", declared, re.MULTILINE) for extra in extras)
