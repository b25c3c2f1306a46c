"""The package imports only what it declares: a plain install has nothing else."""

import ast
import re
import sys
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

tomllib = pytest.importorskip("tomllib", reason="tomllib comes with Python 3.11 and later")
REPOSITORY = Path(__file__).parent.parent.parent


def imported_by(path: Path) -> set[str]:
    """The top-level names of the modules that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def declared() -> set[str]:
    """What users can install: the dependencies, and the extras that are not for developers."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [lines for name, lines in project["optional-dependencies"].items() if name not in ("dev", "docs")]
    lines = [line for part in (project["dependencies"], *extras) for line in part]
    return {normal(re.split(r"[<>=;\[ ]", line)[0]) for line in lines}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_import_is_a_declared_dependency() -> None:
    known = declared()
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
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["vllm"]]
    bounds = {found[1]: found[2] for line in lines if (found := re.match(r"([\w-]+)(.*)", line))}
    for name in ("torch", "transformers", "peft", "trl", "openpyxl", "vllm"):
        specifiers = SpecifierSet(bounds[name])
        assert {each.operator for each in specifiers} == {">=", "<"}, name
        if name != "vllm":
            assert version(name).partition("+")[0] in specifiers, name
