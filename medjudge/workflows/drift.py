"""`medjudge validate --since`: the earlier study that new physicians' scores are compared with."""

from pathlib import Path

from medjudge.errors import InputError
from medjudge.records import CONSTRUCTED
from medjudge.store import Run
from medjudge.validation.drift import Earlier
from medjudge.validation.pairs import paired
from medjudge.validation.validations import use_in


def earlier_study(since: Path, judge: str, run: Run) -> Earlier:
    """Reads the judgments and physicians' scores of an earlier run, but for conversations that the judge had seen.

    Args:
        since: The earlier run.
        judge: The judge's name.
        run: The run of the new scores.

    Raises:
        InputError: It is no run or the same one, it has another scheme, or the judge and physicians scored no answer
            in it.
    """
    earlier = Run.existing(since)
    if since.resolve() == run.path.resolve():
        raise InputError(f"--since {since}: is the run itself; name the run folder of an earlier study")
    if judge not in earlier.judges():
        existing = ", ".join(earlier.judges()) or "none"
        raise InputError(f"--since {since}: no judgments of {judge} in it; it has: {existing}")
    if earlier.scheme().name != run.scheme().name:
        raise InputError(
            f"--since {since}: its questions belong to scheme {earlier.scheme().name}, and those of {run.path} to "
            f"{run.scheme().name}"
        )
    scores = earlier.settled_scores()
    scores = [score for score in scores if score.rater != CONSTRUCTED] or scores
    if not scores:
        raise InputError(
            f"--since {since}: has no {earlier.physicians_file.name}; copy the file of scores of its study there, as "
            "JSON lines"
        )
    questions = earlier.questions()
    entry = earlier.manifest().get("judges", {}).get(judge, {})
    seen_ids = set(entry.get("seen_question_ids", ()))
    seen = {question.group for question in questions if question.id in seen_ids}
    unseen = {question.id for question in questions if question.group not in seen}
    judgments = [judgment for judgment in earlier.judgments(judge) if judgment.question_id in unseen]
    in_it = [score for score in scores if score.question_id in unseen]
    pairs = paired(questions, judgments, in_it, (), earlier.scheme())
    if len(pairs.judge) == 0:
        raise InputError(f"--since {since}: no answer in it has both a score of {judge} and a physician's")
    return Earlier(earlier.path.resolve().name, pairs, use_in(earlier, judge).judge_sha256)
