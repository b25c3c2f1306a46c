"""The HTML report: one file that opens offline, every text escaped."""

import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from medjudge.files import write_whole
from medjudge.report.boards import leaderboards
from medjudge.report.cases import cases
from medjudge.report.contents import names_apart, read_contents
from medjudge.report.packing import Packed, pack
from medjudge.report.sections import section
from medjudge.store import Run
from medjudge.validation.against_teacher import FEWEST_CONVERSATIONS

_HAN = re.compile("[\u3400-\u9fff]")
_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"} | {127: 0x2421}
"""HTML cannot hold some control characters and hides the others; their pictures (U+2400 and on) are shown instead."""


def write_page(path: Path, runs: Sequence[Run]) -> None:
    """Writes the report of one or several runs.

    Leaderboards and validation are in the page as they are read; the answers are packed inside it, and its script shows
    them. The page fetches nothing, and its policy lets nothing run but that script.

    Raises:
        InputError: A record of a run breaks a rule.
    """
    contents = [read_contents(run) for run in runs]
    cases_by_run = [cases(run) for run in contents]
    names = names_apart(runs)
    benchmarks: dict[str, list[str]] = {}
    for run, name in zip(contents, names, strict=True):
        benchmarks.setdefault(run.benchmark, []).append(name)
    style, script = _package_file("page.css"), _package_file("page.js")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_visible
    )
    runs_shown = [section(run, position) for position, run in enumerate(contents)]
    # In this order: an index of everything, then each run's questions and answers.
    titles = {category.id: category.title_in("en") for run in contents for category in run.scheme.categories}
    index = {"categories": titles, "runs": [run_cases.overview for run_cases in cases_by_run]}
    values = [index, *(block for run_cases in cases_by_run for block in (run_cases.texts, *run_cases.blocks))]
    page = environment.from_string(_package_file("page.html")).render(
        fewest=FEWEST_CONVERSATIONS,
        category_names=titles,
        boards=leaderboards(contents),
        runs=runs_shown,
        studied=any(judge["studies"] for run in runs_shown for judge in run["judges"].values()),
        names=names,
        lang=_lang,
        benchmarks=benchmarks,
        answers=sum(len(run.answers) for run in contents),
        style=Markup(style),
        style_hash=_hash(style),
        script=Markup(script),
        script_hash=_hash(script),
        packed=_markup(pack(values)),
    )
    write_whole(path, page)


def _package_file(name: str) -> str:
    return (files("medjudge.report") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """As a content security policy names what it allows."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _markup(packed: Packed) -> Packed:
    """Packed texts hold nothing to escape, and looking for it in 25 MB would take a while."""
    return Packed(Markup(packed.alphabet), [Markup(block) for block in packed.blocks])


def _visible(value: Any) -> Any:
    return value.translate(_CONTROLS) if type(value) is str else value


def _lang(text: str) -> Markup:
    """The attribute that says that a name is Chinese: for the right glyphs, and the right voice of a screen reader."""
    return Markup(' lang="zh"' if _HAN.search(text) else "")
