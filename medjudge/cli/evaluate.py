"""`medjudge eval`: the answer-and-judge benchmark."""

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Literal, Optional

import typer

from medjudge.cli import groups, options
from medjudge.cli.options import ANSWERING, JUDGING, SERVERS, argument, flags, option, rare
from medjudge.errors import InputError

if TYPE_CHECKING:
    from medjudge.judge.open import JudgeOptions
    from medjudge.workflows.cost_estimate import CostEstimate
    from medjudge.workflows.evaluate import Evaluation, EvaluationRequest


@dataclass(kw_only=True)
class Evaluate(groups.Screen, groups.LocalJudging, groups.Answering, groups.Questions):
    """The options of `medjudge eval`."""

    folder: Optional[Path] = argument(None, "RUN", "Run folder whose answers to judge; the same as --run.")
    answers: Optional[list[Path]] = option(None, "FILE", "Existing answers: .jsonl, .json, .csv, .xlsx. Repeatable.")
    answered_only: bool = option(False, None, "Use only the questions that have an answer.")
    model: Optional[list[str]] = option(  # type: ignore[assignment]  # `medjudge answer` needs one
        None, "MODEL", "Model that answers first: folder, hub id, or openai:MODEL. Repeatable.", ANSWERING
    )
    judge: options.JudgeOrPanel = "local"
    rationale: int = rare(0, "N", "Tokens of rationale from a generative judge.", JUDGING, min=0)
    items: bool = option(
        False, None, "Also judge every item of the questions' rubrics or numbered checklists.", JUDGING
    )
    defer_to_physicians: Optional[float] = option(
        None,
        "SHARE",
        "Share of answers to list for physicians, the most uncertain first.",
        JUDGING,
        min=0.0,
        max=1.0,
    )
    dry_run: bool = option(False, None, "Estimate what an openai: judge would cost; send no request.", SERVERS)
    batch: bool = rare(False, None, "Use OpenAI's Batch API: submit now; the same command collects later.", SERVERS)
    wait: bool = rare(False, None, "With --batch: wait until everything is judged.", SERVERS)
    judge_engine: Optional[Literal["transformers", "ray"]] = rare(
        None,
        "transformers|ray",
        "What runs a local judge. Default: transformers, and ray with --engine ray.",
        JUDGING,
    )

    def __post_init__(self) -> None:
        if self.wait and not self.batch:
            raise InputError("--wait: belongs to --batch")
        self.require_files(*(self.answers or ()))
        self.run = self.named_run(self.folder)

    def judging(self) -> "JudgeOptions":
        """The options of `judge_answers`."""
        from medjudge.judge.api import reply_options

        options = super().judging()
        return options._replace(
            engine=self.judge_engine or ("transformers" if self.engine == "vllm" else self.engine),
            rationale_tokens=self.rationale,
            replies=reply_options(self.judge_tokens, self.thinking, self.thinking_tokens),
        )

    def request(self) -> "EvaluationRequest":
        """The request to `run_evaluation`."""
        from medjudge.workflows.evaluate import EvaluateOptions, EvaluationRequest

        choice, defer_share = self.choice(self.answered_only), self.defer_to_physicians
        options = EvaluateOptions(self.answering(), self.judging(), choice, self.items, defer_share, self.offline)
        models, answers = tuple(self.model or ()), tuple(self.answers or ())
        return EvaluationRequest(
            self.benchmark, self.scheme, models, answers, self.judge, self.run, self.limit, options
        )


@flags
def evaluate(options: Evaluate) -> None:
    """Judge a benchmark's answers: usability rates.

    With nothing but --judge, the bundled sample and its answers are judged; of a RUN, what it holds. Exits with 1 if an
    answer could not be scored.
    """
    from medjudge.cli.output import console
    from medjudge.workflows.cost_estimate import estimate_cost
    from medjudge.workflows.evaluate import InFlight, run_batch_evaluation, run_evaluation

    request = options.request()
    if options.dry_run:
        _print_cost(estimate_cost(request, options.batch), options.as_json)
        return
    result = run_batch_evaluation(request, options.wait) if options.batch else run_evaluation(request)
    if isinstance(result, InFlight):
        screen = console(options.as_json, result.as_json())
        for line in result.batch_jobs:
            screen.print(line)
        screen.print("The same command collects the judgments later; --wait waits for them.")
        return
    _print_evaluation(result, options.as_json)
    if not result.complete:
        raise typer.Exit(1)


def _print_evaluation(result: "Evaluation", as_json: bool) -> None:
    from medjudge.cli.output import console, leaderboard_table, print_json
    from medjudge.report.verdict import few_answers_line
    from medjudge.validation.usability import truncated_line

    screen = console(as_json)
    if few := few_answers_line(result.scores.models):
        screen.print(few)
    if as_json:
        items = {"items": result.items.model_dump(mode="json")} if result.items else {}
        print_json({**result.scores.as_json(), **items})
    else:
        title = f"Usability rates by judge {result.judge}, percent (95 % interval)"
        screen.print(leaderboard_table(result.scores.models, title, result.scores.validation_status))
    for note in result.notes:
        screen.print(note)
    answers, questions = result.scores.coverage, result.scores.questions
    why = f" ({answers.why})" if answers.unscored else ""
    screen.print(f"{answers.answers} answers judged, {answers.unscored} unscored{why}")
    screen.print(
        f"{questions.questions} questions: {questions.not_answered} not answered by any model, {questions.unscored} "
        "answered and without any score"
    )
    if truncated := truncated_line(result.scores.truncated):
        screen.print(truncated)
    screen.print(f"judge {result.judge}: {result.status_line}")
    if result.spent_usd is not None:
        screen.print(f"spent on this run in total: {result.spent_usd:.4f} USD ({result.run.spending_file})")
    if result.deferred is not None:
        screen.print(
            f"{result.deferred.answers} answers for physicians to look at, {result.deferred.by}: {result.deferred.file}"
        )
    if result.scores.panel is not None:
        for member in result.scores.panel.members:
            screen.print(f"member {member.line}")
        for member in result.scores.panel.members:
            if member.waiting:
                waiting = f"{member.waiting} answers not judged yet; the same command goes on with them"
                screen.print(f"{member.judge}: {waiting}")
    if result.items is not None:
        from medjudge.cli.study_screens import print_items

        print_items(result.items, screen)
    screen.print(f"{result.run.path / 'scores.json'}; next: medjudge report {quote(str(result.run.path))}")


def _print_cost(estimate: "CostEstimate | dict[str, CostEstimate]", as_json: bool) -> None:
    from medjudge.cli.output import console

    if isinstance(estimate, dict):
        members = {name: one.model_dump(mode="json") for name, one in estimate.items()}
        screen = console(as_json, {"members": members})
        for name, one in estimate.items():
            screen.print("\n".join([f"member {name}:", *(f"  {line}" for line in one.summary_lines())]))
        return
    screen = console(as_json, estimate.model_dump(mode="json"))
    for line in estimate.summary_lines():
        screen.print(line)
