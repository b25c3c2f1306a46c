"""MkDocs hook: writes the CLI reference from the app itself, so that it cannot fall behind."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer
from mkdocs.structure.files import File

from medjudge.cli.main import app

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

PAGE = "cli.md"
_INTRODUCTION = """# CLI reference

This page is generated from the app when the documentation is built.
`medjudge COMMAND --help` shows the same text.

Every command exits with 0 when it is done, with 1 when it is done but something failed its check or could not be
scored, and with 2 when the input or the options are wrong.
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated page to those of the folder."""
    files.append(File.generated(config, PAGE, content=cli_reference()))
    return files


def cli_reference() -> str:
    """The whole command tree as Markdown: usage, help text, arguments and options of each command."""
    root = typer.main.get_command(app)
    sections = [_section(names, command, context) for names, command, context in walk(root, "medjudge")]
    return "\n".join([_INTRODUCTION, *sections])


def walk(command: Any, name: str, parent: Any = None) -> Iterator[tuple[str, Any, Any]]:
    """Every command that does something, in the app's order, with its full name and its context."""
    context = command.context_class(command, info_name=name, parent=parent)
    subcommands = getattr(command, "commands", None)  # a group has them, a command has not
    if subcommands is None:
        yield context.command_path, command, context
        return
    for subname in command.list_commands(context):
        if not subcommands[subname].hidden:
            yield from walk(subcommands[subname], subname, context)


def _section(name: str, command: Any, context: Any) -> str:
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    lines = [f"## {name}", "", _paragraphs(command.help), "", "```text", usage, "```", ""]
    groups: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and parameter.name != "help":
            default = "Arguments" if parameter.param_type_name == "argument" else "Options"
            groups.setdefault(parameter.rich_help_panel or default, []).append(record)
    for title, records in groups.items():
        name_of_first = "argument" if title == "Arguments" else "option"
        lines += [f"**{title}**", "", f"| {name_of_first} | meaning |", "|---|---|"]
        lines += [f"| `{_cell(names)}` | {_text(help_text)} |" for names, help_text in records]
        lines.append("")
    return "\n".join(lines)


def _paragraphs(help_text: str | None) -> str:
    return _text(inspect.cleandoc(help_text or ""))


def _cell(text: str) -> str:
    """The words of a code span in a table; a bar in a code span ends no cell."""
    return " ".join(text.split())


def _text(text: str) -> str:
    """Plain text as Markdown: code spans stay, everything that Markdown or HTML would read is escaped."""
    parts = text.split("`")
    for index in range(0, len(parts), 2):
        parts[index] = re.sub(r"([*_<>|\[\]])", r"\\\1", parts[index])
    return "`".join(parts)
