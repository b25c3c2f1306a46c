"""The one screen of `medjudge validate`: verdict, the five categories, weaknesses in words, what is not shown."""

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from medjudge.records import CATEGORIES
from medjudge.validation.paper import PAPER_AGREEMENT

_VERDICTS = {True: "GATE PASSED", False: "GATE FAILED", None: "GATE NOT SHOWN"}
_FLIPS = "flips by probe "
_ORDER = ("failed", "not shown", "passed")


def print_verdict(screen: Console, study: dict[str, Any]) -> None:
    """Prints a study as `agreement/JUDGE.json` holds it."""
    questions = f"{_counted(study['questions'], 'question')} in {_counted(study['conversations'], 'conversation')}"
    screen.print(
        f"Judge {study['judge']} against {study['against']} ({study['file']}): {study['n']} answers to {questions}, "
        f"coverage {100 * study['coverage']:.1f} %\n"
    )
    checks = study["gate"]["checks"]
    counts = [
        f"{sum(one['result'] == result for one in checks)} {result}" for result in ("passed", "failed", "not shown")
    ]
    screen.print(f"{_VERDICTS[study['gate']['passed']]}: {', '.join(counts)}")
    for line in _checks(checks):
        screen.print(f"  {line}")
    screen.print()
    screen.print(_categories(study))
    screen.print("GPT-4o: its agreement with the physicians of LLMEval-Med (EMNLP 2025). In brackets: 95 % interval.")
    for title, lines in (
        ("Beside it", list(_beside(study))),
        ("Weakest", study["weaknesses"] or ["no error of a kind that came up at least five times"]),
        ("These scores cannot show", study["cannot_conclude"]),
    ):
        if lines:
            screen.print(f"\n{title}:")
            for line in lines:
                screen.print(f"  {line}")


def _checks(checks: list[dict[str, Any]]) -> Iterator[str]:
    """A line a check; those that say the same share one."""
    for result in _ORDER:
        lines: dict[str, list[str]] = {}
        of_result = [check for check in checks if check["result"] == result]
        flips = [check for check in of_result if check["check"].startswith(_FLIPS) and check["n"]]
        for check in of_result:
            if check not in flips:
                lines.setdefault(_finding(check), []).append(check["check"])
        for finding, names in lines.items():
            yield f"{result:<9}  {_joined(names)}: {finding}"
        if flips:
            shown = ", ".join(f"{one['check'].removeprefix(_FLIPS)} {span(one)}" for one in flips)
            few = "; too few answers for more" if result == "not shown" else ""
            yield f"{result:<9}  {_FLIPS}{shown}; at most {flips[0]['required']:g} asked{few}"


def _finding(check: dict[str, Any]) -> str:
    if check["n"] == 0:
        return check["why"].replace(f" in {check['check'].rpartition(', ')[2]}", "")
    return f"{span(check)}, at least {check['required']:g} asked{'; ' if check['why'] else ''}{check['why']}"


def _joined(names: list[str]) -> str:
    """usable agreement, MK and usable agreement, MLU -> usable agreement, MK, MLU."""
    shared = names[0].rpartition(" ")[0]
    if len(names) > 1 and all(name.rpartition(" ")[0] == shared for name in names):
        return f"{shared} {', '.join(name.rpartition(' ')[2] for name in names)}"
    return "; ".join(names)


def _categories(study: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    table.add_column("", no_wrap=True)
    for column in ("n", "usable agreement", "GPT-4o", "Cohen's kappa", "quadratic", "Spearman", "bias"):
        table.add_column(column, justify="right", no_wrap=True)
    for name in ("overall", *CATEGORIES):
        part = study["overall"] if name == "overall" else study["by_category"].get(name)
        shown = f"{PAPER_AGREEMENT[name]:.1f} %" if name in PAPER_AGREEMENT else ""
        if part is None:
            table.add_row(name, "0", "no scores", shown, "", "", "", "")
            continue
        bias = part["bias"]["value"]
        table.add_row(
            name,
            str(part["n"]["value"]),
            percent(part["usable_agreement"]),
            shown,
            span(part["cohen_kappa"]),
            span(part["quadratic_kappa"]),
            span(part["spearman"]),
            f"{bias:+.2f}",
        )
    return table


def _beside(study: dict[str, Any]) -> Iterator[str]:
    if physicians := study["physicians"]:
        test = physicians["alt_test"]["usable"]
        verdict = {True: "passed", False: "not passed", None: "cannot be concluded"}[test["passed"]]
        omega = "" if test["omega"] is None else f", winning rate {test['omega']:.2f}"
        yield (
            f"physicians among each other: {percent(physicians['usable_agreement'])}, kappa "
            f"{span(physicians['cohen_kappa'])}; alternative annotator test {verdict}{omega}"
        )
    if teacher := study["teacher"]:
        shown = {True: "shown", False: "not shown", None: "not shown"}[teacher["non_inferiority"]["shown"]]
        yield (
            f"minus teacher {teacher['teacher']}: {points(teacher['difference']['usable_agreement'])}; non-inferior at "
            f"{100 * teacher['non_inferiority']['margin']:g} points: {shown}"
        )
    if ranking := study["ranking"]:
        yield (
            f"order of {len(ranking['models'])} models: Spearman {span(ranking['spearman'])}, pairs as physicians "
            f"order them {percent(ranking['pairwise_accuracy'])}"
        )
    if confidence := study["confidence"]:
        sets = confidence["conformal"]
        certain = sets.get("usable")
        told = (
            "" if certain is None else f"; certain of {100 * certain['certain']:.0f} % at error {sets['error_rate']:g}"
        )
        yield f"confidence: calibration error {confidence['ece']:.3f}, Brier {span(confidence['brier'])}{told}"
    if usability := study["usability"]:
        yield _usability(usability)
    if leave_out := study["leave_out"]:
        for row in leave_out["rows"]:
            if row["difference"]:
                name = row["left_out"] or "all together"
                yield f"never saw {name}: {points(row['difference']['usable_agreement'])} of usable agreement"


def _usability(usability: dict[str, Any]) -> str:
    whole = usability["overall"]
    told = (
        f"usable to physicians of all {usability['answers']} answers: {percent(whole['prediction_powered'])}; by the "
        f"judge alone {100 * whole['judge_only']:.1f} %"
    )
    if usability["width"] is None:
        return told
    wanted = f"{100 * usability['width']:g} points wide"
    if whole["more_scores"] is None:
        return f"{told}; no number of scores makes this interval {wanted}"
    return f"{told}; {whole['more_scores']} more scores make this interval {wanted}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def span(measure: dict[str, float | None]) -> str:
    """A value with its interval: `0.72 (0.66–0.78)`; a dash where it is undefined."""
    return _shown(measure, 1, "{:.2f}")


def percent(measure: dict[str, float | None]) -> str:
    """A share with its interval: `72.0 % (66–78)`."""
    return _shown(measure, 100, "{:.1f} %", "{:.0f}")


def points(measure: dict[str, float | None]) -> str:
    """A difference of shares with its interval: `-1.2 points (-3.4 to 1.0)`."""
    return _shown(measure, 100, "{:+.1f} points", "{:+.1f}", " to ")


def _shown(measure: dict[str, float | None], scale: int, form: str, ends: str | None = None, between: str = "–") -> str:
    value, low, high = measure["value"], measure["low"], measure["high"]
    if value is None:
        return "-"
    text = form.format(scale * value)
    if low is None or high is None:
        return text
    return f"{text} ({(ends or form).format(scale * low)}{between}{(ends or form).format(scale * high)})"
