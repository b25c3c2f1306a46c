"""`medjudge pack`: a judge and a benchmark in one file, for a machine without a network."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

import medjudge
from medjudge import __version__
from medjudge.benchmark.files import read_benchmark
from medjudge.benchmark.sample import sample_folder
from medjudge.bundle import About, Manifest, write_bundle
from medjudge.errors import InputError
from medjudge.files import file_sha256, first_problem, write_whole
from medjudge.judge.folder import BASE_FOLDER, JudgeCard, base_of
from medjudge.judge.open import QUICKSTART_MARK, FolderRef, resolve_judge
from medjudge.models.loading import files_of_model
from medjudge.scheme import open_scheme
from medjudge.store import write_records, write_scheme
from medjudge.validation.gate import read_gate
from medjudge.workflows.run_folder import answers_of_files
from medjudge.workflows.unpack import ANSWERS, QUESTIONS, REQUIREMENTS

_JUDGE_SUFFIXES = (".json", ".jsonl", ".safetensors", ".md", ".txt", ".jinja", ".model", ".yaml")
"""Files that a judge folder needs or explains itself with; weights in other formats can run code when read."""


class WheelsFor(NamedTuple):
    """The Python, such as `3.11`, and pip's platform tags that wheels are for; empty: those of this Python."""

    python: str = ""
    platforms: tuple[str, ...] = ()

    @property
    def python_or_own(self) -> str:
        return self.python or f"{sys.version_info.major}.{sys.version_info.minor}"


class PackRequest(NamedTuple):
    """The contents of a bundle.

    Attributes:
        judge: `local`, `built-in`, `similarity` or a judge folder.
        benchmark: `sample`, LLMEval-Med's `dataset.json`, or a `.jsonl` file of questions.
        out: The bundle to write.
        scheme: What the questions belong to; unless given, the scheme beside them, else LLMEval-Med's.
        answers: Answers to judge on the other side; those of the sample come by themselves.
        gate: A YAML file with other requirements than the scheme's.
        wheels: The Python that wheels are for; None for no wheels.
    """

    judge: str
    benchmark: str
    out: Path
    scheme: str | None = None
    answers: Path | None = None
    gate: Path | None = None
    wheels: WheelsFor | None = None


@dataclass(frozen=True)
class Packed:
    """A bundle that was written. `left_out` are files of the judge folder that no bundle takes."""

    out: Path
    manifest: Manifest
    manifest_sha256: str
    left_out: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The object that `pack --json` prints."""
        return {
            "bundle": str(self.out),
            "files": len(self.manifest.files),
            "bytes": self.out.stat().st_size,
            "manifest_sha256": self.manifest_sha256,
            "left_out": list(self.left_out),
        }


def pack(request: PackRequest) -> Packed:
    """Writes a bundle.

    Raises:
        InputError: Something is missing or wrong; nothing was written.
    """
    if request.out.exists():
        raise InputError(f"--out {request.out}: exists already; choose another name or remove it")
    judge = resolve_judge(request.judge)
    if not isinstance(judge, FolderRef):
        raise InputError(f"--judge {request.judge}: runs on a server; a bundle needs a judge folder")
    sources, left_out = _judge_files(judge.folder, judge.card, f"judges/{judge.name}")
    with TemporaryDirectory(prefix="medjudge-pack-") as scratch:
        folder = Path(scratch)
        about = _write_benchmark(request, judge, folder / "benchmark")
        if request.wheels is not None:
            wheels = folder / "wheels"
            wheels.mkdir()
            download_wheels(medjudge_requirement(wheels), wheels, request.wheels)
        sources |= {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}
        written = write_bundle(request.out, sources, __version__, about)
    return Packed(request.out, *written, tuple(left_out))


def _judge_files(folder: Path, card: JudgeCard, prefix: str) -> tuple[dict[str, Path], list[str]]:
    """The files of a judge and of its base model by their paths in the bundle, and the names of those left out."""
    sources: dict[str, Path] = {}
    left_out = []
    for file in sorted(folder.iterdir()):
        if file.name == BASE_FOLDER and file.is_dir():
            continue
        if file.is_symlink():
            raise InputError(f"{file}: a link; replace it by the file that it leads to")
        if file.is_file() and (file.suffix in _JUDGE_SUFFIXES or file.name == QUICKSTART_MARK):
            sources[f"{prefix}/{file.name}"] = file
        else:
            left_out.append(file.name)
    for file in files_of_model(*base_of(card, folder)):
        sources[f"{prefix}/{BASE_FOLDER}/{file.name}"] = file
    return sources, left_out


def _write_benchmark(request: PackRequest, judge: FolderRef, folder: Path) -> About:
    """Writes questions, answers, scheme (rubrics and texts included) and gate, and describes the bundle."""
    scheme = None if request.scheme is None else open_scheme(request.scheme)
    benchmark = read_benchmark(request.benchmark, scheme)
    file = request.answers
    if request.benchmark == "sample" and file is None:
        file = sample_folder() / "answers.jsonl"
    answers = [] if file is None else answers_of_files([file], benchmark.questions)
    gate = benchmark.scheme.gate if request.gate is None else read_gate(request.gate, benchmark.scheme)
    write_records(folder / Path(QUESTIONS).name, benchmark.questions)
    write_scheme(folder, benchmark.scheme)
    write_whole(folder / "gate.yaml", yaml.safe_dump(gate.model_dump(mode="json"), allow_unicode=True))
    if answers:
        write_records(folder / Path(ANSWERS).name, answers)
    try:
        return About(
            judge=judge.name,
            kind=judge.card.kind,
            base_model=judge.card.base_model,
            base_revision=judge.card.base_revision,
            questions=len(benchmark.questions),
            answers=len(answers),
            scheme=benchmark.scheme.name,
            scheme_sha256=benchmark.scheme.sha256,
            python=None if request.wheels is None else request.wheels.python_or_own,
            platforms=[] if request.wheels is None else list(request.wheels.platforms),
        )
    except ValidationError as error:
        raise InputError(
            f"--out {request.out}: cannot describe the bundle ({first_problem(error)}); rename it"
        ) from None


def medjudge_requirement(folder: Path) -> str:
    """The requirement for this version of medjudge: from a checkout, a wheel that is built into the folder."""
    checkout = Path(medjudge.__file__).parents[1]
    if not (checkout / "pyproject.toml").is_file():
        return f"medjudge=={medjudge.__version__}"
    _pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(checkout))
    (wheel,) = folder.glob("medjudge-*.whl")
    return str(wheel)


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
