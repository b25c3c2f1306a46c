"""Which runs share a leaderboard."""

from typing import NamedTuple

from medjudge.files import file_sha256
from medjudge.store import Run


class BoardKey(NamedTuple):
    """What two runs must share to be on one leaderboard: questions and scheme, the judge and what it is made from."""

    benchmark: str
    scheme_sha256: str
    judge: str
    judge_sha256: str | None


def board_key(run: Run, judge: str) -> BoardKey:
    """The leaderboard that a run's rates by a judge belong to."""
    card = run.manifest().get("judges", {}).get(judge, {})
    return BoardKey(file_sha256(run.questions_file), run.scheme().sha256, judge, card.get("sha256"))
