"""The list of answers that `medjudge eval` left to people."""

from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from medjudge.errors import InputError
from medjudge.files import file_sha256, first_problem, json_lines
from medjudge.records import AnswerKey
from medjudge.store import Run


class DeferredAnswers(NamedTuple):
    """The answers of the list in its order, and the sha256 of its file."""

    keys: list[AnswerKey]
    sha256: str


class _Line(BaseModel):
    # What else a line holds is for people.
    model_config = ConfigDict(strict=True, protected_namespaces=())

    question_id: str
    model: str
    sample: int = 0


def read_deferred(run: Run) -> DeferredAnswers:
    """Reads the list of a run.

    Raises:
        InputError: There is none, or a line names no answer.
    """
    file = run.deferred_file
    if not file.exists():
        raise InputError(
            f"--which deferred: {file} is missing; `medjudge eval --escalate-to` or `--defer-to-physicians` writes it"
        )
    keys = []
    for number, fields in json_lines(file):
        try:
            line = _Line.model_validate(fields)
        except ValidationError as error:
            raise InputError(f"{file}, line {number}: {first_problem(error)}") from None
        keys.append(AnswerKey(line.question_id, line.model, line.sample))
    return DeferredAnswers(keys, file_sha256(file))
