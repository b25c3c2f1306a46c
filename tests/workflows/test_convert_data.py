"""What `data convert` writes is what the other stations read."""

import csv
import json
from pathlib import Path

import pytest

from medjudge.benchmark.files import check_file
from medjudge.errors import InputError
from medjudge.store import Run
from medjudge.workflows.data import Format, convert_data


def kqa_file(path: Path, label: str = "Entailment") -> Path:
    row = {
        "Question": "What helps?",
        "llm_x": "gpt",
        "answer": "Water.",
        "claim": "Drink water",
        "category_x": "Must_have",
        "majority_label": label,
        **{f"label_{number}": label for number in range(3)},
    }
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerow(row)
    return path


def llmeval2_files(folder: Path) -> list[Path]:
    entry = {
        "question_uuid": "Optics_1",
        "dialog_uuid": "m_Optics_1",
        "llm_name": "m",
        "dialog": [{"role": "user", "content": "选哪个？"}, {"role": "llm", "content": "丙"}],
        "hint": "丙",
        "type": "A",
        "stars": {"Correctness": 3, "Explanation Correctness": 1},
    }
    files = [folder / side / "Optics_data.json" for side in ("human", "gpt")]
    for file in files:
        file.parent.mkdir()
        file.write_text(json.dumps([entry], ensure_ascii=False), encoding="utf-8")
    return files


def test_every_written_file_is_read_by_data_check(tmp_path: Path) -> None:
    kqa = convert_data(Format.kqa, [kqa_file(tmp_path / "kqa.csv")], tmp_path / "kqa")
    llmeval2 = convert_data(Format.llmeval2, llmeval2_files(tmp_path), tmp_path / "llmeval2")
    kinds = {file.name: check_file(file).kind for file in (*kqa.written, *llmeval2.written)}
    assert kinds == {
        "questions.jsonl": "questions",
        "answers.jsonl": "answers",
        "physician_scores.jsonl": "physicians' scores",
        "item_scores.jsonl": "verdicts on items",
        "gpt-4.jsonl": "judgments",
    }
    items = check_file(tmp_path / "kqa" / "item_scores.jsonl")
    assert items.counts["verdicts"] == {"met": 3}
    assert items.counts["items"] == 1
    assert Run(tmp_path / "kqa").scheme().name == "consumer-health"
    assert Run(tmp_path / "llmeval2").scheme().category_ids == ("Optics",)
    assert [item.verdict for item in Run(tmp_path / "kqa").item_scores()] == ["met"] * 3


def test_a_refused_file_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="label_0 is 'Perhaps'"):
        convert_data(Format.kqa, [kqa_file(tmp_path / "kqa.csv", "Perhaps")], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="kqa: name one file"):
        convert_data(Format.kqa, [], tmp_path / "out")
    with pytest.raises(InputError, match="name two files or folders"):
        convert_data(Format.llmeval2, llmeval2_files(tmp_path)[:1], tmp_path / "out")
