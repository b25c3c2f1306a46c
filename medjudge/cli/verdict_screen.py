"""The one screen of `medjudge validate`: verdict, categories, weaknesses, and what the scores cannot show."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from medjudge.cli.output import counted, percent, plain_table, points, span
from medjudge.cli.study_screens import print_panel
from medjudge.judge.study_summary import AgainstKind, CheckKind, CheckState, GateCheck
from medjudge.probes.probes import COUNTED
from medjudge.statistics.estimates import Estimate
from medjudge.validation.ranking import first_of_two
from medjudge.validation.records import Study
from medjudge.validation.status import ValidationState, gate_state

_VERDICTS = {
    ValidationState.VALIDATED: "GATE PASSED",
    ValidationState.CUSTOM_GATE: "CUSTOM GATE PASSED, which does not validate the judge",
    ValidationState.FAILED: "GATE FAILED",
    ValidationState.INCONCLUSIVE: "GATE INCONCLUSIVE",
}
_STATE_WIDTH = max(len(state.value) for state in CheckState)


def print_verdict(screen: Console, study: Study) -> None:
    """Prints a study: a few lines for the gate, a table of the categories, and what to know beside it."""
    questions = f"{counted(study.questions, 'question')} in {counted(study.conversations, 'conversation')}"
    screen.print(
        f"Judge {study.judge} against {study.against} ({study.file}): {study.n} answers to {questions}, "
        f"coverage {100 * study.coverage:.1f} %\n"
    )
    counts = ", ".join(f"{len(study.gate.in_state(state))} {state}" for state in CheckState)
    screen.print(f"{_VERDICTS[gate_state(study.gate)]}: {counts}")
    if study.danger:
        screen.print(f"The judge {study.danger}, and {study.strictness}.")
    for line in _check_lines(study):
        screen.print(f"  {line}")
    screen.print()
    screen.print(_categories(study))
    reference = study.scheme.reference_agreement
    published = f"{reference.judge}: {reference.source}. " if reference else ""
    screen.print(f"{published}In brackets: 95 % interval.")
    if study.panel:
        screen.print()
        print_panel(screen, study.panel, study)
    for title, lines in (
        ("For comparison", list(_beside(study))),
        ("Weakest", study.weaknesses or ["no kind of error that occurred at least five times"]),
        ("These scores cannot show", study.cannot_conclude),
    ):
        if lines:
            screen.print(f"\n{title}:")
            for line in lines:
                screen.print(f"  {line}")


def _check_lines(study: Study) -> Iterator[str]:
    """One line per check; checks of one kind with the same finding share it, and probes the same threshold."""
    physicians = study.against_kind == AgainstKind.PHYSICIANS
    open_because = (
        "; too few answers to decide" if physicians else f"; measured against {study.against}, not physicians"
    )
    for state in (CheckState.FAILED, CheckState.INCONCLUSIVE, CheckState.PASSED):
        flips: list[GateCheck] = []
        same_finding: dict[tuple[CheckKind, str], list[GateCheck]] = {}
        for check in study.gate.in_state(state):
            if check.kind == CheckKind.PROBE_FLIPS and check.n:
                flips.append(check)
            else:
                same_finding.setdefault((check.kind, _finding(check)), []).append(check)
        for (_, finding), checks in same_finding.items():
            names = [checks[0].check, *(check.part or check.check for check in checks[1:])]
            yield f"{state:<{_STATE_WIDTH}}  {', '.join(names)}: {finding}"
        why = open_because if state == CheckState.INCONCLUSIVE else ""
        for required in sorted({check.required for check in flips}):
            measured = ", ".join(f"{one.part} {span(_measured(one))}" for one in flips if one.required == required)
            yield f"{state:<{_STATE_WIDTH}}  flips by probe {measured}; at most {required:g} allowed{why}"


def _finding(check: GateCheck) -> str:
    if check.n == 0:
        return check.why
    return f"{span(_measured(check))}, at least {check.required:g} required{'; ' if check.why else ''}{check.why}"


def _measured(check: GateCheck) -> Estimate:
    return Estimate(value=check.value, low=check.low, high=check.high)


def _categories(study: Study) -> Table:
    reference = study.scheme.reference_agreement
    published_by = [reference.judge] if reference else []
    columns = ("n", "usable agreement", *published_by, "Cohen's kappa", "quadratic", "Spearman", "bias")
    table = plain_table("", columns)
    for name in ("overall", *study.scheme.categories):
        measures = study.overall if name == "overall" else study.by_category.get(name)
        known = reference.percent.get(name) if reference else None
        published = ["" if known is None else f"{known:.1f} %"] if reference else []
        if measures is None:
            table.add_row(name, "0", "no scores", *published)
            continue
        table.add_row(
            name,
            str(measures["n"]["value"]),
            percent(measures["usable_agreement"]),
            *published,
            span(measures["cohen_kappa"]),
            span(measures["quadratic_kappa"]),
            span(measures["spearman"]),
            f"{measures['bias']['value']:+.2f}",
        )
    return table


def _beside(study: Study) -> Iterator[str]:
    """Other measures, a line each."""
    if study.physicians:
        people, test = study.physicians, study.physicians.alt_test["usable"]
        verdict = {True: "passed", False: "not passed", None: "inconclusive"}[test.passed]
        omega = "" if test.omega is None else f", winning rate {test.omega:.2f}"
        yield (
            f"physicians among each other: {percent(people.usable_agreement)}, kappa {span(people.cohen_kappa)}; "
            f"alternative annotator test {verdict}{omega}"
        )
    if study.teacher:
        margin, shown = study.teacher.non_inferiority.margin, study.teacher.non_inferiority.shown
        result = {True: "shown", False: "not shown", None: "inconclusive"}[shown]
        yield (
            f"minus teacher {study.teacher.teacher}: {points(study.teacher.difference['usable_agreement'])}; "
            f"non-inferiority at {100 * margin:g} points: {result}"
        )
    if study.probes:
        in_gate = {check.part for check in study.gate.checks if check.kind == CheckKind.PROBE_FLIPS}
        outside = {probe: effect for probe, effect in study.probes.effects.items() if probe not in in_gate}
        spoiled = {probe for probe in outside if COUNTED.get(probe) == "usable"}
        for probes, what in (
            (spoiled, "answers still called usable after probes that spoil them, outside the gate"),
            (outside.keys() - spoiled, "flips by probes outside the gate"),
        ):
            listed = [f"{probe} {span(effect.flips)}" for probe, effect in outside.items() if probe in probes]
            if listed:
                yield f"{what}: {', '.join(listed)}"
    if study.ranking:
        yield first_of_two(study.ranking, study.against) or (
            f"order of {len(study.ranking.models)} models: Spearman {span(study.ranking.spearman)}, pairs as "
            f"physicians order them {percent(study.ranking.pairwise_accuracy)}"
        )
    if study.confidence:
        yield f"confidence: calibration error {study.confidence.ece:.3f}, Brier {span(study.confidence.brier)}"
    if study.usability:
        rate = study.usability.overall
        alone = "" if rate.judge_only is None else f"; by the judge alone {100 * rate.judge_only:.1f} %"
        yield f"usable to physicians, all {study.usability.answers} answers: {percent(rate.prediction_powered)}{alone}"
    if study.leave_out:
        for row in study.leave_out.rows:
            if row.difference:
                name = row.left_out or "all together"
                yield f"never saw {name}: {points(row.difference['usable_agreement'])} of usable agreement"
