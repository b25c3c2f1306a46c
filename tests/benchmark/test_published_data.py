"""The published sets themselves, where they are at hand."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from medjudge.benchmark.files import check_file
from medjudge.workflows.data import convert_data

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
def test_a_published_set_has_its_known_size(
    real_data: Path, tmp_path: Path, format: str, files: Sequence[str], sizes: tuple[int, ...]
) -> None:
    written = convert_data(format, [real_data / name for name in files], tmp_path).written
    counts = {file.stem: count for file, count in written.items()}
    assert tuple(counts.get(name, 0) for name in ("questions", "answers", "physician_scores", "gpt-4")) == sizes


def test_the_released_benchmark_has_all_its_questions(real_data: Path) -> None:
    contents = check_file(real_data / "llmeval-med" / "dataset.json")
    assert (contents.counts["questions"], contents.counts["conversations"]) == (667, 571)
    counts = {name: (part["questions"], part["conversations"]) for name, part in contents.counts["categories"].items()}
    assert counts == {"MK": (141, 93), "MLU": (213, 178), "MR": (102, 102), "MSE": (109, 98), "MTG": (102, 100)}
    kinds = Counter(oddity.what.split(" ")[0] + oddity.what.split(" ")[-1] for oddity in contents.oddities)
    assert (kinds["checklistNaN"], kinds["checklistmissing"], kinds["sanswerNaN"]) == (251, 211, 24)
