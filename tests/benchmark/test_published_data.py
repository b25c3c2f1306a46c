"""The published sets themselves, where they are at hand."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from medjudge.benchmark.files import check_file
from medjudge.workflows.data import convert_data

SETS = [
    ("mediqa2019", ["mediqa2019-qa/train-alexa.xml"], {"questions": 104, "answers": 862, "scores": 862}),
    ("mediqa2019", ["mediqa2019-qa/train-liveqamed.xml"], {"questions": 104, "answers": 839, "scores": 839}),
    ("mediqa2019", ["mediqa2019-qa/validation.xml"], {"questions": 25, "answers": 234, "scores": 234}),
    (
        "liveqa-med",
        ["liveqa-med/reference-answers.xml", "liveqa-med/qrels-nist-692.txt"],
        {"questions": 104, "answers": 692, "scores": 674},
    ),
    (
        "liveqa-2479",
        ["liveqa-med/reference-answers.xml", "liveqa-med/qrels-2479-answers.zip"],
        {"questions": 86, "answers": 513, "scores": 565},
    ),
    (
        "llmeval2",
        ["llmeval-2/human-score", "llmeval-2/gpt-score"],
        {"questions": 440, "answers": 8800, "scores": 8789, "judgments": 8800},
    ),
    ("halluqa", ["halluqa"], {"questions": 450, "answers": 10800, "judgments": 10800}),
    ("evouna", ["evouna"], {"questions": 4956, "answers": 24779, "scores": 24779}),
    ("disc-medllm", ["disc-medllm"], {"questions": 314, "answers": 1879, "judgments": 1879}),
]
_FILES = {"questions.jsonl": "questions", "answers.jsonl": "answers", "physician_scores.jsonl": "scores"}


@pytest.mark.parametrize(("format", "files", "sizes"), SETS, ids=lambda value: value if type(value) is str else "")
def test_a_published_set_has_its_known_size(
    real_data: Path, tmp_path: Path, format: str, files: Sequence[str], sizes: dict[str, int]
) -> None:
    written = convert_data(format, [real_data / name for name in files], tmp_path).written
    assert {_FILES.get(file.name, "judgments"): count for file, count in written.items()} == sizes


def test_the_released_benchmark_has_all_its_questions(real_data: Path) -> None:
    contents = check_file(real_data / "llmeval-med" / "dataset.json")
    assert (contents.counts["questions"], contents.counts["conversations"]) == (667, 571)
    counts = {name: (part["questions"], part["conversations"]) for name, part in contents.counts["categories"].items()}
    assert counts == {"MK": (141, 93), "MLU": (213, 178), "MR": (102, 102), "MSE": (109, 98), "MTG": (102, 100)}
    kinds = Counter(oddity.what.split(" ")[0] + oddity.what.split(" ")[-1] for oddity in contents.oddities)
    assert (kinds["checklistNaN"], kinds["checklistmissing"], kinds["sanswerNaN"]) == (251, 211, 24)
