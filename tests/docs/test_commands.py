"""Every command of the README and the documentation: run on the sample, or read by the app's own parser."""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from forms import fill_in
from pages import NEEDS, PAGES, ROOT, Block, blocks, continues, words_of
from typer.exceptions import TyperException

from medjudge.benchmark.sample import sample_folder
from medjudge.cli.main import app
from medjudge.judge import open as judges

BASH = [block for page in PAGES for block in blocks(page) if block.language == "bash"]
RUN = [page for page in PAGES if any(block.language in ("bash", "python") for block in blocks(page))]


@pytest.fixture(autouse=True)
def online_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The app goes offline as soon as it reads `--offline`; that must end with the test."""
    monkeypatch.setattr("medjudge.offline._refusing", False)


def parse(arguments: list[str]) -> None:
    """Reads the words behind `medjudge` as the app does, without running anything.

    Raises:
        TyperException: A command, an option or a value that the app does not know.
    """
    command: Any = typer.main.get_command(app)
    name = "medjudge"
    while hasattr(command, "commands"):
        context = command.make_context(name, arguments, resilient_parsing=False)
        name, command, arguments = command.resolve_command(context, [*context._protected_args, *context.args])
    command.make_context(name, arguments, resilient_parsing=False)


def check_command(line: str) -> None:
    """Checks what a block that is not run says: options of the app, files of a clone, extras of the package."""
    words = words_of(line)
    starts = [index + 1 for index, word in enumerate(words) if Path(word).name in ("medjudge", "medjudge.cli")]
    if words[0] == "pip" or not starts:
        for extra in re.findall(r"medjudge\[([\w,]+)\]", line):
            assert set(extra.split(",")) <= extras_of_the_package(), line
        for word in words:
            if word.startswith(("recipes/", "configs/", "eval/")):
                assert (ROOT / word).exists(), f"{word}: not in the repository"
        return
    for start in starts:
        end = next((i for i in range(start, len(words)) if words[i] in ("|", "&&", ";", ">")), len(words))
        parse(words[start:end])


def extras_of_the_package() -> set[str]:
    """The names under `[project.optional-dependencies]`; tomllib is not there on Python 3.10."""
    table = (ROOT / "pyproject.toml").read_text().split("[project.optional-dependencies]\n")[1].split("\n[")[0]
    return set(re.findall(r"^([\w-]+) = \[", table, re.M))


@pytest.mark.parametrize("block", BASH, ids=lambda block: block.place)
def test_every_command_is_one_that_the_app_knows(block: Block) -> None:
    assert block.needs is None or set(block.needs.split(", ")) <= NEEDS
    for line in block.commands:
        try:
            check_command(line)
        except TyperException as error:
            pytest.fail(f"{block.place}: {line}\n{error.format_message()}")


def test_every_script_and_results_file_that_a_page_names_is_there() -> None:
    table = (ROOT / "eval" / "README.md").read_text(encoding="utf-8")
    for text in (table, *(page.read_text(encoding="utf-8") for page in [*PAGES, ROOT / "CONTRIBUTING.md"])):
        for name in re.findall(r"\beval/[\w/-]+\.py", text):
            assert (ROOT / name).is_file(), name
    for page in PAGES:
        for name in re.findall(r"\beval/results/[\w-]+\.\w+", page.read_text(encoding="utf-8")):
            assert (ROOT / name).is_file(), name
    assert {file.name for file in (ROOT / "eval" / "results").iterdir()} <= set(
        re.findall(r"[\w-]+\.(?:json|md)", table)
    )


def test_no_command_hides_in_a_block_of_another_language() -> None:
    languages = {"bash", "python", "text", "json", "yaml", "csv", "markdown", "diff"}
    for page in PAGES:
        for block in blocks(page):
            assert block.language in languages, block.place
            if block.language not in ("bash", "python"):
                assert not re.search(r"^\s*\$? ?(medjudge|accelerate|python|pip) ", block.text, re.M), block.place


def test_commands_that_another_page_runs_are_run_there() -> None:
    elsewhere = [block for block in BASH if block.run_in is not None]
    assert elsewhere
    for block in elsewhere:
        assert block.run_in is not None
        others = [other for other in blocks(block.run_in) if other.language == "bash" and other.is_run]
        run_elsewhere = [words_of(line) for other in others for line in other.commands]
        positions = [run_elsewhere.index(words_of(line)) for line in block.commands]
        assert positions == sorted(positions), block.place


@pytest.fixture
def tiny_judges(
    tiny_similarity: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tiny judge under the names of the judges of the package, which take a minute or more for the sample."""
    for name in ("built-in", "similarity"):
        folder = tmp_path_factory.mktemp("packaged") / name
        shutil.copytree(tiny_similarity, folder)
        monkeypatch.setitem(judges._PACKAGED, name, folder)
        monkeypatch.setattr(judges, name.replace("-", "_").upper(), folder)


@pytest.fixture(scope="module")
def finished() -> dict[Path, Path]:
    """The folder of each page that was run."""
    return {}


@pytest.fixture
def run_page(
    medjudge: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
    tiny_lm: Path,
    tiny_encoder: Path,
    finished: dict[Path, Path],
    tiny_judges: None,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Path], None]:
    """Runs a page from its top in a folder with what a reader has: a benchmark, answers, scores, a model, a clone."""

    def prepare(folder: Path) -> None:
        for name in ("questions", "answers"):
            shutil.copy(sample_folder() / f"{name}.jsonl", folder)
        constructed = (sample_folder() / "physician_scores.jsonl").read_text(encoding="utf-8")
        (folder / "scores.jsonl").write_text(constructed.replace('"constructed"', '"dr-a"'), encoding="utf-8")
        shutil.copytree(tiny_lm, folder / "my-model")
        for name in ("recipes", "configs", "eval"):
            (folder / name).symlink_to(ROOT / name)

    def run(page: Path) -> None:
        if page in finished:
            return
        before = continues(page)
        if before is None:
            shutil.rmtree(tmp_path)
            tmp_path.mkdir()
            prepare(tmp_path)
        else:
            run(before)
            shutil.rmtree(tmp_path)
            shutil.copytree(finished[before], tmp_path, symlinks=True)
        for block in blocks(page):
            if block.language == "bash" and block.is_run:
                for line in block.commands:
                    run_line(block, line)
            elif block.language == "python" and block.needs is None:
                with monkeypatch.context() as patch:
                    patch.chdir(tmp_path)
                    exec(compile(block.text, block.place, "exec"), {"__name__": "__main__"})
        finished[page] = tmp_path_factory.mktemp("finished") / "folder"
        shutil.copytree(tmp_path, finished[page], symlinks=True)

    def run_line(block: Block, line: str) -> None:
        words = words_of(line)
        if words[0] == "medjudge":
            if words[1] == "train":
                words += ["--model_name_or_path", str(tiny_encoder), "--max-length", "128", "--max_steps", "2"]
            if words[1:3] == ["annotate", "import"]:
                scores = map(json.loads, (tmp_path / "scores.jsonl").read_text(encoding="utf-8").splitlines())
                levels = {(score["question_id"], score["model"]): score["score"] for score in scores}
                for form in expanded(words[4:], tmp_path):
                    if form.endswith(".xlsx"):
                        fill_in(tmp_path / form, tmp_path / words[3], lambda *key: levels[key])
            done = medjudge(*expanded(words[1:], tmp_path))
        else:
            path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
            done = subprocess.run(
                ["bash", "-c", line],
                cwd=tmp_path,
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
                timeout=600,
            )
        assert done.returncode in block.statuses, f"{block.place}: {line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"

    return run


def expanded(words: list[str], folder: Path) -> list[str]:
    """The words as a shell passes them on: file patterns replaced by the files."""
    return [name for word in words for name in (sorted(glob.glob(word, root_dir=folder)) if "*" in word else [word])]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_run_on_the_sample(page: Path, run_page: Callable[[Path], None]) -> None:
    run_page(page)
