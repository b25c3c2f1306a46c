"""Limits that keep the code readable: a function fits on a screen, the code grows no further, README stays short."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import medjudge

PACKAGE = Path(medjudge.__file__).parent
REPOSITORY = Path(__file__).parents[1]
README = REPOSITORY / "README.md"
BUDGETS = [("medjudge", 35_900, 241), ("tests", 21_960, 196), ("eval", 4_600, 22)]
"""Folder, lines and files of Python: ceilings that only fall."""
FUNCTION_LINES = 80
PARAMETERS = 8
README_LINES = 130


def functions(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or 0) - function.body[0].lineno + 1


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = function.args
    return len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)


def commands(app: Any) -> Iterator[tuple[Path, str]]:
    """File and name of each function that is registered as a command: its parameters are the command's options."""
    for command in app.registered_commands:
        yield Path(inspect.getfile(command.callback)), command.callback.__name__
    for group in app.registered_groups:
        yield from commands(group.typer_instance)


def test_no_function_is_longer_than_a_screen() -> None:
    offenders = [
        f"{file.relative_to(PACKAGE)}:{function.lineno} {function.name}: {body_lines(function)} lines"
        for file in sorted(PACKAGE.rglob("*.py"))
        for function in functions(file)
        if body_lines(function) > FUNCTION_LINES
    ]
    assert offenders == []


@pytest.mark.parametrize(("folder", "lines", "files"), BUDGETS)
def test_the_code_grows_no_further(folder: str, lines: int, files: int) -> None:
    sources = [path for path in (REPOSITORY / folder).rglob("*.py") if "__pycache__" not in path.parts]
    count = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in sources)
    assert count <= lines, f"{folder}/ has {count} lines; delete something, the budget only falls"
    assert len(sources) <= files, f"{folder}/ has {len(sources)} files; the budget only falls"


def test_no_function_but_a_command_takes_more_than_eight_parameters() -> None:
    from medjudge.cli.main import app

    registered = set(commands(app))
    assert {file.parent for file, _ in registered} == {PACKAGE / "cli"}
    offenders = [
        f"{file.relative_to(PACKAGE)}:{function.lineno} {function.name}: {parameters(function)} parameters"
        for file in sorted(PACKAGE.rglob("*.py"))
        for function in functions(file)
        if parameters(function) > PARAMETERS and (file, function.name) not in registered
    ]
    assert offenders == []


def test_the_readme_stays_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= README_LINES
