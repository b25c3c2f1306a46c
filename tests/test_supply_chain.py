"""What users install: no copyleft, and a lock for CI with a hash for everything and no address in it."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib", reason="tomllib comes with Python 3.11 and later")
REPOSITORY = Path(__file__).parent.parent
LOCK = REPOSITORY / ".ci" / "requirements.lock"


def project() -> dict:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def named(requirements: list[str]) -> set[str]:
    return {normal(re.match(r"[A-Za-z0-9._-]+", requirement)[0]) for requirement in requirements}


def supply_chain(*arguments: str, cwd: Path = REPOSITORY, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, REPOSITORY / ".ci" / "supply_chain.py", *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_krippendorff_is_in_no_extra_that_users_install() -> None:
    extras = project()["optional-dependencies"]
    assert {extra for extra, requirements in extras.items() if "krippendorff" in named(requirements)} == {"dev"}


def test_no_package_of_a_user_is_under_the_gpl() -> None:
    done = supply_chain("licences")
    assert done.returncode == 0, done.stderr
    listed = named(done.stdout.splitlines())
    assert {"torch", "transformers", "pydantic"} <= listed
    assert "krippendorff" not in listed


def test_the_lock_has_a_hash_for_everything_and_no_address() -> None:
    text = LOCK.read_text(encoding="utf-8")
    assert not re.search(r"https?:|file:|^\s*(-i|--index|--extra-index|--find-links)|@ ", text, re.MULTILINE)
    assert str(REPOSITORY) not in text
    pinned = re.findall(r"^([A-Za-z0-9._-]+)==[^\s\\;]+", text, re.MULTILINE)
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(entries) == len(pinned)
    assert all("--hash=sha256:" in entry for entry in entries)
    direct = named([*project()["dependencies"], *project()["optional-dependencies"]["dev"]]) - {"medjudge", "torch"}
    assert direct <= set(map(normal, pinned))


@pytest.mark.parametrize(("arguments", "package"), [(["sbom", "bill.json"], "cyclonedx-bom"), (["audit"], "pip-audit")])
def test_a_tool_that_is_missing_is_named_in_one_line(tmp_path: Path, arguments: list[str], package: str) -> None:
    done = supply_chain(*arguments, cwd=tmp_path, PATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.splitlines() == [done.stderr.strip()]
    assert done.stderr.strip().endswith(f"pipx install {package}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("cyclonedx-py") is None, reason="cyclonedx-bom is not installed; pip install cyclonedx-bom"
)
def test_the_bill_of_materials_is_about_this_version_and_names_no_folder(tmp_path: Path) -> None:
    done = supply_chain("sbom", "bill.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "bill.json").read_text()
    bill = json.loads(text)
    assert bill["bomFormat"] == "CycloneDX"
    subject = bill["metadata"]["component"]
    assert (subject["name"], subject["version"]) == ("medjudge", version("medjudge"))
    assert {"torch", "transformers"} <= {component["name"] for component in bill["components"]}
    assert "file:" not in text
