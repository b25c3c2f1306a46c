"""Licences and a bill of materials of what pip installed, and the lock that CI installs from.

python .ci/supply_chain.py licences     lists them; exits with 1 where a user's install has a copyleft licence
python .ci/supply_chain.py sbom FILE    CycloneDX, by cyclonedx-py (pipx install cyclonedx-bom)
python .ci/supply_chain.py audit        known vulnerabilities of the lock, by pip-audit (pipx install pip-audit); needs
                                        pypi.org, and exits with 1 where a package cannot be looked up there
python .ci/supply_chain.py lock         writes .ci/requirements.lock, by uv (pipx install uv); needs a package index
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

import tomllib

REPOSITORY = Path(__file__).parent.parent
LOCK = REPOSITORY / ".ci" / "requirements.lock"
FOR_DEVELOPERS = {"dev", "docs"}
"""Extras that no user needs to install."""
# Libraries under the LGPL and files under the MPL may be used from code of any licence.
COPYLEFT = re.compile(r"\b(AGPL|GPL)|GNU (Affero )?General Public", re.IGNORECASE)
WEAKER = re.compile(r"LGPL|Lesser", re.IGNORECASE)


def licence_of(name: str) -> str:
    """The licence that a package states: the SPDX expression, else the classifiers, else the field `License`."""
    metadata = distribution(name).metadata
    classifiers = [
        entry.rpartition(" :: ")[2] for entry in metadata.get_all("Classifier", []) if entry.startswith("License ::")
    ]
    stated = metadata.get("License-Expression") or ", ".join(classifiers) or metadata.get("License") or "not stated"
    return " ".join(stated.split())[:80]


def required_by(name: str, extra: str = "") -> Iterator[str]:
    """The installed packages that a package requires, with one of its extras."""
    from packaging.requirements import Requirement

    for line in distribution(name).requires or []:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement.name


def installed_for_users() -> set[str]:
    """What the dependencies and the users' extras of medjudge bring, as far as it is installed."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [extra for extra in project["optional-dependencies"] if extra not in FOR_DEVELOPERS]
    waiting = [name for extra in ("", *extras) for name in required_by("medjudge", extra)]
    found: set[str] = set()
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            waiting.extend(required_by(name))
        except PackageNotFoundError:  # an extra that is not installed here
            continue
        found.add(name)
    return found


def licences() -> None:
    """Prints package, version and licence; exits with 1 where one of a user's packages is under the GPL or AGPL."""
    names = sorted(installed_for_users())
    copyleft = []
    for name in names:
        licence = licence_of(name)
        print(f"{name} {distribution(name).version}: {licence}")
        if COPYLEFT.search(WEAKER.sub("", licence)):
            copyleft.append(name)
    if copyleft:
        sys.exit(f"copyleft licences in what users install: {', '.join(copyleft)}")


def run_tool(package: str, command: list[str]) -> None:
    """Runs a tool in the repository; exits where it fails, and names the package to install where it is missing."""
    if shutil.which(command[0]) is None:
        sys.exit(f"{command[0]} is not on the PATH; install it with: pipx install {package}")
    status = subprocess.run(command, check=False, cwd=REPOSITORY).returncode
    if status:
        sys.exit(status)


def sbom(file: Path) -> None:
    """Writes a CycloneDX bill of materials of this environment, with medjudge as its subject."""
    command = ["cyclonedx-py", "environment", "--pyproject", "pyproject.toml", "--output-reproducible"]
    run_tool("cyclonedx-bom", [*command, "--output-file", str(file.absolute()), sys.executable])
    bill = json.loads(file.read_text(encoding="utf-8"))
    bill["metadata"]["component"]["version"] = version("medjudge")  # pyproject.toml computes it
    file.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")


def audit() -> None:
    """Compares the lock with the database of known vulnerabilities."""
    # Without --strict, packages that the database does not answer for would pass.
    run_tool("pip-audit", ["pip-audit", "--strict", "--require-hashes", "--disable-pip", "--requirement", str(LOCK)])


def lock() -> None:
    """Locks all that `pip install -e '.[dev]'` brings but torch, whose builds differ by machine."""
    command = ["uv", "pip", "compile", "pyproject.toml", "--extra", "dev", "--generate-hashes", "--quiet"]
    command += ["--no-emit-index-url", "--no-emit-find-links", "--no-emit-package", "torch", "--no-header"]
    # Of several indexes, each may have some of the versions.
    command += ["--index-strategy", "unsafe-best-match", "--python-version", "3.11", "--output-file", str(LOCK)]
    run_tool("uv", command)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["licences"]:
            licences()
        case ["sbom", file]:
            sbom(Path(file))
        case ["audit"]:
            audit()
        case ["lock"]:
            lock()
        case _:
            sys.exit(__doc__)
