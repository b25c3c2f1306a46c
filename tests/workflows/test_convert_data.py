"""What `data convert` writes is what the other stations read."""

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest
from openpyxl import Workbook

from medjudge.benchmark.expert_tables import FLAGS
from medjudge.benchmark.files import check_file
from medjudge.cli.data import Format
from medjudge.errors import InputError
from medjudge.store import Run
from medjudge.workflows.data import convert_data
from medjudge.workflows.distill import distill_training_set


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
    kqa = convert_data("kqa", [kqa_file(tmp_path / "kqa.csv")], tmp_path / "kqa")
    llmeval2 = convert_data("llmeval2", llmeval2_files(tmp_path), tmp_path / "llmeval2")
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


def table(path: Path, row: dict[str, str]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerow(row)
    return path


def json_line(path: Path, row: dict[str, Any]) -> Path:
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    return path


def healthbench(folder: Path) -> Path:
    rubrics = [{"criterion": "Tells to call an ambulance", "points": 10, "tags": ["axis:accuracy"]}]
    prompt = [{"role": "user", "content": "My chest hurts."}]
    return json_line(
        folder / "h.jsonl",
        {"prompt_id": "p", "prompt": prompt, "rubrics": rubrics, "example_tags": ["theme:emergency_referrals"]},
    )


def healthbench_meta(folder: Path) -> Path:
    row = {
        "prompt_id": "p",
        "prompt": [{"role": "user", "content": "My chest hurts."}],
        "completion": "Call an ambulance.",
        "completion_id": "c",
        "rubric": "Tells to call an ambulance",
        "category": "cluster:emergency",
        "binary_labels": [True, False],
        "anonymized_physician_ids": ["A", "B"],
    }
    return json_line(folder / "m.jsonl", row)


def morqa(folder: Path) -> Path:
    row = {"dataset": "woundcare", "encounter_id": "7", "candidate": "保持清洁。", "candidate_author_id": "gpt"}
    return table(folder / "m.csv", {**row, "lang": "zh", "rater_id": "r1", "metric": "overall", "value": "0.5"})


def oncqa(folder: Path) -> Path:
    row = {"id": "1", "q3": "Acceptable", "q4": "Low", "q5": "Mild", "raw_response": "Dear patient, rest."}
    return table(folder / "o.csv", row)


def red_teaming(folder: Path) -> Path:
    book = Workbook()
    book.active.append(["Final_appropriateness", *FLAGS, "Large language model used", "Prompt text", "Response"])
    book.active.append(["Inappropriate", 1, 0, 0, 0, "gpt", "How much?", "Take twenty."])
    book.save(folder / "r.xlsx")
    return folder / "r.xlsx"


def halluqa(folder: Path) -> Path:
    row = {"question_id": 1, "question": "喝什么？", "response": "水", "Best_Answer": "水", "is_hallucination": False}
    other = {**row, "question_id": 2, "question": "吃什么？", "response": "土", "is_hallucination": True}
    invalid = {**row, "question_id": 3, "response": "", "is_hallucination": "Invalid_Judge"}
    (folder / "m_output.json").write_text(json.dumps([row, other, invalid]))
    return folder / "m_output.json"


def evouna(folder: Path) -> Path:
    row = {"question": "who", "golden_answer": "Ann/Bea", "answer_fid": "Ann", "judge_fid": True, "improper": False}
    other = {**row, "question": "which", "golden_answer": "X", "answer_fid": "Y", "judge_fid": False}
    (folder / "NQ.json").write_text(json.dumps([row, other]))
    return folder / "NQ.json"


def disc_medllm(folder: Path) -> Path:
    conversation = "[start of conversation]\npatient: 头疼\ndoctor: 请休息\n[end of conversation]"
    row = {"id": 1, "model": "m", "source": "CMD", "scores": "Accuracy: 4", "prompt": conversation}
    return json_line(folder / "d.jsonl", row)


@pytest.mark.parametrize(
    "write", [healthbench, healthbench_meta, morqa, oncqa, red_teaming, halluqa, evouna, disc_medllm]
)
def test_what_each_published_set_becomes_passes_data_check(medjudge, tmp_path: Path, write) -> None:
    name = write.__name__.replace("_", "-")
    done = medjudge("data", "convert", name, write(tmp_path), "--out", "out", "--json")
    assert done.returncode == 0, done.stderr
    files = [Path(file) for file in json.loads(done.stdout)["written"]]
    assert "questions.jsonl" in {file.name for file in files}
    for file in files:
        checked = medjudge("data", "check", file, "--json")
        assert checked.returncode == 0, checked.stderr


def test_the_help_and_the_docs_name_every_format(medjudge) -> None:
    shown = " ".join(medjudge("data", "convert", "--help").stdout.replace("│", " ").split())
    page = (Path(__file__).parents[2] / "docs" / "data-formats.md").read_text(encoding="utf-8")
    for format in get_args(Format):
        assert format in shown
        assert f"- `{format}` reads " in page


def test_a_teacher_and_people_of_one_scheme_are_distilled_together(tmp_path: Path) -> None:
    zh, en = json.loads(halluqa(tmp_path).read_text())[0], json.loads(evouna(tmp_path).read_text())[0]
    questions = [{**zh, "question_id": number, "question": f"喝什么{number}？"} for number in range(10)]
    (tmp_path / "m_output.json").write_text(json.dumps(questions))
    (tmp_path / "NQ.json").write_text(
        json.dumps([{**en, "question": f"who {number}", "judge_fid": number > 4} for number in range(10)])
    )
    convert_data("halluqa", [tmp_path / "m_output.json"], tmp_path / "zh")
    convert_data("evouna", [tmp_path / "NQ.json"], tmp_path / "en")
    distilled = distill_training_set([tmp_path / "zh", tmp_path / "en"], tmp_path / "set")
    lines = [*distilled.train, *distilled.validation]
    assert Counter((line.question.language, line.source, line.scored_by[0], line.level) for line in lines) == {
        ("en", "physician", "evouna-annotator", 1): 5,
        ("en", "physician", "evouna-annotator", 5): 5,
        ("zh", "teacher", "gpt-4, round 1", 5): 10,
    }


def test_the_docs_and_the_help_name_the_licences(medjudge) -> None:
    shown = " ".join(medjudge("data", "convert", "--help").stdout.replace("│", " ").split())
    page = (Path(__file__).parents[2] / "docs" / "data-formats.md").read_text(encoding="utf-8")
    for name, licence in (("halluqa", "Apache-2.0"), ("evouna", "Apache-2.0"), ("disc-medllm", "Apache-2.0")):
        assert f"{name} ({licence}" in shown
        assert licence in page.split(f"- `{name}` reads ")[1].split("\n- ")[0]
    assert "liveqa-2479 (CC BY 4.0" in shown
    assert "CC BY 4.0" in page.split("- `liveqa-2479` reads ")[1].split("\n\n")[0]


def test_a_refused_file_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="label_0 is 'Perhaps'"):
        convert_data("kqa", [kqa_file(tmp_path / "kqa.csv", "Perhaps")], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="kqa: name one file"):
        convert_data("kqa", [], tmp_path / "out")
    with pytest.raises(InputError, match="name two files or folders"):
        convert_data("llmeval2", llmeval2_files(tmp_path)[:1], tmp_path / "out")
