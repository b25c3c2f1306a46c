"""MkDocs hooks: the references of the CLI and of the Python API come from the code, so that they cannot fall behind."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer
from mkdocs.structure.files import File

import medjudge
from medjudge.cli.main import app
from medjudge.workflows.score import LoadedJudge

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

PAGE = "cli.md"
API_MARK = "<!-- api reference -->"
_SECTION = re.compile(r"(Args|Attributes|Returns|Yields|Raises):")
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


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Puts the reference of the Python API where a page asks for it."""
    return markdown.replace(API_MARK, api_reference()) if API_MARK in markdown else markdown


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


def api_reference() -> str:
    """Every exported function as Markdown, then the types of their options: signatures and docstrings."""
    functions = {name: getattr(medjudge, name) for name in sorted(set(medjudge.__all__) - {"__version__"})}
    sections = [_section_of(f"medjudge.{name}", exported) for name, exported in functions.items()]
    sections.append(_section_of("LoadedJudge.score", LoadedJudge.score))
    types: dict[type, None] = {}  # in the order in which they are met
    for function in functions.values():
        types |= dict.fromkeys(_option_types(function))
    return "\n".join([*sections, *(_section_of(options.__name__, options) for options in types)])


def _option_types(function: Any) -> Iterator[type]:
    """The types of options among a function's defaults, and of options within options."""
    for parameter in inspect.signature(function).parameters.values():
        if _is_options(parameter.default):
            yield type(parameter.default)
            yield from _option_types(type(parameter.default))


def _is_options(default: Any) -> bool:
    return dataclasses.is_dataclass(default) or (isinstance(default, tuple) and type(default) is not tuple)


def _section_of(name: str, exported: Any) -> str:
    signature = _signature(name.rpartition(".")[2], exported)
    return "\n".join([f"## {name}", "", "```text", signature, "```", "", _docstring(exported), ""])


def _signature(name: str, exported: Any) -> str:
    """The signature, one parameter per line."""
    signature = inspect.signature(exported)
    parameters = "".join(f"    {line},\n" for line in _parameters(signature))
    returned = (
        "" if signature.return_annotation is signature.empty else f" -> {_annotation(signature.return_annotation)}"
    )
    return f"{name}(\n{parameters}){returned}"


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    keyword_only = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            yield "*"
        default = "" if parameter.default is parameter.empty else f" = {_default(parameter.default)}"
        annotation = "" if parameter.annotation is parameter.empty else f": {_annotation(parameter.annotation)}"
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        yield f"{stars}{parameter.name}{annotation}{default}"


def _default(value: Any) -> str:
    return f"{type(value).__name__}()" if _is_options(value) else repr(value)


def _annotation(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", text)


def _docstring(exported: Any) -> str:
    """A Google-style docstring as Markdown: sections become lists."""
    lines: list[str] = []
    in_section = False
    for line in inspect.cleandoc(exported.__doc__ or "").splitlines():
        if _SECTION.fullmatch(line):
            in_section = True
            lines += [f"**{line[:-1]}**", ""]
        elif in_section and re.match(r" {4}\S", line):
            name, colon, rest = line.strip().partition(": ")
            lines.append(f"- `{name}`: {_text(rest)}" if colon and " " not in name else f"- {_text(line.strip())}")
        elif in_section and line.strip():
            lines.append(f"  {_text(line.strip())}")
        else:
            in_section = False
            lines.append(_text(line))
    return "\n".join(lines)
