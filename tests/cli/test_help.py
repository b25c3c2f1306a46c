"""Help and shell completion."""

import os
import re
import subprocess
import sys
from typing import Any

import pytest
import typer

from medjudge.cli.main import app


def commands(command: Any, path: str = "medjudge") -> dict[str, Any]:
    """Every command of the app that does something, by what is typed."""
    inner = getattr(command, "commands", None)
    if inner is None:
        return {path: command}
    return {name: leaf for child, below in inner.items() for name, leaf in commands(below, f"{path} {child}").items()}


COMMANDS = commands(typer.main.get_command(app))


def printed_by(*words: str, then: str = "", **environment: str) -> str:
    """The output of the command in a process of its own, and of some code after it."""
    code = f"import sys; sys.argv = {['medjudge', *words]}\nfrom medjudge.cli.main import main\n"
    code += f"try: main()\nexcept SystemExit: pass\n{then}"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment}).stdout


def test_help_loads_no_library_that_it_does_not_need() -> None:
    heavy = ["torch", "transformers", "numpy", "pydantic", "openai"]
    shown = printed_by("--help", then=f"print([name for name in {heavy} if name in sys.modules])")
    assert shown.splitlines()[-1] == "[]"
    for command in COMMANDS:
        assert command.split()[1] in shown


def test_help_shows_commands_in_groups_with_whole_summaries(medjudge) -> None:
    text = medjudge("--help", COLUMNS="80").stdout
    for group in ("Start here", "Run a benchmark", "Build a judge", "Work with physicians"):
        assert f"─ {group} ─" in text
    words = " ".join(text.replace("│", " ").split())
    for path, command in COMMANDS.items():
        if len(path.split()) == 2:
            summary = " ".join(command.help.split("\n\n")[0].split())
            assert summary in words, path
    assert "..." not in text.replace("[ARGS]...", "")
    of_a_group = medjudge("annotate")
    assert (of_a_group.returncode, "export" in of_a_group.stdout) == (2, True)


@pytest.mark.parametrize("path", COMMANDS)
def test_help_of_a_command_names_types_plainly(medjudge, path) -> None:
    text = medjudge(*path.split()[1:], "--help", COLUMNS="100").stdout
    assert "Usage: " in text
    for name in ("<bool>", "<str>", "<int", "<float", "<path>", "list["):
        assert name not in text, name


@pytest.mark.parametrize("name", ["eval", "answer", "validate", "refine"])
def test_help_shows_what_most_need_and_help_all_the_rest(medjudge, name) -> None:
    main, everything = (set(re.findall(r"--[a-z-]+", medjudge(name, flag).stdout)) for flag in ("--help", "--help-all"))
    assert len(main) <= 20
    options = {parameter.opts[0] for parameter in COMMANDS[f"medjudge {name}"].params if parameter.opts[0][0] == "-"}
    assert main < options | {"--help"} <= everything


def test_an_option_of_several_commands_means_the_same_in_each() -> None:
    shared = "--device --offline --concurrency --max-cost --prices --json --base-url --scheme --encoding --host --seed"
    for name in (*shared.split(), "--thinking", "--judge-tokens", "--quiet"):
        helps = [option.help for command in COMMANDS.values() for option in command.params if option.opts[0] == name]
        assert len(helps) > 1, name
        assert len(set(helps)) == 1, name


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_completes_commands_and_options(shell) -> None:
    def completed(words: str) -> str:
        return printed_by(
            _MEDJUDGE_COMPLETE=f"complete_{shell}",
            COMP_WORDS=words,
            COMP_CWORD=str(len(words.split()) - 1),
            _TYPER_COMPLETE_ARGS=words,
            _TYPER_COMPLETE_FISH_ACTION="get-args",
        )

    commands = completed("medjudge an")
    assert "answer" in commands
    assert "annotate" in commands
    assert "report" not in commands
    assert "--max-cost" in completed("medjudge eval --max")
