"""The project file: a study in one file, which `medjudge run` carries out."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from medjudge.annotate.plan import plan_file
from medjudge.errors import InputError
from medjudge.files import first_problem, read_yaml, write_whole
from medjudge.store import Run

PROJECT_FILE = Path("medjudge.yaml")
"""Looked for in the current folder; the paths in it are those of that folder."""

_TEMPLATE = """\
# A study. `medjudge run` carries it out: models answer, judges score, physicians' scores validate the judges, and a
# page reports.

# What is judged: 'sample', LLMEval-Med's dataset.json, or questions (.jsonl, .json, .csv, .xlsx).
benchmark: {benchmark}
# scheme: llmeval-med           # the questions' scheme, where none lies beside them

# Existing answers (`medjudge data template` writes a file to fill in), or models that answer: folders, hub ids or
# openai:MODEL. The sample has answers of its own.
{answers}
{models}

# Who judges: local, built-in, similarity, a judge folder, or openai:MODEL. The first one's rates lead the report.
judges: [{judges}]

# Where everything is written.
run: {run}

# The physicians. `medjudge run` writes a scoring form for each of them. Their scores come back with `medjudge annotate
# import` or `annotate serve`, and the next `medjudge run` validates the judges. `physicians` is a file of scores that
# were collected elsewhere.
{raters}
# answers_per_rater: 50
# physicians: scores.jsonl

# What a judge must reach on their scores: a file, or what differs from the scheme's gate.
# gate:
#   cohen_kappa: 0.6
#   coverage: 0.95

# Any other option of these commands, by its name without the dashes.
# eval: {{samples: 3, max-new-tokens: 1024, offline: true}}
# eval: {{answered-only: true}}  # where most questions have no answer in `answers`
# validate: {{probes: true}}
# report: {{plots: plots}}
"""

_Options = dict[str, str | int | float | bool | list[str]]


class Project(BaseModel):
    """A project file. The sections `eval`, `validate` and `report` hold further options of these commands."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    benchmark: str = "sample"
    scheme: str | None = None
    answers: str | None = None
    models: list[str] = []
    judges: list[str] = Field(default=["local"], min_length=1)
    run: str = ""
    raters: list[str] = []
    answers_per_rater: int | None = Field(default=None, ge=1)
    physicians: str | None = None
    gate: str | dict[str, Any] | None = None
    eval: _Options = {}
    validate_: _Options = Field(default={}, alias="validate")
    report: _Options = {}

    @field_validator("eval", "validate_", "report")
    @classmethod
    def _names_options_and_no_server(cls, section: _Options) -> _Options:
        for name in section:
            if not re.fullmatch("[a-z][a-z0-9_-]*", name):
                raise ValueError(f"{name[:60]!r} is no option; write its name without the dashes, as samples: 3")
            if name.replace("_", "-").endswith("base-url"):
                raise ValueError(f"{name}: a project file may not choose where your key is sent; set OPENAI_BASE_URL")
        return section

    @field_validator("run", "benchmark", "scheme", "answers", "physicians")
    @classmethod
    def _is_no_option(cls, value: str | None) -> str | None:
        if value is not None and value.startswith("-"):
            raise ValueError(f"{value[:60]!r} would be read as an option; write ./{value[:60]}")
        return value

    @property
    def run_folder(self) -> str:
        """The run folder; that of the benchmark unless stated."""
        return self.run or str(Path("runs") / Path(self.benchmark).stem)


def read_project(path: Path = PROJECT_FILE) -> Project:
    """Reads a project file.

    Raises:
        InputError: The file is missing, is no YAML mapping, or an entry is unknown or wrong.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file or directory; `medjudge init` writes one")
    fields = read_yaml(path)
    if not isinstance(fields, dict):
        raise InputError(f"{path}: a mapping is expected, such as `benchmark: sample`; `medjudge init` writes one")
    known = [field.alias or name for name, field in Project.model_fields.items()]
    for name in fields:
        if name not in known:
            near = get_close_matches(str(name), known, 1)
            hint = f"did you mean {near[0]}?" if near else f"the entries are {', '.join(known)}"
            raise InputError(f"{path}: {name}: no such entry; {hint}")
    # An entry without a value is one that was emptied, not a wrong one.
    try:
        project = Project.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        raise InputError(f"{path}: {first_problem(error)}; `medjudge init` writes an example") from None
    if project.answers and project.models:
        raise InputError(
            f"{path}: answers and models: keep one of the two; models answer, or existing answers are judged"
        )
    return project


def write_project(
    benchmark: str, answers: str | None, models: Sequence[str], judges: Sequence[str], raters: Sequence[str]
) -> Path:
    """Writes a commented project file into the current folder.

    Raises:
        InputError: There is one already, or both answers and models are named.
    """
    if PROJECT_FILE.exists():
        raise InputError(f"{PROJECT_FILE}: exists already; edit it, or remove it first")
    if answers and models:
        raise InputError("--model and --answers: give one of the two; a model answers, or existing answers are judged")
    text = _TEMPLATE.format(
        benchmark=_listed([benchmark])[1:-1],
        answers=f"answers: {_listed([answers])[1:-1]}" if answers else "# answers: answers.jsonl",
        models=f"models: {_listed(models)}" if models else "# models: [./my-model]",
        judges=_listed(judges)[1:-1],
        run=_listed([str(Path("runs") / Path(benchmark).stem)])[1:-1],
        raters=f"raters: {_listed(raters)}" if raters else "# raters: [dr-a, dr-b]",
    )
    write_whole(PROJECT_FILE, text, private=False)
    return PROJECT_FILE


def study_commands(project: Project) -> Iterator[list[str]]:
    """The commands of a study, as words; what comes after the judging depends on what the run holds by then."""
    run = project.run_folder
    asked = {"benchmark": project.benchmark, "scheme": project.scheme, "answers": project.answers}
    shared = _option_words({**asked, "model": project.models})
    # The first judge comes last: a report shows the judge that judged last.
    for judge in reversed(project.judges):
        yield ["eval", *shared, "--judge", judge, "--run", run, *_option_words(project.eval)]
    if project.raters and not plan_file(Run(Path(run))).exists():
        yield ["annotate", "export", run, *_option_words({"rater": project.raters, "each": project.answers_per_rater})]
    if has_scores(project):
        gate = str(PROJECT_FILE) if isinstance(project.gate, dict) else project.gate
        options = _option_words({"physicians": project.physicians, "gate": gate, **project.validate_})
        for judge in project.judges:
            yield ["validate", run, "--judge", judge, *options]
    yield ["report", run, *_option_words(project.report)]


def has_scores(project: Project) -> bool:
    """True if there are physicians' scores."""
    return project.physicians is not None or Run(Path(project.run_folder)).physicians_file.exists()


def _option_words(options: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif isinstance(value, list):
            words += [word for item in value for word in (option, str(item))]
        elif value is not None and value is not False:
            words += [option, str(value)]
    return words


def _listed(texts: Sequence[str]) -> str:
    return yaml.safe_dump(list(texts), default_flow_style=True, allow_unicode=True, width=10**6).strip()
