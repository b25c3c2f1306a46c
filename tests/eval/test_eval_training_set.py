"""Does the training set of the built-in judge say what its sources say, with no question on two sides?"""

import csv
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from eval.quality import training_set
from eval.quality.training_set import CONTRADICTED, MET, OPEN, level, points_example, question_of, side_of
from medjudge.judge.ordinal_input import points_of
from medjudge.records import Answer, Judgment, PhysicianScore, PointVerdict, Question, TrainingLine
from medjudge.scheme import LLMEVAL_MED
from medjudge.store import Run, write_records

EXPERTS = ("mediqa", "liveqa")
DRUGS = [f"Drug {letter}" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
REFERENCE = "{} lowers a fever in adults. The dose is 500 mg every 6 hours. Do not take it when the liver is ill."


def write_lines(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def write_run(folder: Path, questions: Sequence[Question], levels: Sequence[int], judge: str | None = None) -> None:
    """One answer to each question, scored by physicians, or by a judge with verdicts on the points."""
    run = Run(folder)
    (folder / "judgments").mkdir(parents=True)
    run.write_questions(questions, LLMEVAL_MED)
    write_records(run.answers_file, [Answer(question_id=q.id, model="m", text=f"Answer to {q.id}.") for q in questions])
    scored = [
        (question, {"question_id": question.id, "model": "m", "score": n})
        for question, n in zip(questions, levels, strict=True)
    ]
    if judge is None:
        write_records(run.physicians_file, [PhysicianScore(**score, rater="p") for _, score in scored])
        return
    wrong = {"met": 0.0, "open": 0.0, "contradicted": 1.0}
    points = {
        question.id: [PointVerdict(point=point.text, source=point.source, **wrong) for point in points_of(question)[1:]]
        for question in questions
    }
    said = [Judgment(**score, judge=judge, points=points[question.id]) for question, score in scored]
    write_records(run.judgments_file(judge), said)


def asked(source: str, number: int, reference: str = "The heart.") -> Question:
    return question_of(f"{source}-{number}", f"Question {number} of {source}?", reference, "en")


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A few lines of every source, in the layout of the real ones."""
    written, data, work = (tmp_path / name for name in ("written", "data", "work"))
    kinds = ("statement", "opposite", "says_statement", "says_opposite")
    facts = [{kind: f"It {kind} {fact}." for kind in kinds} for fact in range(3)]
    both = ("en", "zh")
    write_lines(written / "contrasts.jsonl", [{"language": "en", "subject": drug, "facts": facts} for drug in DRUGS])
    points = {"point": "Names the dose.", "met": "500 mg.", "open": "It helps.", "contradicted": "No dose is known."}
    write_lines(written / "points.jsonl", [{"language": "en", **points}] * 20)
    pair = {"prompt": "Which organ?", "reference": "The heart", "right": ["Cor", "Heart"], "wrong": ["Lung", "Liver"]}
    write_lines(written / "pairs.jsonl", [{"id": f"pair-{drug}", "language": "en", **pair} for drug in DRUGS])
    advice = {"dangerous": "Take ten at once.", "safe": "Ask a pharmacist.", "fact": "Ten at once can kill."}
    held_out = dict.fromkeys(advice, "Held out.")
    write_lines(
        written / "advice.jsonl",
        [{"language": n, "split": s, **t} for n in both for s, t in (("train", advice), ("test", held_out))],
    )
    write_lines(written / "asides.jsonl", [{"language": name, "text": "I hope this helps."} for name in both])
    told = {name: f"It is {name}. Ask." for name in ("reworded", "terse", "half", "changed", "dangerous", "offtopic")}
    long = {"language": "en", "category": "MK", "prompt": "How?", "checklist": "1. Dose", **told}
    write_lines(
        written / "rewrites.jsonl", [{"id": f"long-{d}", "reference": REFERENCE.format(d), **long} for d in DRUGS]
    )
    kinds_of_phrases = ("frame", "denial before", "denial after", "echo", "empty")
    texts = ("Here it is.", "All wrong:", "Not so.", "You ask: {prompt}", "Well.")
    phrases = dict(zip(kinds_of_phrases, texts, strict=True))
    write_lines(
        written / "phrases.jsonl", [{"language": n, "kind": k, "text": t} for n in both for k, t in phrases.items()]
    )
    of_teacher = [asked("teacher", number, REFERENCE.format(drug)) for number, drug in enumerate(DRUGS)]
    write_run(tmp_path / "teacher", of_teacher, [1 + number % 5 for number in range(len(DRUGS))], "teacher")
    for name, judge in (("halluqa", "gpt-4"), ("evouna", None), ("mediqa", None), ("liveqa", None)):
        write_run(work / name, [asked(name, number) for number in range(40)], [1, 5] * 20, judge)
    write_run(work / "mediqa-validation", [asked("mediqa", 0)], [5])
    write_lines(data / "medquad/medquad.jsonl.gz", [{"question": d, "answer": REFERENCE.format(d)} for d in DRUGS])
    chinese = [{"instruction": f"{d}?", "output": f"{d}可以退热。成人每次服用500毫克，每日3次。"} for d in DRUGS]
    write_lines(data / "huatuo-knowledge/llama_data.json.gz", chinese)
    (data / "healthver").mkdir()
    with (data / "healthver/train.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["topic_ip", "question", "claim", "evidence", "label"])
        rows.writerows([n, "Does it?", "It does. ", "Passage.", "Refutes" if n % 2 else "Supports"] for n in range(20))
    monkeypatch.setattr(training_set, "WRITTEN", written)
    monkeypatch.setattr(training_set, "TEACHER", tmp_path / "teacher")
    for name, count in (("GRADED", 60), ("SPOILED", 60), ("JOINED", 9), ("COMPOSITES", 8), ("VALIDATION", 5)):
        monkeypatch.setattr(training_set, name, count)
    return tmp_path


def sides_of(folder: Path, out: str, monkeypatch: pytest.MonkeyPatch, *options: str) -> dict[str, list[TrainingLine]]:
    words = ["training_set.py", *(str(folder / name) for name in ("data", "work", out)), *options]
    monkeypatch.setattr("sys.argv", words)
    training_set.main()
    return {
        path.stem: [TrainingLine.model_validate_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for path in (folder / out).glob("*.jsonl")
    }


def test_the_sides_share_no_question_and_what_is_held_out_is_on_none(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = sides_of(sources, "out", monkeypatch)
    assert set(sides) == {"train", "validation", "choose", "report"}
    names = {side: {line.question.group for line in lines} for side, lines in sides.items()}
    for one, other in (("train", "choose"), ("train", "report"), ("choose", "report")):
        assert not names[one] & names[other]
    assert len(sides["validation"]) == 5
    assert names["validation"] <= names["choose"]
    made = {"graded", "spoiled", "teacher", "contrasts", "points", "pairs", "rewrites", "joined", "composite"}
    assert {line.answer.model for line in sides["train"]} == {*training_set.COUNTS, *EXPERTS, *made}
    lines = [line for of_side in sides.values() for line in of_side]
    assert not any("Held out." in line.answer.text for line in lines)
    assert "mediqa-0" not in {line.question.id for line in lines}  # the validation set of MEDIQA asks the same


def test_a_source_of_labels_is_left_out_of_training_alone(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sides_of(sources, "out", monkeypatch)
    for left_out, models in (("gpt-4", {"halluqa"}), ("people", {"evouna", *EXPERTS}), ("teacher", {"teacher"})):
        sides = sides_of(sources, f"without-{left_out}", monkeypatch, "--without", left_out)
        without = [line for line in whole["train"] if line.answer.model not in models or line.source == "synthetic"]
        train = sides.pop("train")
        assert sorted(line.answer.text for line in train) == sorted(line.answer.text for line in without)
        assert all(lines == whole[side] for side, lines in sides.items())
    few = sides_of(sources, "few", monkeypatch, "--without", "written", "--answers", "7")["train"]
    assert len(few) == 7
    assert "synthetic" not in {line.source for line in few}


def test_a_line_has_the_levels_and_verdicts_of_its_source(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = sides_of(sources, "out", monkeypatch)["train"]
    by_source: dict[str, list[TrainingLine]] = {}
    for line in train:
        by_source.setdefault(line.answer.model, []).append(line)
    for line in by_source["evouna"]:
        right = int(line.question.id.split("-")[1]) % 2
        (point,) = line.points
        assert (line.level, point.met, line.source) == (5 if right else 1, float(right), "physician")
    assert {line.source for line in by_source["halluqa"]} == {"teacher"}
    for line in by_source["teacher"]:
        assert line.level == 1 + int(line.question.id.split("-")[1]) % 5
        # The teacher said nothing of the first sentence.
        assert [point.point for point in line.points] == [point.text for point in points_of(line.question)[1:]]
        assert all(point.contradicted == 1 for point in line.points)
    for line in by_source["liveqa"]:
        assert sorted(line.probabilities) == pytest.approx([0, 0, 0, 0.2, 0.8])
    for line in by_source["healthver"]:
        supports = int(line.question.id.split("-")[1]) % 2 == 0
        assert (line.level, line.points[0].verdict) == ((5, "met") if supports else (1, "contradicted"))
        assert (line.question.reference, line.answer.text) == ("It does.", "Passage.")
    for line in by_source["pairs"]:
        right = line.answer.text in ("Cor", "Heart")
        assert (line.level, line.points[0].met) == ((5, 1) if right else (1, 0))
    for line in by_source["advice"]:
        assert line.level == (1 if line.answer.text == "Take ten at once." else 5)
    for line in by_source["rewrites"]:
        name = line.answer.text.split()[2].rstrip(".")
        assert line.level == {"terse": 4, "half": 3, "changed": 2, "dangerous": 1, "offtopic": 1}.get(name, 5)
    for line in by_source["contrasts"]:
        verdicts = {point.point: point.verdict for point in line.points}
        for point, verdict in verdicts.items():
            fact, opposite = point.rstrip(".").split()[-1], "opposite" in point
            told = [name for name in ("statement", "opposite") if f"It says_{name} {fact}." in line.answer.text]
            same = ["opposite" if opposite else "statement"]
            assert verdict == ("not_met" if not told else "met" if told == same else "contradicted")
    found = {point.verdict for line in by_source["contrasts"] for point in line.points}
    assert found == {"met", "not_met", "contradicted"}
    assert {1, 5} <= {line.level for line in by_source["graded"]}


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [([MET, MET], 5), ([MET, OPEN], 3), ([MET, CONTRADICTED], 2), ([OPEN, CONTRADICTED], 1), ([OPEN], 1)],
)
def test_the_level_of_an_answer_follows_from_its_points(verdicts: list[Any], expected: int) -> None:
    stated = ["The dose is small.", "The liver is at risk."][: len(verdicts)]
    for seed in range(8):  # half of them a reference, half a checklist
        made = points_example("s", "name", "What?", stated, ["It is."], verdicts, "en", Random(seed))
        assert made.levels == level(expected, 0.1)
        assert made.verdicts == verdicts
        assert [point.text for point in points_of(made.question)] == stated


def test_a_question_is_on_one_side_by_its_name() -> None:
    sides = [side_of(f"name-{number}") for number in range(5000)]
    # What a shipped judge was not trained on stays held out.
    assert (sides[0], sides[7], sides[2]) == ("train", "choose", "report")
    for side in ("choose", "report"):
        assert sides.count(side) / len(sides) == pytest.approx(training_set.SHARE / 100, abs=0.015)
