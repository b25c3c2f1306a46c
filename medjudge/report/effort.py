"""What a run took: tokens and time of the answers and judgments, and what requests to servers cost."""

from collections.abc import Iterable
from typing import NamedTuple

from medjudge.report.contents import Contents


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
    """What the answers and one judge of a run took; `usd` is for all requests of the run, None where unknown."""

    answers: list[Effort]
    judgments: Effort
    usd: float | None

    @property
    def known(self) -> bool:
        """Whether anything but the counts is known."""
        efforts = [*self.answers, self.judgments]
        return self.usd is not None or any(effort.tokens_out is not None or effort.seconds for effort in efforts)


def effort(run: Contents, judge: str) -> RunEffort:
    """Gathers what a run took from its answers and its manifest."""
    answers = []
    for model in run.models:
        own = [answer for answer in run.answers if answer.model == model]
        seconds = run.manifest.get("models", {}).get(model, {}).get("seconds") or None
        tokens_in, tokens_out = _mean(answer.tokens_in for answer in own), _mean(answer.tokens_out for answer in own)
        answers.append(Effort(model, len(own), tokens_in, tokens_out, seconds))
    seconds = run.manifest.get("judges", {}).get(judge, {}).get("seconds") or None
    spending = run.manifest.get("spending") or {}
    return RunEffort(answers, Effort(judge, len(run.judgments[judge]), None, None, seconds), spending.get("usd"))


def _mean(counts: Iterable[int | None]) -> float | None:
    known = [count for count in counts if count is not None]
    return sum(known) / len(known) if known else None


def duration(seconds: float | None) -> str:
    """A time as people read it: `12.3 s`, `35 min`, `2.5 h`."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
