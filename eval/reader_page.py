"""Writes the tables of the built-in judge into README.md and docs/results.md, from `eval/results/built-in.json`.

    python eval/reader_page.py

A table stands between `<!-- built-in: NAME -->` and `<!-- end -->`. In the README, the rows that begin with
"the built-in judge" are made anew. What is around them stays as it is.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reader_goals import CATEGORIES, TIMES, formats, goals
from reader_measures import PROBES
from study import REPOSITORY, RESULTS

PAGES = (REPOSITORY / "README.md", REPOSITORY / "docs" / "results.md")
Results = Mapping[str, Any]
_PLACE = re.compile(r"(<!-- built-in: (\w+) -->\n).*?(<!-- end -->)", re.S)
_README_ROWS = re.compile(r"(?:^\| the built-in judge, on .*\n)+", re.M)
_FIGURES = ("usable_agreement", "cohen_kappa", "spearman")
_VARIANTS = {
    "reference": "the reference as it is",
    "reworded": "its sentences in another order, behind an opening",
    "of another question": "the reference of another question of the subcategory",
    "changed facts": "one to three facts changed",
}
_LEVELS = {
    "mediqa folds": "MEDIQA 2019's training questions, five folds by three seeds of the second opinion",
    "mediqa folds without alarms": "MEDIQA's folds by three seeds, without alarms",
    "mediqa folds, mean opinion of the seeds": "MEDIQA's folds, a head for the mean of the seeds' opinions",
    "mediqa folds without second opinion": "MEDIQA's folds, without the second opinion",
    "mediqa folds, second opinion only": "MEDIQA's folds by three seeds, the second opinion alone",
    "mediqa validation": "MEDIQA's validation file, the threshold fitted on other questions",
    "mediqa validation without alarms": "MEDIQA's validation file, without alarms",
    "liveqa folds": "LiveQA-Med, the same folds and seeds, answers without references",
    "liveqa folds without alarms": "LiveQA-Med without references and without alarms",
    "liveqa folds with references": "LiveQA-Med with references, no threshold of its own",
    "liveqa folds with references and threshold": "LiveQA-Med with references, a threshold by the other folds",
}


def write_pages() -> None:
    """Writes the tables of both pages."""
    results = json.loads((RESULTS / "built-in.json").read_text(encoding="utf-8"))
    for path in PAGES:
        path.write_text(page(path.read_text(encoding="utf-8"), results), encoding="utf-8")


def page(text: str, results: Results) -> str:
    """A page with its tables made anew."""
    text = _PLACE.sub(lambda place: f"{place[1]}\n{TABLES[place[2]](results)}\n{place[3]}", text)
    return _README_ROWS.sub(lambda rows: readme_rows(results), text)


def estimate(value: Mapping[str, float]) -> str:
    """A figure with its interval: `0.83 (0.80–0.86)`."""
    return f"{value['value']:.2f} ({value['low']:.2f}–{value['high']:.2f})"


def percent(value: Mapping[str, float]) -> str:
    """A share with its interval: `2.5 % (0.5–4.5)`."""
    return f"{100 * value['value']:.1f} % ({100 * value['low']:.1f}–{100 * value['high']:.1f})"


def table_of(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "".join(map(row_of, [header, ["---"] * len(header), *rows]))


def row_of(cells: Sequence[str]) -> str:
    """One line of it."""
    return f"| {' | '.join(cells)} |\n"


def readme_rows(results: Results) -> str:
    """The rows of the README's table."""
    folds, without = results["mediqa folds"], results["mediqa folds without alarms"]
    med, two = results["llmeval-med"], results["llmeval-2"]["all"]
    without_alarms, second_alone = (
        ", ".join(f"{row[name]['value']:.2f}" for name in _FIGURES)
        for row in (without, results["mediqa folds, second opinion only"])
    )
    liveqa, threshold = results["liveqa folds with references"], results["liveqa folds with references and threshold"]
    command = "`python eval/built_in.py DATA WORK`"
    shares = {name: percent(med[name]["all"]) for name in _VARIANTS}
    rows = [
        (
            f"the built-in judge, on {folds['answers']:,} expert-scored answers to MEDIQA 2019's training questions, "
            "each by a head that has not seen the question; its detector of dangers saw sentences of the usable ones",
            f"agreement on usable {estimate(folds['usable_agreement'])}, "
            f"Cohen's kappa {estimate(folds['cohen_kappa'])}, Spearman {estimate(folds['spearman'])}; "
            f"without alarms {without_alarms}. These have no references; the second opinion, trained on the other "
            f"folds, has {second_alone} by itself",
            command,
        ),
        (
            f"the built-in judge, on {liveqa['answers']} expert-scored answers of LiveQA-Med, with references",
            f"Cohen's kappa {estimate(threshold['cohen_kappa'])} with a threshold by the other folds, "
            f"{estimate(liveqa['cohen_kappa'])} without; Spearman {estimate(liveqa['spearman'])}, of untrained "
            f"nearness {liveqa['spearman, untrained']['value']:.2f}",
            "the same",
        ),
        (
            f"the built-in judge, on {med['questions']} of LLMEval-Med's references submitted as answers (Chinese); "
            f"one rule was chosen with {med['questions'] - med['not in view']['questions']} of them in view",
            f"called usable: {shares['reference']} as they are, {shares['reworded']} with sentences in another order, "
            f"{shares['of another question']} of another question's, in text generation "
            f"{percent(med['of another question']['MTG'])}; {shares['changed facts']} of the "
            f"{med['changed facts']['all']['answers']} that hold a fact to change, with one to three changed",
            "the same",
        ),
        (
            f"the built-in judge, on {two['answers']} Chinese answers of LLMEval-2; nothing was trained on them, some "
            "settings were chosen with this figure in view",
            f"AUC for predicting whether the person gave full marks {estimate(two)}, of untrained nearness "
            f"{two['untrained nearness']['value']:.2f}",
            "the same",
        ),
    ]
    return "".join(map(row_of, rows))


def goals_table(results: Results) -> str:
    """What the judge was to reach, and whether it does."""
    rows = [(goal.measured_on, goal.wanted, goal.reached, "yes" if goal.met else "no") for goal in goals(results)]
    return table_of(("measured on", "goal", "reached", "met"), rows)


def levels_table(results: Results) -> str:
    """Agreement with experts' levels."""
    rows = []
    for name, label in _LEVELS.items():
        row = results[name]
        figures = [estimate(row[each]) for each in _FIGURES]
        rows.append([label, f"{row['answers']:,}", *figures, f"{row['spearman, untrained']['value']:.2f}"])
    header = (
        "measured on",
        "answers",
        "agreement on usable",
        "Cohen's kappa",
        "Spearman",
        "Spearman, untrained",
    )
    return table_of(header, rows)


def points_table(results: Results) -> str:
    """Verdicts on points."""
    claims, health = results["rule claims"]["all"], results["healthver folds"]
    rows = [
        _verdicts(f"{claims['claims']:,} held-out claims by rule, and the supported ones", claims["auc"], claims),
        _verdicts(f"HealthVer, {health['pairs']:,} pairs, five folds by claim", health["auc of supported"], health),
    ]
    contrasts, before = results["contrasts"], results["contrasts, before they were learned"]
    words = results["points in other words"]
    for label, row in (
        ("contrasts of two other authors, the passage alone", contrasts["all"]),
        ("the same, before contrasts were learned", before["all"]),
        ("contrasts of two other authors, beside other passages", contrasts["in company"]["all"]),
        ("the same, before contrasts were learned", before["in company"]["all"]),
        ("points in other words, the passage alone", words["all"]),
        ("points in other words, beside another passage", words["in company"]),
    ):
        rows.append(_verdicts(f"{label} ({row['points']:,})", row["auc of met"], row))
    header = ("measured on", "AUC of met", "AUC of contradicted", "macro-F1", "AUC, untrained", "AUC, shared words")
    return table_of(header, rows)


def _verdicts(label: str, met: Mapping[str, float], row: Results) -> list[str]:
    found = [estimate(row[name]) if name in row else "–" for name in ("auc of contradicted", "macro_f1")]
    baselines = [
        next(row[name] for name in names if name in row)["value"]
        for names in (
            ("auc of the untrained nearness", "auc of met, untrained nearness"),
            ("auc of the token overlap", "auc of met, token overlap"),
        )
    ]
    return [label, estimate(met), *found, *(f"{value:.2f}" for value in baselines)]


def claims_table(results: Results) -> str:
    """The held-out claims by kind of change."""
    claims = results["rule claims"]
    names = {"all": "all", "en": "English", "zh": "Chinese"}
    kinds = [name for name, row in claims.items() if isinstance(row, dict) and "auc" in row and name not in names]
    kinds.sort(key=lambda name: -claims[name]["claims"])
    rows = [
        [
            names.get(name, name),
            f"{claims[name]['claims']:,}",
            estimate(claims[name]["auc"]),
            *(
                f"{claims[name][f'auc {each}']['value']:.2f}"
                for each in (
                    "without rules",
                    "of the layers alone",
                    "of the untrained nearness",
                    "of the token overlap",
                )
            ),
        ]
        for name in (*names, *kinds)
    ]
    return table_of(
        ("kind of change", "claims", "AUC", "without rules", "layers alone", "untrained", "shared words"), rows
    )


def llmeval_med_table(results: Results) -> str:
    """What is called usable of answers made from LLMEval-Med's references."""
    table = results["llmeval-med"]
    rows = [
        [
            f"{label}{ending}",
            *(_of_category(some[name], each) for each in CATEGORIES),
            f"{100 * table['untrained nearness'][name]['all']['value']:.0f} %" if some is table else "–",
        ]
        for some, ending in ((table, ""), (table["not in view"], "; questions not used to choose rules"))
        for name, label in _VARIANTS.items()
    ]
    return table_of(("submitted as the answer", *CATEGORIES, "all, untrained"), rows)


def _of_category(shares: Mapping[str, Mapping[str, float]], category: str) -> str:
    return f"{percent(shares[category])} of {shares[category]['answers']}" if category in shares else "–"


def llmeval2_table(results: Results) -> str:
    """The area under the curve of full marks by subject."""
    rows = [
        [name.replace("_", " "), str(row["answers"]), estimate(row), f"{row['untrained nearness']['value']:.2f}"]
        for name, row in results["llmeval-2"].items()
        if isinstance(row, dict) and "untrained nearness" in row
    ]
    return table_of(("subject", "answers", "AUC of full marks", "AUC, untrained"), rows)


def sample_table(results: Results) -> str:
    """The bundled sample."""
    sample = results["sample"]
    rows = [
        ["Cohen's kappa with the constructed levels", estimate(sample["cohen_kappa"])],
        ["Spearman", estimate(sample["spearman"])],
        ["Spearman, untrained nearness", estimate(sample["spearman of the untrained nearness"])],
        ["called usable", f"{percent(sample['called usable'])}; {100 * sample['constructed usable']:.0f} % are"],
        ["unscored", str(sample["unscored"])],
    ]
    return table_of(("of the sample", "result"), rows)


def times_table(results: Results) -> str:
    """What judging costs, by the format of the machine's matrix products."""
    of_format = [{row: results[f"{row}, {name}"] for row in TIMES} for name in formats(results)]
    rows = {
        "the sample's 280 answers": lambda row: f"{row['sample']['seconds']:.0f} s",
        "`medjudge quickstart`": lambda row: f"{row['quickstart']['seconds']:.0f} s",
        "tokens encoded per answer of LLMEval-2": lambda row: f"{row['cost']['tokens encoded per answer']:.0f}",
        "time per answer": lambda row: f"{row['cost']['seconds per answer']:.2f} s",
        "26,013 answers": lambda row: f"{row['cost']['hours for 26,013 judgments']:.1f} h",
        "cost per encoded token, beside the ordinal judge (MEDIQA)": lambda row: (
            f"{row['cost beside the ordinal judge']['times the cost per token of the ordinal judge']:.1f} times"
        ),
        "cost per answer, beside the ordinal judge (MEDIQA)": lambda row: (
            f"{_times_per_answer(row['cost beside the ordinal judge']):.0f} times"
        ),
    }
    header = ("on two cores", *formats(results))
    return table_of(header, [[label, *map(cell, of_format)] for label, cell in rows.items()])


def _times_per_answer(row: Mapping[str, float]) -> float:
    built_in, ordinal = (
        row[f"{name}: tokens encoded per answer"] * row[f"{name}: milliseconds per token"]
        for name in ("built-in", "ordinal")
    )
    return built_in / ordinal


def probes_table(results: Results) -> str:
    """The probes on both sets."""
    sets = [results["probes, mediqa validation"], results["probes, llmeval-2"]]
    rows = [
        [f"`{probe}`", *(f"{percent(each[probe])} of {each[probe]['answers']}" for each in sets)] for probe in PROBES
    ]
    return table_of(("probe", "MEDIQA's validation file", "LLMEval-2"), rows)


TABLES: dict[str, Callable[[Results], str]] = {
    "goals": goals_table,
    "levels": levels_table,
    "points": points_table,
    "claims": claims_table,
    "llmevalmed": llmeval_med_table,
    "llmeval2": llmeval2_table,
    "sample": sample_table,
    "times": times_table,
    "probes": probes_table,
}
"""What makes each table of the pages."""


if __name__ == "__main__":
    write_pages()
