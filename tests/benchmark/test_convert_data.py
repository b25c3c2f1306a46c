"""`data convert` writes files that the other stations read, also of the published sets, where they are at hand."""

from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from published_rows import evouna, halluqa, kqa, llmeval2, llmeval2_files, written

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


LIVEQA = "liveqa-med/reference-answers.xml"
SETS = [
    ("mediqa2019", ["mediqa2019-qa/train-alexa.xml"], (104, 862, 862, 0)),
    ("mediqa2019", ["mediqa2019-qa/train-liveqamed.xml"], (104, 839, 839, 0)),
    ("mediqa2019", ["mediqa2019-qa/validation.xml"], (25, 234, 234, 0)),
    ("liveqa-med", [LIVEQA, "liveqa-med/qrels-nist-692.txt"], (104, 692, 674, 0)),
    ("liveqa-2479", [LIVEQA, "liveqa-med/qrels-2479-answers.zip"], (86, 513, 565, 0)),
    ("llmeval2", ["llmeval-2/human-score", "llmeval-2/gpt-score"], (440, 8800, 8789, 8800)),
    ("halluqa", ["halluqa"], (450, 10800, 0, 10800)),
    ("evouna", ["evouna"], (4956, 24779, 24779, 0)),
    ("disc-medllm", ["disc-medllm"], (314, 1879, 0, 1879)),
]
"""Format, files, and the numbers of questions, answers, scores and judgments."""


@pytest.mark.parametrize(("format", "files", "sizes"), SETS, ids=lambda value: value if type(value) is str else "")
def test_a_published_set_has_its_known_size(real_data: Path, tmp_path: Path, format: str, files, sizes) -> None:
    written = convert_data(format, [real_data / name for name in files], tmp_path).written
    counts = {file.stem: count for file, count in written.items()}
    assert tuple(counts.get(name, 0) for name in ("questions", "answers", "physician_scores", "gpt-4")) == sizes


def test_the_released_benchmark_has_all_its_questions(real_data: Path) -> None:
    contents = check_file(real_data / "llmeval-med" / "dataset.json")
    assert (contents.counts["questions"], contents.counts["conversations"]) == (667, 571)
    counts = {name: (part["questions"], part["conversations"]) for name, part in contents.counts["categories"].items()}
    assert counts == {"MK": (141, 93), "MLU": (213, 178), "MR": (102, 102), "MSE": (109, 98), "MTG": (102, 100)}
    assert contents.counts["checklists"] == {"split_into_items": 201, "not_split": 4}
    assert sum(part["with_items"] for part in contents.counts["categories"].values()) == 201
    kinds = Counter(oddity.what.split(" ")[0] + oddity.what.split(" ")[-1] for oddity in contents.oddities)
    assert (kinds["checklistNaN"], kinds["checklistmissing"], kinds["sanswerNaN"]) == (251, 211, 24)
