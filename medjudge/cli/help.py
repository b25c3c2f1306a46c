"""The look of help: no types of flags and arguments, and paragraphs that fill the line."""

import inspect
import re
from collections import Counter
from typing import Any

from typer import Typer
from typer.core import TyperCommand, TyperGroup

from medjudge.cli.options import HELP_ALL
from medjudge.errors import InputError


class Group(TyperGroup):
    """A group of commands with readable help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _make_readable(self, ctx)
        super().format_help(ctx, formatter)


class Command(TyperCommand):
    """A command with readable help.

    An option that takes one value refuses a second one. Where there is `--help-all`, `--help` leaves out the options
    that few need; completion and the documentation name them all.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._few_need: list[Any] = [parameter for parameter in self.params if getattr(parameter, "hidden", False)]
        self._hide(False)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            _, unknown, order = self.make_parser(ctx).parse_args(args=list(args))
            options = [each for each in list[Any](order) if each.param_type_name == "option"]
            names = [each.opts[0] for each in options if not each.multiple | each.is_flag]
            names += [word.split("=")[0] for word in unknown if word.startswith("--")]  # of `train`: the config's
            for name, times in Counter(names).items():
                if times > 1:
                    raise InputError(f"{name}: is given {times} times, and takes one value")
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _make_readable(self, ctx)
        self._hide(HELP_ALL not in ctx.meta and any(parameter.name == "help_all" for parameter in self.params))
        super().format_help(ctx, formatter)
        self._hide(False)

    def _hide(self, hidden: bool) -> None:
        for parameter in self._few_need:
            parameter.hidden = hidden


def show_readable_help(app: Typer) -> None:
    """Gives an app, its commands and its groups readable help; called when all of them are registered."""
    app.info.cls = Group
    for command in app.registered_commands:
        command.cls = Command
    for group in app.registered_groups:
        assert group.typer_instance is not None
        show_readable_help(group.typer_instance)


def _make_readable(command: Any, ctx: Any) -> None:
    # The lines of a paragraph are joined: the terminal decides where they break.
    command.help = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(command.help or ""))
    for parameter in command.get_params(ctx):
        if parameter.param_type_name == "argument" or parameter.is_flag:
            parameter.display_type_rich = lambda ctx: None  # the name says what it is
