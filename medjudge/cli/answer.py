"""`medjudge answer`: only the answers."""

from dataclasses import dataclass
from shlex import quote

from medjudge.cli import groups
from medjudge.cli.options import flags


@dataclass(kw_only=True)
class Answer(groups.Screen, groups.Answering, groups.Questions):
    """The options of `medjudge answer`."""


@flags
def answer(options: Answer) -> None:
    """Answer a benchmark's questions with models."""
    options.require_files()
    from medjudge.cli.output import console
    from medjudge.workflows.answer import answer_questions

    result = answer_questions(
        options.benchmark,
        scheme=options.scheme,
        models=options.model,
        run=options.run,
        limit=options.limit,
        options=options.answering(),
        offline=options.offline,
        choice=options.choice(),
    )
    made = {"run": str(result.run.path), "answers": len(result.answers), "empty": result.empty}
    console(options.as_json, made).print(f"{result}; next: medjudge eval {quote(str(result.run.path))}")
