"""`medjudge pack`: a judge and a benchmark in one file, for a machine without a network."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from medjudge import __version__
from medjudge.benchmark.files import read_benchmark
from medjudge.benchmark.llmeval_med import Benchmark
from medjudge.benchmark.sample import sample_folder
from medjudge.bundle import About, Manifest, write_bundle
from medjudge.errors import InputError
from medjudge.files import first_problem, write_whole
from medjudge.judge.folder import BASE_FOLDER, JudgeCard, base_of
from medjudge.judge.open import QUICKSTART_MARK, FolderRef, resolve_judge
from medjudge.models.loading import files_of_model
from medjudge.scheme import open_scheme
from medjudge.store import write_records, write_scheme
from medjudge.validation.gate import read_gate
from medjudge.workflows.run_folder import answers_of_files
from medjudge.workflows.unpack import ANSWERS, QUESTIONS

_JUDGE_SUFFIXES = (".json", ".jsonl", ".safetensors", ".md", ".txt", ".jinja", ".model", ".yaml")
"""Files that a judge folder needs or explains itself with; weights in other formats can run code when read."""


class Packed(NamedTuple):
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


def pack(
    judge: str,
    benchmark: str,
    out: Path,
    scheme: str | None = None,
    answers: Path | None = None,
    gate: Path | None = None,
) -> Packed:
    """Writes a bundle.

    Args:
        judge: `local`, `built-in`, `similarity` or a judge folder.
        benchmark: As for `evaluate`, and so is `scheme`.
        out: The bundle to write.
        answers: Answers to judge on the other side; those of the sample come by themselves.
        gate: A YAML file with other requirements than the scheme's.

    Raises:
        InputError: Something is missing or wrong; nothing was written.
    """
    if out.exists():
        raise InputError(f"--out {out}: exists already; choose another name or remove it")
    judge_ref = resolve_judge(judge)
    if not isinstance(judge_ref, FolderRef):
        raise InputError(f"--judge {judge}: runs on a server; a bundle needs a judge folder")
    sources, left_out = _judge_files(judge_ref.folder, judge_ref.card, f"judges/{judge_ref.name}")
    if benchmark == "sample" and answers is None:
        answers = sample_folder() / "answers.jsonl"
    opened = read_benchmark(benchmark, None if scheme is None else open_scheme(scheme))
    with TemporaryDirectory(prefix="medjudge-pack-") as scratch:
        folder = Path(scratch)
        answered = _write_benchmark(folder / "benchmark", opened, answers, gate)
        try:
            about = About(
                judge=judge_ref.name,
                kind=judge_ref.card.kind,
                base_model=judge_ref.card.base_model,
                base_revision=judge_ref.card.base_revision,
                questions=len(opened.questions),
                answers=answered,
                scheme=opened.scheme.name,
                scheme_sha256=opened.scheme.sha256,
            )
        except ValidationError as error:
            raise InputError(f"--out {out}: cannot describe the bundle ({first_problem(error)}); rename it") from None
        sources |= {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}
        written = write_bundle(out, sources, __version__, about)
    return Packed(out, *written, tuple(left_out))


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


def _write_benchmark(folder: Path, benchmark: Benchmark, answers: Path | None, gate: Path | None) -> int:
    """Writes questions, answers, scheme (rubrics and texts included) and gate; returns the number of answers."""
    read = [] if answers is None else answers_of_files([answers], benchmark.questions)
    required = benchmark.scheme.gate if gate is None else read_gate(gate, benchmark.scheme)
    write_records(folder / Path(QUESTIONS).name, benchmark.questions)
    write_scheme(folder, benchmark.scheme)
    write_whole(folder / "gate.yaml", yaml.safe_dump(required.model_dump(mode="json"), allow_unicode=True))
    if read:
        write_records(folder / Path(ANSWERS).name, read)
    return len(read)
