"""The records of a run that a report reads, once for all of its parts."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.files import file_sha256
from medjudge.judge.study_summary import AgainstKind
from medjudge.records import CONSTRUCTED, Answer, Judgment, PhysicianScore, Question
from medjudge.scheme import Scheme
from medjudge.store import Run


class Contents(NamedTuple):
    """The records of a run.

    `benchmark` is the sha256 of its questions. `judgments` holds the last judge used first. `against_kind` says whose
    `scores` these are: physicians', with the agreed scores that settle some of them, or the levels that answers were
    constructed to deserve.
    """

    run: Run
    scheme: Scheme
    name: str
    manifest: dict[str, Any]
    benchmark: str
    questions: list[Question]
    answers: list[Answer]
    judgments: dict[str, list[Judgment]]
    scores: list[PhysicianScore]
    against_kind: AgainstKind

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(answer.model for answer in self.answers))

    def seen(self, judge: str) -> set[str]:
        """The questions that a judge was trained or tuned on."""
        return set(self.manifest.get("judges", {}).get(judge, {}).get("seen_question_ids", []))


def read_contents(run: Run, judge: str | None = None) -> Contents:
    """Reads a run folder.

    Args:
        judge: Whose judgments to read; those of all judges unless given.

    Raises:
        InputError: A record breaks a rule.
    """
    manifest, scores = run.manifest(), run.settled_scores()
    of_physicians = [score for score in scores if score.rater != CONSTRUCTED]
    last = run.last_judge
    judges = [judge] if judge else sorted(run.judges(), key=lambda name: name != last)
    return Contents(
        run=run,
        scheme=run.scheme(),
        name=run.path.resolve().name,
        manifest=manifest,
        benchmark=file_sha256(run.questions_file),
        questions=run.questions(),
        answers=run.answers(),
        judgments={name: run.judgments(name) for name in judges},
        # Constructed levels are not physicians' scores, and do not count with them.
        scores=of_physicians or scores,
        against_kind=AgainstKind.CONSTRUCTED if scores and not of_physicians else AgainstKind.PHYSICIANS,
    )


def read_runs(runs: Sequence[Run], judges: Sequence[str] = ()) -> list[Contents]:
    """Reads run folders, each under a name that no other has: with as many folders above as distinguish them.

    Args:
        judges: Whose judgments to read of each run; those of all judges unless given.

    Raises:
        InputError: A record breaks a rule.
    """
    paths = [run.path.resolve() for run in runs]
    return [
        read_contents(run, judge)._replace(name=_name_among(path, [other for other in paths if other != path]))
        for run, path, judge in zip_longest(runs, paths, judges)
    ]


def _name_among(path: Path, others: Sequence[Path]) -> str:
    parts = path.parts
    for length in range(1, len(parts)):
        if all(other.parts[-length:] != parts[-length:] for other in others):
            return "/".join(parts[-length:])
    return str(path)


class Effort(NamedTuple):
    """One model's or judge's share: tokens are means per answer, None where the records do not say; time in seconds."""

    name: str
    items: int
    tokens_in: float | None
    tokens_out: float | None
    seconds: float | None

    @property
    def per_item(self) -> float | None:
        """Seconds for one answer or judgment."""
        return self.seconds / self.items if self.seconds and self.items else None


class RunEffort(NamedTuple):
    """Tokens and time of a run's answers and of one judge; `usd` is for all requests of the run, None where unknown."""

    answers: list[Effort]
    judgments: Effort
    usd: float | None

    @property
    def known(self) -> bool:
        """True if anything but the counts is known."""
        efforts = [*self.answers, self.judgments]
        return self.usd is not None or any(effort.tokens_out is not None or effort.seconds for effort in efforts)


def effort(run: Contents, judge: str) -> RunEffort:
    """Gathers what a run took from its answers and its manifest."""

    def seconds(kind: str, name: str) -> float | None:
        return run.manifest.get(kind, {}).get(name, {}).get("seconds") or None

    answers = []
    for model in run.models:
        own = [answer for answer in run.answers if answer.model == model]
        tokens_in, tokens_out = _mean(answer.tokens_in for answer in own), _mean(answer.tokens_out for answer in own)
        answers.append(Effort(model, len(own), tokens_in, tokens_out, seconds("models", model)))
    judgments = Effort(judge, len(run.judgments[judge]), None, None, seconds("judges", judge))
    return RunEffort(answers, judgments, (run.manifest.get("spending") or {}).get("usd"))


def _mean(counts: Iterable[int | None]) -> float | None:
    known = [count for count in counts if count is not None]
    return sum(known) / len(known) if known else None
