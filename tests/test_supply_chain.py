"""What users install: no copyleft, and a lock for CI with a hash for everything and no address in it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib")
REPOSITORY = Path(__file__).parent.parent
LOCK = REPOSITORY / ".ci" / "requirements.lock"


def project() -> dict:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def named(requirements: list[str]) -> set[str]:
    return {normal(re.match(r"[A-Za-z0-9._-]+", requirement)[0]) for requirement in requirements}


def test_krippendorff_is_in_no_extra_that_users_install() -> None:
    extras = project()["optional-dependencies"]
    assert {extra for extra, requirements in extras.items() if "krippendorff" in named(requirements)} == {"dev"}


def test_no_package_of_a_user_is_under_the_gpl() -> None:
    done = subprocess.run(
        [sys.executable, ".ci/supply_chain.py", "licences"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
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
