"""`medjudge eval --defer-to-physicians`: the answers that a judge is least sure of, for physicians."""

import json
from math import ceil
from pathlib import Path
from typing import NamedTuple

import numpy as np

from medjudge.errors import InputError
from medjudge.files import write_whole
from medjudge.rounds import mean_probabilities, scored_rounds
from medjudge.scale import USABLE_FROM
from medjudge.store import Run


class Deferred(NamedTuple):
    """The number of listed answers, their file, and the way in which they were chosen."""

    answers: int
    file: Path
    by: str


def defer(run: Run, judge: str, share: float) -> Deferred:
    """Lists the most uncertain answers of a run in `for_physicians.jsonl`, those nearest to P(usable) one half first.

    Unscored answers come before all others. Answers that physicians scored already are not listed.

    Args:
        share: Of the answers, 0 to 1.

    Raises:
        InputError: The judge gives no probabilities.
    """
    known = {score.answer_key for score in run.physician_scores()}
    rounds = scored_rounds(run.judgments(judge))
    answers = [answer.key for answer in run.answers()]
    lines = [{**key._asdict(), "usable_probability": None} for key in answers if key not in rounds.keys() | known]
    scored = []
    for key, judgments in rounds.items():
        usable = float(mean_probabilities(judgments)[USABLE_FROM - 1 :].sum())
        if not np.isfinite(usable):
            raise InputError(f"--defer-to-physicians: judge {judge} gives no probabilities; use a local judge")
        if key not in known:
            # Rounded, so that 0.3 and 0.7 are a tie.
            scored.append((round(abs(usable - 0.5), 12), {**key._asdict(), "usable_probability": round(usable, 4)}))
    lines += [line for _, line in sorted(scored, key=lambda one: one[0])]
    listed = lines[: ceil(round(share * len(lines), 9))]
    write_whole(run.deferred_file, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in listed))
    by = "by nearness of P(usable) to one half"
    if already := sum(key in known for key in answers):
        by = f"{by}; {already} that physicians scored already are not among them"
    return Deferred(len(listed), run.deferred_file, by)
