"""The finding of a leaderboard, in sentences and a banner: who leads, how sure that is, whether to trust the judge."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup

from medjudge.judge.study_summary import AgainstKind, CheckKind, CheckState, GateResult
from medjudge.report.boards import Board
from medjudge.report.paired import Difference
from medjudge.report.words import Words, isolated
from medjudge.statistics.estimates import Estimate
from medjudge.validation.gate import probe_requirement
from medjudge.validation.other_judges import FEWEST_CONVERSATIONS
from medjudge.validation.records import Study
from medjudge.validation.status import ValidationState, ValidationStatus, gate_state
from medjudge.validation.usability import ModelUsability

_NAMED = 2
"""Models that a sentence names; more are counted."""


class Banner(NamedTuple):
    """The judge's validation in a line, with the overall state."""

    state: ValidationState
    line: Markup


def verdict(board: Board, studies: Sequence[Study], words: Words, has_scores: bool = True) -> list[Markup]:
    """Who leads, how sure that is, and whether the judge may be trusted: a sentence each.

    Args:
        studies: The judge's, of the board's runs.
        has_scores: Whether the page has the scores that errors of the judge link to.
    """
    trust = _trust(board.validation_status["OP"], studies, words, has_scores)
    few = few_answers(board.models, words)
    return [few, trust] if few else [_leader(board, words), _certainty(board, words), trust]


def few_answers(models: Mapping[str, ModelUsability], words: Words) -> Markup | None:
    """A note on models that answered fewer than half of the questions; None where none did."""
    few = [
        words(
            "{model} answered {n} of {questions}",
            model=isolated(model),
            n=f"{rate.answered:,}",
            questions=f"{rate.questions:,}",
        )
        for model, rate in ((model, rates.overall) for model, rates in models.items())
        if rate.mostly_unanswered
    ]
    if not few:
        return None
    return words(
        "Most questions have no answer: {few}. Instead of a rate, the usable ones of the answered questions are "
        "counted. {option} with another run folder leaves the unanswered questions out.",
        few=words(", ").join(few),
        option=Markup("<code>eval --answered-only</code>"),
    )


def few_answers_line(models: Mapping[str, ModelUsability]) -> str | None:
    """The same note as plain text, for screens and tables."""
    said = few_answers(models, Words())
    return said and said.striptags()


def other_orders(board: Board, boards: Sequence[Board], words: Words) -> list[Markup]:
    """A sentence for each other judge of the same runs that orders models otherwise."""
    said = []
    for other in boards:
        same_runs = [run.path for run in other.judged] == [run.path for run in board.judged]
        pairs = _opposite(board.models, other.models) if same_runs else []
        if not pairs:
            continue
        first, second = pairs[0]
        values = {"judge": isolated(other.judge), "first": isolated(second), "second": isolated(first)}
        if len(pairs) == 1:
            said.append(words("Judge {judge} disagrees on the order: it ranks {first} above {second}.", **values))
        else:
            text = (
                "Judge {judge} disagrees on the order of {n} pairs of models: it ranks {first} above {second}, for one."
            )
            said.append(words(text, n=len(pairs), **values))
    return said


def _opposite(one: Mapping[str, ModelUsability], other: Mapping[str, ModelUsability]) -> list[tuple[str, str]]:
    """Pairs of models of which the first is above the second by the one's rates, and below by the other's.

    A model that answered fewer than half of the questions has no rank.
    """
    pairs = []
    ranked = [model for model, rates in one.items() if model in other and not rates.overall.mostly_unanswered]
    for first, second in combinations(ranked, 2):
        rates = [models[model].overall.rate for models in (one, other) for model in (first, second)]
        known = [rate for rate in rates if rate is not None]
        if len(known) == 4 and known[0] > known[1] and known[2] < known[3]:
            pairs.append((first, second))
    return pairs


def banner(statuses: Mapping[str, ValidationStatus], words: Words) -> Banner:
    """The columns by their state; where all share one, what it means."""
    overall = statuses["OP"].state
    columns: dict[ValidationState, list[str]] = {}
    for column, status in statuses.items():
        if column != "OP":
            columns.setdefault(status.state, []).append(column)
    if len(columns) < 2 and overall in columns:
        return Banner(overall, words(MEANING[overall]))
    parts = [
        words("{columns} {state}", columns=words(", ").join(names), state=words(state))
        for state, names in columns.items()
    ]
    return Banner(overall, words("{sentence}.", sentence=words("; ").join(parts)))


MEANING = {
    ValidationState.VALIDATED: "In every category the judge passed the checks against physicians' scores.",
    ValidationState.CUSTOM_GATE: "The judge passed a custom gate, not the default one.",
    ValidationState.FAILED: "In every category the judge failed a check against physicians' scores.",
    ValidationState.INCONCLUSIVE: "In no category has the judge failed a check, and in none has it passed all.",
    ValidationState.STALE: "The judge was validated under other conditions than it is used in here.",
    ValidationState.NEVER_VALIDATED: "These rates are the judge's alone: it was never compared with physicians.",
}


def _leader(board: Board, words: Words) -> Markup:
    first = next(iter(board.models), None)
    if first is None or board.models[first].overall.rate is None:
        return words("No answer has a score yet.")
    overall = board.models[first].overall
    if overall.low is None:
        counts = {"usable": overall.usable, "n": f"{overall.questions:,}"}
        return words("{model} answers {usable} of {n} questions usably.", model=_name(first), **counts)
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
    return words.sentences(sentence, missing)


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
    assert difference.low is not None  # there are conversations enough to tell models apart
    assert difference.high is not None
    points = {"points": -difference.value, "low": -difference.high, "high": -difference.low}
    return {name: f"{number + 0.0:.1f}" for name, number in points.items()}


def _trust(status: ValidationStatus, studies: Sequence[Study], words: Words, has_scores: bool) -> Markup:
    study = next((study for study in studies if study.against_kind == AgainstKind.PHYSICIANS), None)
    if study is None:
        return words(ADVICE[status.state])
    counted = gate_state(study.gate) == status.state
    sentence = _counted(study.gate, status.state, words) if counted else words(ADVICE[status.state])
    agreement = study.overall["usable_agreement"]
    said = words(
        "It agrees with physicians on usable in {percent} of {n} answers.",
        percent=_percent(agreement, words),
        n=f"{study.n:,}",
    )
    probe = _worst_probe(study, words) if study.gate.passed else None
    errors = _errors(study, words, has_scores)
    return words.sentences(*(part for part in (sentence, *errors, said, probe) if part))


def _errors(study: Study, words: Words, has_scores: bool) -> list[Markup]:
    """The judge's errors in both directions, the dangerous one first and linked to these answers."""
    if not study.danger:
        return []
    danger, strict = [words("It {does}.", does=words.known(does)) for does in (study.danger, study.strictness)]
    query = urlencode({"judge": study.judge, "apart": "danger", "order": "apart"})
    linked = Markup('<a href="#answers?{}">{}</a>').format(query, danger)
    return [linked if has_scores else danger, strict]


def _percent(share: Estimate, words: Words) -> Markup:
    """A share in percent, with its interval where there is one."""
    value, low, high = (None if end is None else 100 * end for end in (share["value"], share["low"], share["high"]))
    if low is None or high is None:
        return words("{value} %", value=f"{value or 0:.1f}")
    return words("{value} % ({low}–{high})", value=f"{value or 0:.1f}", low=f"{low:.0f}", high=f"{high:.0f}")


def _counted(gate: GateResult, state: ValidationState, words: Words) -> Markup:
    """The checks behind a state, counted; those that failed or are open are named."""
    checks = gate.in_state(_CHECKS[state])
    named = words("; ").join(words.known(check.check) or "" for check in checks[:_CHECKS_NAMED])
    if len(checks) > _CHECKS_NAMED:
        named = words("{named}; and {n} more", named=named, n=len(checks) - _CHECKS_NAMED)
    return words(COUNTED[state], n=len(checks), total=len(gate.checks), named=named)


def _worst_probe(study: Study, words: Words) -> Markup | None:
    """The probe with the most flips among those that the gate leaves out or allows more than the default gate does."""
    if study.probes is None:
        return None
    outside: dict[str, float] = {}
    checked = {check.part for check in study.gate.checks if check.kind == CheckKind.PROBE_FLIPS}
    for name, effect in study.probes.effects.items():
        allowed, flips = probe_requirement(study.scheme.gate, name), effect.flips["value"] or 0
        if name not in checked or (allowed is not None and flips > allowed):
            outside[name] = flips
    worst = max(outside, key=outside.__getitem__, default=None)
    if worst is None or not outside[worst]:
        return None
    values: dict[str, object] = {
        "probe": worst,
        "percent": f"{100 * outside[worst]:.1f}",
        "n": study.probes.effects[worst].n,
    }
    allowed = probe_requirement(study.scheme.gate, worst)
    if worst in SPOILED:
        values["what"] = words(SPOILED[worst])
        return words("{percent} % of {n} answers {what} (probe {probe}).", **values)
    if allowed is None:
        return words("Probe {probe}, which the gate leaves out, flips {percent} % of {n} answers.", **values)
    values["limit"] = f"{100 * allowed:g}"
    return words("Probe {probe} flips {percent} % of {n} answers; the default gate allows {limit} %.", **values)


SPOILED = {
    "fluent-wrong": "became usable when a wrong answer was worded fluently",
    "only-praise": "were usable although praise stood in their place",
    "only-yes": "were usable although nothing but agreement stood in their place",
    "echo": "were usable although they only repeated the question",
    "negated": "stayed usable after they were denied",
    "append-harm": "stayed usable after a dangerous instruction was added",
}
"""By probe, what a judge does wrong with answers that the probe spoils: none of them may be usable."""

_CHECKS_NAMED = 3
"""Checks that the first screen names; the tab on validation has all."""

_CHECKS = {
    ValidationState.VALIDATED: CheckState.PASSED,
    ValidationState.CUSTOM_GATE: CheckState.PASSED,
    ValidationState.FAILED: CheckState.FAILED,
    ValidationState.INCONCLUSIVE: CheckState.INCONCLUSIVE,
}

COUNTED = {
    ValidationState.VALIDATED: "The judge passed {n} of {total} checks of the default gate.",
    ValidationState.CUSTOM_GATE: "The judge passed {n} of {total} checks of a custom gate, not the default one.",
    ValidationState.FAILED: "Do not rely on the judge: it failed {n} of {total} checks ({named}).",
    ValidationState.INCONCLUSIVE: "Whether to rely on the judge is open: {n} of {total} checks undecided ({named}).",
}
"""By state, where the checks are known."""

ADVICE = {
    ValidationState.VALIDATED: "The judge passed every check of the default gate.",
    ValidationState.CUSTOM_GATE: "The judge passed every check of a custom gate, not the default one.",
    ValidationState.FAILED: "Do not rely on the judge: it failed its validation.",
    ValidationState.INCONCLUSIVE: "Whether to rely on the judge is open: some checks are undecided.",
    ValidationState.STALE: "Validate the judge again before you rely on it: what it was validated with has changed.",
    ValidationState.NEVER_VALIDATED: "Do not act on these rates yet: the judge was never compared with physicians.",
}


def _name(model: str) -> Markup:
    return Markup("<b><bdi>{}</bdi></b>").format(model)
