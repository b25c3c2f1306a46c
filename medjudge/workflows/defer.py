"""`medjudge eval --defer-to-physicians`: lists the answers that a judge is least sure of."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medjudge.errors import InputError
from medjudge.files import write_whole
from medjudge.judge.open import AnyRef
from medjudge.records import AnswerKey
from medjudge.rounds import mean_probabilities, scored_rounds
from medjudge.scale import LEVELS, USABLE_FROM
from medjudge.statistics.conformal import Conformal, most_uncertain, usable_sets
from medjudge.store import Run
from medjudge.validation.status import measured_in_use
from medjudge.validation.validations import conformal_of, use_in, validations


class Deferred(NamedTuple):
    """How many answers were listed, where, and how they were chosen."""

    answers: int
    file: Path
    by: str


def defer(run: Run, judge_ref: AnyRef, share: float) -> Deferred:
    """Lists the most uncertain answers, most informative first; unscored ones come before all others.

    Answers that physicians scored already are not listed.

    Where the judge was validated against physicians with enough conversations, answers whose conformal set does not
    hold exactly one of usable and unusable come first; then by nearness of P(usable) to one half.

    Args:
        share: Of the answers, 0 to 1.

    Raises:
        InputError: The judge gives no probabilities.
    """
    known = {score.answer_key for score in run.physician_scores()}
    rounds_of_all = scored_rounds(run.judgments(judge_ref.name))
    rounds = {key: judgments for key, judgments in rounds_of_all.items() if key not in known}
    unscored = [answer.key for answer in run.answers() if answer.key not in rounds and answer.key not in known]
    keys = list(rounds)
    probabilities = np.array([mean_probabilities(rounds[key]) for key in keys]).reshape(-1, LEVELS)
    if not np.isfinite(probabilities).all():
        raise InputError(f"--defer-to-physicians: judge {judge_ref.name} gives no probabilities; use a local judge")
    usable = probabilities[:, USABLE_FROM - 1 :].sum(axis=1)
    studies = validations(run, judge_ref.name)
    conformal = conformal_of(measured_in_use(studies, use_in(run, judge_ref.name)))
    sets = None if conformal is None else usable_sets(conformal, probabilities)
    lines = [deferred_line(key, None, conformal) for key in unscored]
    lines += [
        deferred_line(keys[position], probabilities[position], conformal)
        for position in most_uncertain(usable, 1.0, sets)
    ]
    listed = lines[: int(np.ceil(round(share * len(lines), 9)))]
    write_whole(run.deferred_file, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in listed))
    by = "by nearness of P(usable) to one half"
    if conformal is not None:
        by = f"conformal sets at error rate {conformal.error_rate:g} first, then {by}"
    elif conformal_of(studies) is not None:
        by = f"{by}; the thresholds of the conformal sets are stale: validate the judge again"
    if already := sum(answer.key in known for answer in run.answers()):
        by = f"{by}; {already} that physicians scored already are not among them"
    return Deferred(len(listed), run.deferred_file, by)


def deferred_line(key: AnswerKey, probabilities: np.ndarray | None, conformal: Conformal | None) -> dict[str, Any]:
    """A line of the list for physicians.

    Args:
        probabilities: The judge's, shape (5,); None where it gave none.
        conformal: The thresholds of its sets, if it was validated.
    """
    if probabilities is None or not np.isfinite(probabilities).all():
        return {**key._asdict(), "usable_probability": None, "not_ruled_out": None}
    labels = None
    if conformal is not None:
        inside = usable_sets(conformal, probabilities[None])[0]
        labels = [name for name, possible in zip(("unusable", "usable"), inside, strict=True) if possible]
    usable = round(float(probabilities[USABLE_FROM - 1 :].sum()), 4)
    return {**key._asdict(), "usable_probability": usable, "not_ruled_out": labels}
