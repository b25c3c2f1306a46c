"""How help is shown: plain type names, paragraphs that fill the line, and no library that help does not need."""

import inspect
import sys
from types import ModuleType
from typing import Any

from typer import Typer
from typer.core import TyperCommand, TyperGroup

from medjudge.cli.project import add_project_defaults

_PLAIN_NAMES = {
    "bool": "",
    "int": "N",
    "int range": "N",
    "float": "NUMBER",
    "float range": "NUMBER",
    "str": "TEXT",
    "path": "PATH",
    "list[str]": "TEXT",
    "list[path]": "PATH",
    "list[Path]": "PATH",
}
"""What stands behind an option instead of the name of its Python type."""
_UNUSED = {"rich.markdown": "Markdown", "rich.traceback": "Traceback"}
"""What `typer.rich_utils` imports for apps that write help in Markdown or show typer's own tracebacks."""


class Command(TyperCommand):
    """A command with readable help, whose defaults may come from the project file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        add_project_defaults(self, ctx, args)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _load_without_unused()
        self.help = _filled(self.help)
        _name_plainly(self.get_params(ctx), ctx)
        super().format_help(ctx, formatter)


class Group(TyperGroup):
    """A group of commands with readable help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _load_without_unused()
        self.help = _filled(self.help)
        _name_plainly(self.get_params(ctx), ctx)
        super().format_help(ctx, formatter)


def show_readable_help(app: Typer) -> None:
    """Gives an app, its commands and its groups readable help; called when all of them are registered."""
    app.info.cls = Group
    for command in app.registered_commands:
        command.cls = Command
    for group in app.registered_groups:
        assert group.typer_instance is not None
        show_readable_help(group.typer_instance)


def _load_without_unused() -> None:
    """Loads typer's help pages with placeholders for the two modules that take most of the time and are never called.

    The placeholders leave `sys.modules` again: who imports one of the modules later gets the real one.
    """
    placeholders = {name: ModuleType(name) for name in _UNUSED if name not in sys.modules}
    for name, module in placeholders.items():
        setattr(module, _UNUSED[name], type(_UNUSED[name], (), {}))
    sys.modules.update(placeholders)
    try:
        import typer.rich_utils  # noqa: F401
    finally:
        for name in placeholders:
            del sys.modules[name]


def _filled(text: str | None) -> str | None:
    """Joins the lines of each paragraph: the terminal decides where they break."""
    if text is None:
        return None
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in inspect.cleandoc(text).split("\n\n"))


def _no_type(ctx: Any) -> None:
    return None


def _name_plainly(parameters: list[Any], ctx: Any) -> None:
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = _no_type  # its name says what it is
        elif parameter.metavar is None:
            name = parameter.display_type(ctx).strip("<>")
            parameter.metavar = _PLAIN_NAMES.get(name, name.removeprefix("list[").removesuffix("]"))
