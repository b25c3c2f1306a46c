"""The finding of a leaderboard, in sentences and a banner: who leads, how sure that is, whether to trust the judge."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from medjudge.judge.study_summary import AgainstKind
from medjudge.report.boards import Board
from medjudge.report.paired import Difference
from medjudge.report.words import Words
from medjudge.validation.other_judges import FEWEST_CONVERSATIONS
from medjudge.validation.records import Study
from medjudge.validation.status import ValidationState, ValidationStatus
from medjudge.validation.usability import ModelUsability

_NAMED = 2
"""Models that a sentence names; more are counted."""


class Banner(NamedTuple):
    """The judge's validation in a line, with the overall state."""

    state: ValidationState
    line: Markup


def verdict(board: Board, studies: Sequence[Study], words: Words) -> list[Markup]:
    """Who leads, how sure that is, and whether the judge may be trusted: a sentence each.

    Args:
        studies: The judge's, of the board's runs.
    """
    return [_leader(board, words), _certainty(board, words), _trust(board.validation_status["OP"], studies, words)]


def banner(statuses: Mapping[str, ValidationStatus], words: Words) -> Banner:
    """The columns by their state; where all share one, what it means."""
    overall = statuses["OP"].state
    columns: dict[ValidationState, list[str]] = {}
    for column, status in statuses.items():
        if column != "OP":
            columns.setdefault(status.state, []).append(column)
    if len(columns) < 2 and overall in columns:
        return Banner(overall, words(MEANING[overall]))
    parts = [f"{', '.join(names)} {words(state)}" for state, names in columns.items()]
    return Banner(overall, Markup("{}.").format("; ".join(parts)))


MEANING = {
    ValidationState.VALIDATED: "In every category the judge passed the checks against physicians' scores.",
    ValidationState.FAILED: "In every category the judge failed a check against physicians' scores.",
    ValidationState.INCONCLUSIVE: "In no category do physicians' scores suffice to pass or fail the judge.",
    ValidationState.STALE: "The judge was validated under other conditions than it is used in here.",
    ValidationState.NEVER_VALIDATED: "No physicians' scores stand behind these rates.",
}


def _leader(board: Board, words: Words) -> Markup:
    first = next(iter(board.models), None)
    if first is None or board.models[first].overall.rate is None:
        return words("No answer has a score yet.")
    values = {**_rate(board.models[first]), "model": _name(first)}
    others = [name for name in board.models if name != first]
    tied = [name for name in others if board.ties[name].tie]
    if not others:
        return words("{model} answers {rate} % of {n} questions usably ({low} to {high}).", **values)
    if not tied:
        return words("{model} leads: it answers {rate} % of {n} questions usably ({low} to {high}).", **values)
    leads = words("{model} has the highest rate: {rate} % of {n} questions ({low} to {high})", **values)
    if len(tied) <= _NAMED:
        named = words(" and ").join(map(_name, tied))
        return words("{leads}; {named} may be as good.", leads=leads, named=named)
    if len(tied) == len(others):
        return words("{leads}; any of the {n} others may be as good.", leads=leads, n=len(tied))
    return words("{leads}; {n} of the {others} others may be as good.", leads=leads, n=len(tied), others=len(others))


def _rate(usability: ModelUsability) -> dict[str, str]:
    rate = usability.overall
    numbers = {"rate": rate.rate, "low": rate.low, "high": rate.high}
    return {name: f"{number or 0:.1f}" for name, number in numbers.items()} | {"n": f"{rate.questions:,}"}


def _certainty(board: Board, words: Words) -> Markup:
    sentence = _margin(board, words)
    if not board.coverage.unscored:
        return sentence
    counts = {"unscored": f"{board.coverage.unscored:,}", "answers": f"{board.coverage.answers:,}"}
    missing = words("{unscored} of {answers} answers have no score and count as not usable.", **counts)
    return Markup("{} {}").format(sentence, missing)


def _margin(board: Board, words: Words) -> Markup:
    if board.conversations < FEWEST_CONVERSATIONS:
        counts = {"n": board.conversations, "fewest": FEWEST_CONVERSATIONS}
        return words("{n} conversations are too few to tell models apart; it takes {fewest}.", **counts)
    second = next((name for name in list(board.models)[1:] if name in board.ties), None)
    if second is None:
        return words("There is no other model to compare with.")
    values = {"model": _name(second), **_points(board.ties[second])}
    if board.ties[second].tie:
        return words("The lead over {model}, {points} points ({low} to {high}), may be chance.", **values)
    return words("The lead over {model}, {points} points ({low} to {high}), is more than chance.", **values)


def _points(difference: Difference) -> dict[str, str]:
    """A lead instead of a difference: the signs turned, and the ends with them."""
    points = {"points": -difference.value, "low": -difference.high, "high": -difference.low}
    return {name: f"{number + 0.0:.1f}" for name, number in points.items()}


def _trust(status: ValidationStatus, studies: Sequence[Study], words: Words) -> Markup:
    study = next((study for study in studies if study.against_kind == AgainstKind.PHYSICIANS), None)
    sentence = words(ADVICE[status.state])
    if study is None:
        return sentence
    agreement = study.overall["usable_agreement"]
    values = {"percent": f"{100 * (agreement['value'] or 0):.1f}", "n": f"{study.n:,}"}
    if agreement["low"] is not None and agreement["high"] is not None:
        values["percent"] += f" % ({100 * agreement['low']:.0f}–{100 * agreement['high']:.0f})"
    else:
        values["percent"] += " %"
    said = words("It agrees with physicians on usable in {percent} of {n} answers.", **values)
    return Markup("{} {}").format(sentence, said)


ADVICE = {
    ValidationState.VALIDATED: "The judge may be trusted on questions like these: it passed its validation.",
    ValidationState.FAILED: "Do not rely on the judge: it failed its validation.",
    ValidationState.INCONCLUSIVE: "Whether the judge may be trusted is open: too few physicians' scores to decide.",
    ValidationState.STALE: "Validate the judge again before you rely on it: what it was validated with has changed.",
    ValidationState.NEVER_VALIDATED: "Do not act on these rates yet: the judge was never compared with physicians.",
}


def _name(model: str) -> Markup:
    return Markup("<b><bdi>{}</bdi></b>").format(model)
