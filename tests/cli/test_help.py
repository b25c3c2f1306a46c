"""Help and shell completion."""

import re
import subprocess
import sys
from collections import defaultdict
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


def test_help_loads_no_library_that_it_does_not_need() -> None:
    code = (
        "import sys; sys.argv = ['medjudge', '--help']\n"
        "from medjudge.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = 'torch transformers numpy pydantic openai markdown_it pygments rich.markdown rich.traceback'\n"
        "print([name for name in heavy.split() if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    for command in COMMANDS:
        assert command.split()[1] in done.stdout


def test_what_help_leaves_out_can_be_loaded_later() -> None:
    code = (
        "import sys; sys.argv = ['medjudge', '--help']\n"
        "from medjudge.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "from rich.console import Console\n"
        "from rich.markdown import Markdown\n"
        "from rich.traceback import Traceback\n"
        "Console().print(Markdown('# Loaded later'), Traceback.from_exception(OSError, OSError('a fault'), None))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Loaded later" in done.stdout
    assert "OSError: a fault" in done.stdout


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
    helps: dict[str, list[str]] = defaultdict(list)
    for command in COMMANDS.values():
        for parameter in command.params:
            helps[parameter.opts[0]].append(getattr(parameter, "help", ""))
    shared = "--device --offline --concurrency --max-cost --prices --json --base-url --scheme --encoding --host --seed"
    for name in (*shared.split(), "--thinking", "--judge-tokens", "--quiet", "--verbose"):
        assert len(helps[name]) > 1, name
        assert len(set(helps[name])) == 1, name


def test_commands_do_not_import_commands() -> None:
    code = (
        "import sys\n"
        "from medjudge.cli import {name}\n"
        "print(sorted(module for module in sys.modules if module.startswith('medjudge.cli.')))"
    )
    for name in ("answer", "evaluate", "validate", "refine", "distill", "report", "data", "annotate"):
        done = subprocess.run(
            [sys.executable, "-c", code.format(name=name)], capture_output=True, text=True, check=True
        )
        loaded = set(eval(done.stdout)) - {
            "medjudge.cli.options",
            "medjudge.cli.groups",
            "medjudge.cli.output",
        }
        assert loaded == {f"medjudge.cli.{name}"}


def test_a_group_without_a_command_shows_its_help_and_exits_2(medjudge) -> None:
    done = medjudge("annotate")
    assert done.returncode == 2
    assert "export" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_completes_commands_and_options(shell, monkeypatch) -> None:
    def completed(words: str) -> str:
        environment = {
            "_MEDJUDGE_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
            "_TYPER_COMPLETE_ARGS": words,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        code = "import sys; sys.argv = ['medjudge']; from medjudge.cli.main import main; main()"
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    commands = completed("medjudge an")
    assert "answer" in commands
    assert "annotate" in commands
    assert "report" not in commands
    assert "--max-cost" in completed("medjudge eval --max")


def test_the_completion_script_can_be_shown() -> None:
    code = (
        "import sys; sys.argv = ['medjudge', '--show-completion', 'bash']; from medjudge.cli.main import main; main()"
    )
    environment = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", "PATH": "/usr/bin:/bin"}
    import os

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    assert "_MEDJUDGE_COMPLETE=complete_bash" in done.stdout
