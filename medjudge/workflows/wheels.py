"""The Python packages that a bundle carries: wheels with their hashes, for a named Python and platform."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import medjudge
from medjudge.errors import InputError
from medjudge.files import file_sha256, write_whole

REQUIREMENTS = "requirements.txt"


class WheelsFor(NamedTuple):
    """The Python, such as `3.11`, and pip's platform tags that wheels are for; empty: those of this Python."""

    python: str = ""
    platforms: tuple[str, ...] = ()

    @property
    def python_or_own(self) -> str:
        return self.python or f"{sys.version_info.major}.{sys.version_info.minor}"


def medjudge_requirement(folder: Path) -> str:
    """What pip has to install for this version of medjudge: from a checkout, a wheel that is built into the folder."""
    checkout = Path(medjudge.__file__).parents[1]
    if not (checkout / "pyproject.toml").is_file():
        return f"medjudge[sign]=={medjudge.__version__}"
    _pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(checkout))
    (wheel,) = folder.glob("medjudge-*.whl")
    return f"{wheel}[sign]"


def download_wheels(requirement: str, folder: Path, target: WheelsFor) -> None:
    """Downloads wheels for a requirement and all that it needs, and writes `requirements.txt` with their hashes.

    Raises:
        InputError: pip found no wheel for something.
    """
    options = ["--only-binary", ":all:", "--dest", str(folder)]
    if target.python:
        options += ["--python-version", target.python, "--implementation", "cp"]
    for platform in target.platforms:
        options += ["--platform", platform]
    _pip("download", *options, requirement)
    write_whole(folder / REQUIREMENTS, hashed_requirements(sorted(folder.glob("*.whl"))))


def hashed_requirements(wheels: Sequence[Path]) -> str:
    """A requirements file for `pip install --require-hashes`."""
    lines = []
    for wheel in wheels:
        name, version = wheel.name.split("-")[:2]
        lines.append(f"{name.replace('_', '-')}=={version} --hash=sha256:{file_sha256(wheel)}\n")
    return "".join(lines)


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", *arguments, "--disable-pip-version-check", "--no-input"]
    done = subprocess.run(command, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["pip failed"]
        reason = next((line for line in reversed(lines) if line.startswith("ERROR:")), lines[-1])
        raise InputError(f"--wheels: {reason.removeprefix('ERROR:').strip()[:300]} (pip {arguments[0]})")
