"""`data convert` writes files that the other stations read."""

from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from files_of_rows import written
from published_rows import evouna, halluqa, kqa, llmeval2, llmeval2_files

from medjudge.benchmark.files import check_file
from medjudge.cli.data import Format
from medjudge.errors import InputError
from medjudge.store import Run
from medjudge.workflows.data import convert_data
from medjudge.workflows.distill import distill_training_set


def test_items_levels_and_schemes_arrive_in_a_run_folder(tmp_path: Path) -> None:
    convert_data("kqa", [written(tmp_path / "kqa.csv", kqa())], tmp_path / "kqa")
    run = Run(tmp_path / "kqa")
    assert check_file(run.items_file).counts["verdicts"] == {"met": 1, "not_met": 1}
    assert (run.scheme().name, [item.verdict for item in run.item_scores()]) == ("consumer-health", ["met", "not_met"])
    convert_data("llmeval2", llmeval2_files(tmp_path, [llmeval2()]), tmp_path / "llmeval2")
    assert Run(tmp_path / "llmeval2").scheme().category_ids == ("Optics",)


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


def test_the_help_and_the_docs_name_every_format_and_its_licence(medjudge) -> None:
    shown = " ".join(medjudge("data", "convert", "--help").stdout.replace("│", " ").split())
    page = (Path(__file__).parents[2] / "docs" / "data-formats.md").read_text(encoding="utf-8")
    licences = dict.fromkeys(("halluqa", "evouna", "disc-medllm"), "Apache-2.0") | {"liveqa-2479": "CC BY 4.0"}
    for format in get_args(Format):
        licence = licences.get(format, "")
        assert f"{format} ({licence}" if licence else format in shown
        assert licence in page.split(f"- `{format}` reads ")[1].split("\n- ")[0].split("\n\n")[0]
