"""What `data convert` writes is what the other stations read."""

import json
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from files_of_rows import written
from published_rows import (
    CONVERSATION,
    META,
    MORQA,
    ONCQA,
    consultation,
    evouna,
    halluqa,
    kqa,
    llmeval2,
    llmeval2_files,
    red_teaming,
)

from medjudge.benchmark.files import check_file
from medjudge.cli.data import Format
from medjudge.errors import InputError
from medjudge.store import Run
from medjudge.workflows.data import convert_data
from medjudge.workflows.distill import distill_training_set

KINDS = {
    "questions.jsonl": "questions",
    "answers.jsonl": "answers",
    "physician_scores.jsonl": "physicians' scores",
    "item_scores.jsonl": "verdicts on items",
    "gpt-4.jsonl": "judgments",
}


@pytest.mark.parametrize(
    ("name", "file", "rows"),
    [
        ("kqa", "k.csv", [kqa()]),
        ("healthbench", "h.jsonl", [CONVERSATION]),
        ("healthbench-meta", "m.jsonl", [META]),
        ("morqa", "m.csv", [MORQA]),
        ("oncqa", "o.csv", [ONCQA]),
        ("red-teaming", "r.xlsx", []),
        ("halluqa", "m_output.json", [halluqa(), halluqa(2, True), halluqa(3, "Invalid_Judge", response="")]),
        ("evouna", "NQ.json", [evouna("who"), evouna("which", False)]),
        ("disc-medllm", "d.jsonl", [consultation()]),
    ],
)
def test_what_each_published_set_becomes_passes_data_check(
    medjudge, tmp_path: Path, name: str, file: str, rows: list[dict]
) -> None:
    path = written(tmp_path / file, *rows) if rows else red_teaming(tmp_path / file)
    done = medjudge("data", "convert", name, path, "--out", "out", "--json")
    assert done.returncode == 0, done.stderr
    kinds = {Path(made).name: check_file(tmp_path / made).kind for made in json.loads(done.stdout)["written"]}
    assert "questions.jsonl" in kinds
    assert kinds.items() <= KINDS.items()


def test_items_levels_and_schemes_arrive_in_a_run_folder(tmp_path: Path) -> None:
    convert_data("kqa", [written(tmp_path / "kqa.csv", kqa())], tmp_path / "kqa")
    run = Run(tmp_path / "kqa")
    assert check_file(run.items_file).counts["verdicts"] == {"met": 1, "not_met": 1}
    assert (run.scheme().name, [item.verdict for item in run.item_scores()]) == ("consumer-health", ["met", "not_met"])
    convert_data("llmeval2", llmeval2_files(tmp_path, [llmeval2()]), tmp_path / "llmeval2")
    assert Run(tmp_path / "llmeval2").scheme().category_ids == ("Optics",)


def test_the_help_and_the_docs_name_every_format_and_its_licence(medjudge) -> None:
    shown = " ".join(medjudge("data", "convert", "--help").stdout.replace("│", " ").split())
    page = (Path(__file__).parents[2] / "docs" / "data-formats.md").read_text(encoding="utf-8")
    licences = dict.fromkeys(("halluqa", "evouna", "disc-medllm"), "Apache-2.0") | {"liveqa-2479": "CC BY 4.0"}
    for format in get_args(Format):
        licence = licences.get(format, "")
        assert f"{format} ({licence}" if licence else format in shown
        assert licence in page.split(f"- `{format}` reads ")[1].split("\n- ")[0].split("\n\n")[0]


def test_a_teacher_and_people_of_one_scheme_are_distilled_together(tmp_path: Path) -> None:
    zh = written(tmp_path / "m_output.json", *[halluqa(number) for number in range(10)])
    en = [evouna(f"who {number}", number > 4) for number in range(10)]
    for entry in en:
        del entry["answer_gpt4"], entry["judge_gpt4"]
    convert_data("halluqa", [zh], tmp_path / "zh")
    convert_data("evouna", [written(tmp_path / "NQ.json", *en)], tmp_path / "en")
    distilled = distill_training_set([tmp_path / "zh", tmp_path / "en"], tmp_path / "set")
    lines = [*distilled.train, *distilled.validation]
    assert Counter((line.question.language, line.source, line.scored_by[0], line.level) for line in lines) == {
        ("en", "physician", "evouna-annotator", 1): 5,
        ("en", "physician", "evouna-annotator", 5): 5,
        ("zh", "teacher", "gpt-4, round 1", 5): 10,
    }


def test_a_refused_file_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="label_0 is 'Perhaps'"):
        convert_data("kqa", [written(tmp_path / "kqa.csv", kqa(label="Perhaps"))], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="kqa: name one file"):
        convert_data("kqa", [], tmp_path / "out")
    with pytest.raises(InputError, match="name two files or folders"):
        convert_data("llmeval2", llmeval2_files(tmp_path, [llmeval2()])[:1], tmp_path / "out")
