"""The records of a run that a report reads, once for all of its parts."""

from collections.abc import Sequence
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
