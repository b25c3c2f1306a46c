import json
import shutil
from base64 import b64decode, b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from medjudge.errors import InputError
from medjudge.files import write_json
from medjudge.report.page import report_page
from medjudge.store import Run, write_records

EVIL = '<script>alert(1)</script><img src=x onerror="alert(2)">\'{{ 7 * 7 }}$\\frac$'
KEYS_BY_NAME = ("by_category", "by_subcategory", "by_model", "by_difficulty", "by_language", "models", "effects")


class Page(HTMLParser):
    """A page as a browser reads it: elements with their attributes, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.pieces: list[str] = []
        self.code: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem is None:
            self.pieces.append(data)
        elif self.elements[-1][1].get("type") is None:
            self.code[self.cdata_elem].append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.pieces).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def page(*runs: Run) -> Page:
    return Page(report_page(runs))


def study_of(run: Run) -> dict[str, Any]:
    """The study of `mine` as its file holds it."""
    content: dict[str, Any] = json.loads(run.agreement_file("mine").read_text(encoding="utf-8"))
    return content


def change(run: Run, **entries: Any) -> None:
    write_json(run.agreement_file("mine"), study_of(run) | entries)


def test_every_part_of_a_study_is_in_the_page_and_nothing_outside(run) -> None:
    shown = page(run)
    require_harmless(shown)
    images = shown.all("img")
    assert [(image["alt"] or "").split(" ")[0] for image in images] == ["On", "The"]
    for image in images:
        ElementTree.fromstring(b64decode((image["src"] or "").removeprefix("data:image/svg+xml;base64,")))
    text = shown.text
    for expected in (
        "checks undecided (",
        "usable agreement, MK at least 88.8 %",
        "Where it is weakest",
        "94.00",  # GPT-4o's agreement in the paper, MK
        "Physicians among each other",
        "Dr B",
        "mine and its teacher gpt",
        "Order of the models",
        "Probes: changes that must not change a score",
        "The cost of a category never seen in training",
        "all together",
        "9 fewer answers to learn from",
        "Is its confidence calibrated?",
        "What physicians would call usable",
        "Where mine and physicians differ, the most harmful first",
        "It calls 12 of 89 unusable answers usable.",
    ):
        assert expected in text


@pytest.mark.usefixtures("without_plots")
def test_numbers_are_read_and_never_measured_again(run) -> None:
    study = study_of(run)
    study["overall"]["usable_agreement"] = {"value": 0.12345, "low": 0.0987, "high": 0.2345}
    study["weaknesses"] = ["calls 18 of 60 unusable answers in MTG usable"]
    study["cannot_conclude"] = ["Anything about MSE."]
    some = study["usability"]["by_model"]["model-a"]
    some |= {"prediction_powered": {"value": 0.777, "low": 0.7, "high": 0.8}, "judge_only": 0.888}
    some |= {"physicians_only": {"value": 0.666, "low": 0.5, "high": 0.7}, "note": "all alike"}
    change(run, **study)
    shown = page(run)
    assert "12.3 9.9 to 23.4" in shown.text
    assert "It calls 18 of 60 unusable answers in MTG usable." in shown.text
    assert "What these scores cannot show Anything about MSE." in shown.text
    assert "model-a all alike 77.7 70.0 to 80.0 66.6 50.0 to 70.0 88.8" in shown.text
    assert "plots need: pip install 'medjudge[report]'" in shown.text
    assert shown.all("img") == []


@pytest.mark.usefixtures("without_plots")
def test_one_banner_says_how_far_the_judge_is_validated_and_the_next_tab_says_why(run) -> None:
    gate = study_of(run)["gate"]
    checks = [{**one, "state": "failed" if one["part"] in ("MLU", "MR") else "passed"} for one in gate["checks"]]
    change(run, gate={"passed": False, "usual": True, "checks": checks})
    shown = page(run)
    classes = [paragraph.get("class") or "" for paragraph in shown.all("p")]
    assert [name for name in classes if name.startswith("banner")] == ["banner never-validated", "banner failed"]
    leaderboard, validation = shown.text.split("Validation Overview")
    assert "never validated MSE" not in leaderboard  # the badge says it of all categories
    assert "failed MSE, MTG never validated; MK validated; MLU, MR failed." in leaderboard
    assert "agrees on usable with physicians on" not in leaderboard
    # A line for OP, and one for each category that was scored.
    trust = validation[validation.index("How far judge mine is validated") : validation.index("Where mine and")]
    assert trust.count("agrees on usable with physicians on") == 1 + len(study_of(run)["by_category"])
    assert "never validated against physicians" in validation


@pytest.mark.usefixtures("without_plots")
def test_neither_paths_nor_hashes_stand_on_the_first_view(run) -> None:
    sha256 = "0123456789abcdef" * 4
    source = {"source": "/srv/data/questions.jsonl", "questions": 56, "sha256": sha256}
    run.update_manifest(notes=["Written by the project."], benchmark=source)
    twin = Run(Path(shutil.copytree(run.path, run.path.parent / "twin" / run.path.name)))
    text = page(run, twin).text
    first, rest = text.split("Validation Overview")
    assert "Written by the project." in first
    assert f"twin/{run.path.name}" in first
    for hidden in (str(run.path.parent), "/srv/data", sha256[:12]):
        assert hidden not in first
    assert f"Benchmark /srv/data/questions.jsonl: 56 questions, sha256 {sha256[:12]}." in rest


@pytest.mark.usefixtures("without_plots")
def test_rates_of_fewer_than_five_questions_are_grey(run) -> None:
    questions = [question.model_copy(update={"category": "MK"}) for question in run.questions()]
    questions[:4] = [question.model_copy(update={"category": "MR"}) for question in questions[:4]]
    write_records(run.questions_file, questions)
    run.agreement_file("mine").unlink()
    run.judgments_file("gpt").unlink()
    shown = page(run)
    numbers = [cell["class"] for cell in shown.all("td") if (cell.get("class") or "").startswith("number")]
    # MK and MR of five models, in the leaderboard and by category.
    assert numbers.count("number few") == 10
    assert numbers.count("number") == 10 + 3 * 5  # MLU, MSE and MTG have no question


def test_a_card_tells_of_validations_elsewhere(run) -> None:
    elsewhere = {**study_of(run), "file": "another-hospital.xlsx"}
    run.agreement_file("mine").unlink()
    run.physicians_file.unlink()
    run.update_manifest(judges={"mine": {"validated_on": [elsewhere]}})
    shown = page(run)
    assert "another-hospital.xlsx" in shown.text
    assert "Agreement of mine" not in shown.text
    assert shown.all("img") == []


@pytest.mark.usefixtures("without_plots")
def test_scores_of_questions_that_the_judge_learned_from_measure_nothing(run) -> None:
    run.update_manifest(judges={"gpt": {"seen_question_ids": ["MK-en-01"]}})
    text = page(run).text
    assert "trained or tuned on 1 of the questions" in text
    assert "Where mine and physicians differ" in text
    assert "Where gpt and physicians differ" not in text


@pytest.mark.usefixtures("without_plots")
def test_a_file_that_is_no_study_is_refused_with_what_to_run(run) -> None:
    write_json(run.agreement_file("gpt"), {"judge": "gpt", "n": 3, "against": "physicians", "overall": {}})
    with pytest.raises(InputError) as error:
        page(run)
    assert str(run.agreement_file("gpt")) in str(error.value)
    assert f"run `medjudge validate {run.path} --judge gpt` again" in str(error.value)


@pytest.mark.usefixtures("without_plots")
def test_a_study_against_another_judge_has_its_own_section(run) -> None:
    study = study_of(run)
    write_json(run.agreement_file("mine-against-gpt"), study | {"against": "gpt", "against_kind": "judge"})
    text = page(run).text
    assert text.index("Agreement of mine with physicians") < text.index("Agreement of mine with gpt")
    # Scores without a study ask for `validate`.
    hint = f"Physicians scored answers of this run; medjudge validate {run.path} --judge"
    assert f"{hint} gpt measures" in text
    assert f"{hint} mine " not in text
    assert "`" not in text
    # The leaderboard shows the rates of physicians, and not those of another judge, before its details.
    heading = "Usable to physicians and to the judge, percent of answers that both scored"
    assert text.count(heading) == 1
    rates = study["ranking"]["models"]["model-b"]
    row = f"model-b {rates['n']} {100 * rates['physicians']:.1f} {100 * rates['judge']:.1f}"
    assert row in text[text.index(heading) : text.index("lowest levels by judge mine")]


def require_harmless(shown: Page) -> None:
    """Nothing is fetched, and nothing runs but the page's own script, which its policy names by hash."""
    assert not {tag for tag, _ in shown.elements} & {"iframe", "object", "embed", "link", "base", "foreignobject"}
    running = [script for script in shown.all("script") if script.get("type") != "application/octet-stream"]
    assert running == [{}]
    policy = next(meta["content"] or "" for meta in shown.all("meta") if meta.get("http-equiv"))
    for kind, code in shown.code.items():
        (only,) = code
        assert f"{kind}-src 'sha256-{b64encode(sha256(only.encode()).digest()).decode()}'" in policy
    for _, attributes in shown.elements:
        assert not any(name.startswith("on") for name in attributes)
        assert "style" not in attributes
        assert "src" not in attributes or (attributes["src"] or "").startswith("data:image/svg+xml;base64,")
        assert (attributes.get("href") or "#").startswith("#")


def poisoned(value: Any, under: str = "") -> Any:
    """A study in which every name and every sentence is an attack; only the words of the program itself stay."""
    if isinstance(value, str):
        return value if under in ("kind", "state", "against_kind", "by", "name") else EVIL + value
    if isinstance(value, list):
        return [poisoned(element) for element in value]
    if isinstance(value, dict):
        named = under in KEYS_BY_NAME
        return {EVIL + key if named else key: poisoned(field, key) for key, field in value.items()}
    return value


@pytest.mark.parametrize("against", ["physicians", EVIL])
def test_names_and_sentences_of_a_study_are_text(run, against) -> None:
    bad = poisoned(study_of(run)) | {"against": against}
    write_json(run.agreement_file("mine"), bad)
    shown = page(run)
    require_harmless(shown)
    assert EVIL in shown.text
    for part in ("weaknesses", "raters"):
        assert all(text in shown.text for text in bad[part])
