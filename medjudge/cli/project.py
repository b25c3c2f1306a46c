"""What the project file states stands in for what the command line of `eval`, `validate` and `report` leaves out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medjudge.errors import InputError
from medjudge.screen import say

_FILE = Path("medjudge.yaml")
_OTHER_STUDY = {"eval": ("benchmark", "run"), "validate": ("run",), "report": ("runs",)}
"""The commands that read the file, and what names another study where the command line states another value."""
_INSTEAD = {"model": "answers", "answers": "model"}
"""An option that takes another one's place."""


def add_project_defaults(command: Any, context: Any, args: list[str]) -> None:
    """Sets a command's defaults from the project file of the current folder, if there is one and it is meant.

    Raises:
        InputError: The project file is wrong, or names an option that the command does not have.
    """
    if context.resilient_parsing or command.name not in _OTHER_STUDY or not _FILE.is_file():
        return
    if "--help" in args or "-h" in args:
        return
    from medjudge.workflows.project import read_project

    stated = read_project(_FILE).defaults(command.name)
    parameters = {parameter.name: parameter for parameter in command.get_params(context)}
    for name in stated:
        if name not in parameters or name == "as_json":
            raise InputError(
                f"{_FILE}: {command.name}: {name.replace('_', '-')}: no such option; `medjudge {command.name} --help` "
                "lists them"
            )
    words = command.make_parser(context).parse_args(args=list(args))[0]
    typed = {name: value for name, value in words.items() if value}
    if any(name in typed and not _same(typed[name], stated.get(name)) for name in _OTHER_STUDY[command.name]):
        return
    replaced = {_INSTEAD.get(name) for name in typed}
    used = {name: value for name, value in stated.items() if name not in typed and name not in replaced}
    context.default_map = used
    if used:
        say(f"{_FILE}: {_shown(used, parameters)}")


def _same(typed: Any, stated: Any) -> bool:
    return [*map(str, typed)] == stated if isinstance(typed, (list, tuple)) else str(typed) == stated


def _shown(used: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    """What is taken from the file, as it would be typed."""
    words = []
    for name, value in used.items():
        option = "" if parameters[name].param_type_name == "argument" else f"{parameters[name].opts[0]} "
        values = value if isinstance(value, list) else [value]
        words += [option.strip() if each is True else f"{option}{each}" for each in values if each is not False]
    return " ".join(words)
