"""The packages that users install: all that is imported and no copyleft; a lock with a hash for everything."""

import ast
import json
import re
import shutil
import sys
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
from calls import python, worked
from packaging.specifiers import SpecifierSet

tomllib = pytest.importorskip("tomllib", reason="tomllib comes with Python 3.11 and later")
REPOSITORY = Path(__file__).parent.parent
LOCK, SUPPLY_CHAIN = REPOSITORY / ".ci" / "requirements.lock", REPOSITORY / ".ci" / "supply_chain.py"


def project() -> dict:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def named(requirements: list[str]) -> set[str]:
    return {normal(re.match(r"[A-Za-z0-9._-]+", requirement)[0]) for requirement in requirements}


def test_no_package_of_a_user_is_under_the_gpl() -> None:
    done = worked(python(SUPPLY_CHAIN, "licences", cwd=REPOSITORY))
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


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cyclonedx-py") is None, reason="no cyclonedx-py; pip install cyclonedx-bom")
def test_the_bill_of_materials_is_about_this_version_and_names_no_folder(tmp_path: Path) -> None:
    worked(python(SUPPLY_CHAIN, "sbom", "bill.json", cwd=tmp_path))
    text = (tmp_path / "bill.json").read_text()
    bill = json.loads(text)
    assert bill["bomFormat"] == "CycloneDX"
    subject = bill["metadata"]["component"]
    assert (subject["name"], subject["version"]) == ("medjudge", version("medjudge"))
    assert {"torch", "transformers"} <= {component["name"] for component in bill["components"]}
    assert "file:" not in text


def imported_by(path: Path) -> set[str]:
    """The top-level names of the modules that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def test_every_import_is_a_declared_dependency() -> None:
    extras = [lines for name, lines in project()["optional-dependencies"].items() if name not in ("dev", "docs")]
    known = named([line for part in (project()["dependencies"], *extras) for line in part])
    distributions = packages_distributions()
    undeclared = {}
    for folder in ("medjudge", "recipes"):
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            for name in imported_by(path) - set(sys.stdlib_module_names) - {"medjudge"}:
                if not {normal(each) for each in distributions.get(name, [name])} & known:
                    undeclared.setdefault(name, str(path.relative_to(REPOSITORY)))
    assert undeclared == {}


def test_libraries_whose_insides_are_used_are_bounded_on_both_sides() -> None:
    """Private hooks of peft, trl, openpyxl are overridden, and vLLM pins torch: a newer version is tried out first."""
    lines = [*project()["dependencies"], *project()["optional-dependencies"]["vllm"]]
    bounds = {found[1]: found[2] for line in lines if (found := re.match(r"([\w-]+)(.*)", line))}
    for name in ("torch", "transformers", "peft", "trl", "openpyxl", "vllm"):
        specifiers = SpecifierSet(bounds[name])
        assert {each.operator for each in specifiers} == {">=", "<"}, name
        if name != "vllm":
            assert version(name).partition("+")[0] in specifiers, name
