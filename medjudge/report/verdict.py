"""The finding of a leaderboard, in sentences and a banner: who leads, how sure that is, whether to trust the judge."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from markupsafe import Markup

from medjudge.judge.study_summary import AgainstKind, CheckKind, CheckState, GateResult
from medjudge.report.boards import Board
from medjudge.report.words import Words, isolated
from medjudge.statistics.estimates import Estimate
from medjudge.validation.gate import probe_requirement
from medjudge.validation.other_judges import FEWEST_CONVERSATIONS
from medjudge.validation.records import Study
from medjudge.validation.status import ValidationState, ValidationStatus, gate_state
from medjudge.validation.usability import ModelUsability

_NAMED = 2
"""Models that a sentence names; more are counted."""


def verdict(board: Board, studies: Sequence[Study], words: Words, has_scores: bool = True) -> list[Markup]:
    """Who leads, how sure that is, and whether the judge may be trusted: a sentence each.

    Args:
        studies: The judge's, of the board's runs.
        has_scores: Whether the page has the scores that errors of the judge link to.
    """
    trust = _trust(board.validation_status["OP"], studies, words, has_scores)
    if few := few_answers(board.models, words):
        return [few, trust]
    sure = _margin(board, words)
    if board.coverage.unscored:
        counts = {"unscored": f"{board.coverage.unscored:,}", "answers": f"{board.coverage.answers:,}"}
        missing = words("{unscored} of {answers} answers have no score and count as not usable.", **counts)
        sure = words.sentences(sure, missing)
    return [_leader(board, words), sure, trust]


def few_answers(models: Mapping[str, ModelUsability], words: Words) -> Markup | None:
    """A note on models that answered fewer than half of the questions; None where none did."""
    few = []
    for model, rates in models.items():
        if rates.overall.mostly_unanswered:
            counts = {"n": f"{rates.overall.answered:,}", "questions": f"{rates.overall.questions:,}"}
            few.append(words("{model} answered {n} of {questions}", model=isolated(model), **counts))
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


def banner(statuses: Mapping[str, ValidationStatus], words: Words) -> Markup:
    """The judge's validation in a line: the columns by their state."""
    columns: dict[ValidationState, list[str]] = {}
    for column, status in statuses.items():
        if column != "OP":
            columns.setdefault(status.state, []).append(column)
    parts = [
        words("{columns} {state}", columns=words(", ").join(names), state=words(state))
        for state, names in columns.items()
    ]
    return words("{sentence}.", sentence=words("; ").join(parts))


def _leader(board: Board, words: Words) -> Markup:
    first, *others = board.models
    overall = board.models[first].overall
    if overall.rate is None:
        return words("No answer has a score yet.")
    values = {"model": _name(first), "n": f"{overall.questions:,}"}
    if overall.low is None or overall.high is None:
        return words("{model} answers {usable} of {n} questions usably.", usable=overall.usable, **values)
    values |= {name: f"{getattr(overall, name):.1f}" for name in ("rate", "low", "high")}
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


def _margin(board: Board, words: Words) -> Markup:
    if board.conversations < FEWEST_CONVERSATIONS:
        counts = {"n": board.conversations, "fewest": FEWEST_CONVERSATIONS}
        return words("{n} conversations are too few to tell models apart; it takes {fewest}.", **counts)
    second = next((name for name in list(board.models)[1:] if name in board.ties), None)
    if second is None:
        return words("There is no other model to compare with.")
    behind = board.ties[second]
    assert behind.low is not None  # there are conversations enough to tell models apart
    assert behind.high is not None
    # A lead instead of a difference: the signs turned, and the ends with them.
    lead = {"points": -behind.value, "low": -behind.high, "high": -behind.low}
    values = {"model": _name(second), **{name: f"{number + 0.0:.1f}" for name, number in lead.items()}}
    if behind.tie:
        return words("The lead over {model}, {points} points ({low} to {high}), may be chance.", **values)
    return words("The lead over {model}, {points} points ({low} to {high}), is more than chance.", **values)


def _trust(status: ValidationStatus, studies: Sequence[Study], words: Words, has_scores: bool) -> Markup:
    study = next((study for study in studies if study.against_kind == AgainstKind.PHYSICIANS), None)
    if study is None:
        return words(ADVICE[status.state])
    known = gate_state(study.gate) == status.state
    sentence = gate_sentence(study.gate, words) if known else words(ADVICE[status.state])
    values = {"percent": percent_of(study.overall["usable_agreement"], words), "n": f"{study.n:,}"}
    said = words("It agrees with physicians on usable in {percent} of {n} answers.", **values)
    probe = _worst_probe(study, words) if study.gate.passed else None
    errors = _errors(study, words, has_scores)
    return words.sentences(*(part for part in (sentence, *errors, said, probe) if part))


def _errors(study: Study, words: Words, has_scores: bool) -> list[Markup]:
    """The judge's errors in both directions, the dangerous one first and linked to these answers."""
    both = [words("It {does}.", does=words.known(does)) for does in (study.danger, study.strictness) if does]
    if both and has_scores:
        query = urlencode({"judge": study.judge, "apart": "danger", "order": "apart"})
        both[0] = Markup('<a href="#answers?{}">{}</a>').format(query, both[0])
    return both


def percent_of(share: Estimate, words: Words) -> Markup:
    """A share in percent, with its interval where there is one."""
    value, low, high = (None if end is None else 100 * end for end in (share["value"], share["low"], share["high"]))
    if low is None or high is None:
        return words("{value} %", value=f"{value or 0:.1f}")
    return words("{value} % ({low}–{high})", value=f"{value or 0:.1f}", low=f"{low:.0f}", high=f"{high:.0f}")


def gate_sentence(gate: GateResult, words: Words) -> Markup:
    """The gate in one sentence, with the first checks that failed or are undecided by name."""
    decided = {True: CheckState.PASSED, False: CheckState.FAILED, None: CheckState.INCONCLUSIVE}
    checks = gate.in_state(decided[gate.passed])
    named = words("; ").join(words.known(check.check) or "" for check in checks[:_CHECKS_NAMED])
    if len(checks) > _CHECKS_NAMED:
        named = words("{named}; and {n} more", named=named, n=len(checks) - _CHECKS_NAMED)
    return words(COUNTED[gate_state(gate)], n=len(checks), total=len(gate.checks), named=named)


def _worst_probe(study: Study, words: Words) -> Markup | None:
    """The probe with the most flips among those that the gate leaves out or allows more than the default gate does."""
    effects = study.probes.effects if study.probes else {}
    checked = {check.part for check in study.gate.checks if check.kind == CheckKind.PROBE_FLIPS}
    flips = {name: effect.flips["value"] or 0 for name, effect in effects.items()}
    limits = {name: limit for name in effects if (limit := probe_requirement(study.scheme.gate, name)) is not None}
    outside = [name for name in effects if name not in checked or flips[name] > limits.get(name, 1)]
    worst = max(outside, key=flips.__getitem__, default=None)
    if worst is None or not flips[worst]:
        return None
    values = {"probe": worst, "percent": f"{100 * flips[worst]:.1f}", "n": effects[worst].n}
    if worst in SPOILED:
        return words("{percent} % of {n} answers {what} (probe {probe}).", what=words(SPOILED[worst]), **values)
    if worst not in limits:
        return words("Probe {probe}, which the gate leaves out, flips {percent} % of {n} answers.", **values)
    values["limit"] = f"{100 * limits[worst]:g}"
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
"""Checks that a sentence names; the table of the study has all."""

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
