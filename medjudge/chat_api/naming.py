"""How a model of a server is named on the command line."""

from medjudge.errors import InputError

_PREFIX = "openai:"


def server_model(name: str, option: str) -> str | None:
    """The model that `openai:MODEL` names; None where `name` is something else.

    Args:
        option: The option that the name was given to, such as `--judge`.

    Raises:
        InputError: Nothing stands behind `openai:`.
    """
    if not name.startswith(_PREFIX):
        return None
    if name == _PREFIX:
        raise InputError(f"{option} openai: no model is named; write, for example, {option} openai:gpt-4o")
    return name.removeprefix(_PREFIX)
