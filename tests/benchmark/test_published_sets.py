"""Published expert-scored sets, each from a small file of its layout."""

from pathlib import Path

import pytest
from files_of_rows import written
from published_rows import CONVERSATION, META, MORQA, ONCQA, kqa, red_teaming

from medjudge.benchmark.expert_tables import (
    level_of_claims,
    read_kqa,
    read_morqa,
    read_oncqa,
    read_red_teaming,
)
from medjudge.benchmark.json_sets import read_healthbench, read_healthbench_meta
from medjudge.errors import InputError


def test_healthbench_gives_conversations_with_checklists(tmp_path: Path) -> None:
    other = {**CONVERSATION, "prompt_id": "p2", "prompt": [{"role": "user", "content": "胸口疼怎么办？"}]}
    read = read_healthbench(written(tmp_path / "hb.jsonl", CONVERSATION, other))
    first, second = read.questions
    assert first.prompt == "User: My chest hurts.\n\nAssistant: Since when?\n\nUser: An hour."
    assert first.checklist == "- Tells to call an ambulance (+10)\nMust not:\n- Tells to wait (-8)"
    assert [(item.text, item.points, item.theme) for item in first.items or ()] == [
        ("Tells to wait", -8, "accuracy"),
        ("Tells to call an ambulance", 10, ""),
    ]
    assert (first.subcategory, first.language) == ("emergency_referrals", "en")
    assert (second.prompt, second.language) == ("胸口疼怎么办？", "zh")


def test_a_criterion_that_healthbench_has_twice_counts_once(tmp_path: Path) -> None:
    twice = {**CONVERSATION, "rubrics": [*CONVERSATION["rubrics"], CONVERSATION["rubrics"][0]]}
    read = read_healthbench(written(tmp_path / "hb.jsonl", twice))
    assert [item.text for item in read.questions[0].items or ()] == ["Tells to wait", "Tells to call an ambulance"]
    assert "a criterion occurs twice" in read.oddities[0].what


def test_healthbench_names_every_bad_line(tmp_path: Path) -> None:
    rows = [{**CONVERSATION, "rubrics": []}, CONVERSATION, {**CONVERSATION, "prompt": "text"}, {"prompt_id": " "}]
    with pytest.raises(InputError) as error:
        read_healthbench(written(tmp_path / "hb.jsonl", *rows))
    assert "hb.jsonl: 3 problems; nothing was read" in str(error.value)
    assert "line 1: rubrics needs a list" in str(error.value)
    assert "line 3: prompt needs a list of messages" in str(error.value)
    assert "line 4: prompt_id is empty or no text" in str(error.value)


def test_the_meta_evaluation_gives_verdicts_of_each_physician(tmp_path: Path) -> None:
    other = {**META, "completion": "Wait.", "completion_id": "c2", "binary_labels": [False, False]}
    read = read_healthbench_meta(written(tmp_path / "meta.jsonl", META, other))
    assert len(read.questions) == 1
    # A judge can be compared with them: the criterion is an item of the question.
    assert [(item.text, item.points) for item in read.questions[0].items or ()] == [(META["rubric"], 1)]
    assert [(answer.sample, answer.text) for answer in read.answers] == [(0, "Call an ambulance."), (1, "Wait.")]
    assert [(item.sample, item.rater, item.verdict) for item in read.items] == [
        (0, "physician-A", "met"),
        (0, "physician-B", "not_met"),
        (1, "physician-A", "not_met"),
        (1, "physician-B", "not_met"),
    ]
    assert not read.scores
    with pytest.raises(InputError, match="lists of the same length"):
        read_healthbench_meta(written(tmp_path / "meta.jsonl", {**META, "binary_labels": [True]}))
    with pytest.raises(InputError, match="true or false"):
        read_healthbench_meta(written(tmp_path / "meta.jsonl", {**META, "binary_labels": [1, 0]}))


def test_kqas_claims_become_a_checklist_verdicts_and_levels(tmp_path: Path) -> None:
    rows = [kqa(), kqa("Rest", "Contradiction", category_x="Nice_to_have")]
    read = read_kqa(written(tmp_path / "kqa.csv", *rows))
    assert read.questions[0].checklist == "Core requirements:\n- Drink water\nSecondary requirements:\n- Rest"
    assert {(item.rater, item.item, item.verdict) for item in read.items} == {
        ("physician-0", "Drink water", "met"),
        ("physician-1", "Drink water", "not_met"),
        ("physician-0", "Rest", "contradicted"),
        ("physician-1", "Rest", "not_met"),
    }
    assert {(score.rater, score.score) for score in read.scores} == {("physician-0", 2), ("physician-1", 1)}
    with pytest.raises(InputError) as error:
        read_kqa(written(tmp_path / "bad.csv", kqa(label="Yes"), kqa("x", category_x="Maybe"), kqa(answer="Other.")))
    assert "row 2: label_0 is 'Yes'" in str(error.value)
    assert "row 3: category_x is 'Maybe'" in str(error.value)
    assert "row 4: answer: another text" in str(error.value)


@pytest.mark.parametrize(
    ("must", "nice", "level"),
    [
        (["met", "met"], ["met"], 5),
        (["met", "met"], ["not_met"], 4),
        (["met", "not_met"], ["met"], 3),
        (["met", "not_met", "not_met"], [], 2),
        (["met", "met"], ["contradicted"], 2),
        (["met", "contradicted"], ["met"], 1),
        (["not_met"], ["met"], 1),
        ([], ["met", "not_met"], 4),
    ],
)
def test_verdicts_on_claims_make_a_level(must: list[str], nice: list[str], level: int) -> None:
    claims = {f"m{n}": "must_have" for n in range(len(must))} | {f"n{n}": "nice_to_have" for n in range(len(nice))}
    assert level_of_claims(dict(zip(claims, [*must, *nice], strict=True)), claims) == level


def test_morqas_overall_metric_becomes_the_level(tmp_path: Path) -> None:
    row = MORQA
    rows = [row, {**row, "metric": "completeness", "value": "1.0"}, {**row, "rater_id": "r2", "value": "1"}]
    read = read_morqa(written(tmp_path / "morqa.csv", *rows))
    assert [(score.rater, score.score) for score in read.scores] == [("r1", 3), ("r2", 5)]
    assert [(item.item, item.verdict) for item in read.items] == [("completeness", "met")]
    assert (len(read.questions), len(read.answers), read.questions[0].language) == (1, 1, "zh")
    assert "fill in prompt" in read.oddities[0].what
    with pytest.raises(InputError, match=r"row 2: value is '2'; 0, 0.5 or 1"):
        read_morqa(written(tmp_path / "morqa.csv", {**row, "value": "2"}))
    with pytest.raises(InputError, match="rates overall of this candidate twice"):
        read_morqa(written(tmp_path / "morqa.csv", row, row))
    with pytest.raises(InputError, match="no column metric"):
        read_morqa(written(tmp_path / "morqa.csv", {name: value for name, value in row.items() if name != "metric"}))


def test_oncqas_acceptability_becomes_the_level(tmp_path: Path) -> None:
    row = ONCQA
    rows = [row, {**row, "id": "2", "q3": "Acceptable with modifications", "q4": "", "q5": ""}]
    read = read_oncqa(written(tmp_path / "oncqa.csv", *rows))
    assert [score.score for score in read.scores] == [5, 3]
    assert [score.comment for score in read.scores] == ["likelihood of harm: Low; extent of harm: Mild", None]
    with pytest.raises(InputError, match=r"row 2: q3 is 'Fine'"):
        read_oncqa(written(tmp_path / "oncqa.csv", {**row, "q3": "Fine"}))


def test_red_teaming_comes_from_a_workbook_even_of_strict_ooxml(tmp_path: Path) -> None:
    path = red_teaming(tmp_path / "red.xlsx")
    strict(path)
    read = read_red_teaming(path)
    assert [score.score for score in read.scores] == [4, 1, 2]
    assert [answer.sample for answer in read.answers] == [0, 1, 0]
    assert len(read.questions) == 2
    assert [item.item for item in read.items if item.verdict == "not_met"] == [
        "No problem of Safety",
        "No problem of Hallucination/Accuracy",
    ]


def strict(path: Path) -> None:
    """Rewrites a workbook in the namespaces of strict OOXML."""
    from zipfile import ZipFile

    with ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with ZipFile(path, "w") as archive:
        for name, data in parts.items():
            data = data.replace(
                b"http://schemas.openxmlformats.org/spreadsheetml/2006/main",
                b"http://purl.oclc.org/ooxml/spreadsheetml/main",
            ).replace(
                b"http://schemas.openxmlformats.org/officeDocument/2006/relationships",
                b"http://purl.oclc.org/ooxml/officeDocument/relationships",
            )
            archive.writestr(name, data)
