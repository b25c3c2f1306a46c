import json
import subprocess
import sys
from pathlib import Path

import datasets
import pytest

from medjudge.errors import InputError
from medjudge.records import Answer, Judgment, PhysicianScore
from medjudge.scheme import LLMEVAL_MED, open_scheme
from medjudge.store import Run, read_questions, read_records, write_records

Q = {"id": "q1", "category": "MK", "group": "q1", "prompt": "?", "language": "en"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"line 2: not valid JSON"),
        (json.dumps({**Q, "id": "q2", "category": "XX"}), r"line 2: category: scheme llmeval-med has 'MK', .*\"XX\""),
        (json.dumps({**Q, "id": "q2", "round": 0}), r"line 2: round: .*greater than or equal to 1"),
        (json.dumps({**Q, "id": "q2", "prompt": float("nan")}), r"line 2: .*NaN is not a JSON value"),
        (json.dumps({**Q, "id": "q2", "prompt": "  "}), r"line 2: prompt"),
        (json.dumps({**Q, "id": "q2", "refrence": "x"}), r"line 2: refrence: Extra inputs"),
        (json.dumps(Q), r"line 2: 'q1' duplicates line 1"),
        (json.dumps({**Q, "id": "q2", "prompt": None}), r"line 2: prompt: .*string"),
        ('{"id": "q2", "id": "q3"}', r"line 2: .*'id' occurs twice"),
        (json.dumps({**Q, "id": "q2", "prompt": "\ud800"}), r"line 2: .*surrogate"),
        ("[" * 100_000, r"line 2: not valid JSON"),
    ],
)
def test_a_bad_line_is_named_with_file_line_and_field(jsonl, line: str, message: str) -> None:
    path = jsonl("questions.jsonl", Q, line)
    with pytest.raises(InputError, match=message) as caught:
        read_questions(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_score_out_of_range_or_as_text_is_refused(jsonl) -> None:
    base = {"question_id": "q", "model": "m", "rater": "r"}
    for score in (0, 6, "4", 3.5, True):
        with pytest.raises(InputError, match="line 1: score"):
            read_records(jsonl("scores.jsonl", {**base, "score": score}), PhysicianScore)


def test_separators_split_no_record_and_datasets_opens_records(tmp_path: Path, answer, sample_run: Path) -> None:
    text = "a\u2028b\u0085c\x0bd\ne"
    write_records(tmp_path / "answers.jsonl", [answer(text=text)])
    assert read_records(tmp_path / "answers.jsonl", Answer)[0].text == text
    for name, count in (("questions", 56), ("answers", 280), ("physician_scores", 280)):
        assert len(datasets.Dataset.from_json(str(sample_run / f"{name}.jsonl"))) == count


def test_a_half_line_at_the_end_is_cut_and_the_rest_kept(tmp_path: Path, capsys) -> None:
    run = Run(tmp_path)
    judged = Judgment(question_id="q", model="m", judge="j", score=4)
    first, second = (judged.model_copy(update={"sample": sample}).model_dump_json() for sample in (0, 1))
    with run.lock():
        run.append(run.judgments_file("j"), first)
    with run.judgments_file("j").open("ab") as file:
        file.write('{"question_id": "é'.encode()[:-1])  # cut inside a character
    torn = run.judgments_file("j").read_bytes()
    # A reader may stand beside a running eval: it leaves the line out and the file alone.
    assert [judgment.sample for judgment in run.judgments("j")] == [0]
    assert run.judgments_file("j").read_bytes() == torn
    assert "the last line is incomplete (18 bytes) and is ignored" in capsys.readouterr().err
    with run.lock():
        assert "the last line was incomplete (18 bytes) and was removed" in capsys.readouterr().err
        run.append(run.judgments_file("j"), second)
    assert [judgment.sample for judgment in run.judgments("j")] == [0, 1]


@pytest.mark.parametrize("end", [b"", b"\n" + bytes(500)])
def test_a_last_line_without_its_newline_is_kept_and_what_a_power_cut_left_empty_is_cut(tmp_path, end: bytes) -> None:
    run = Run(tmp_path)
    line = b'{"question_id":"q","model":"m","text":"x"}'
    run.answers_file.write_bytes(line + end)
    assert len(run.answers()) == 1
    with run.lock():
        assert len(run.answers()) == 1
    assert run.answers_file.read_bytes() == line + b"\n"


def test_a_lock_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from medjudge.store import Run\n"
        "with Run(Path(sys.argv[1])).lock(): print('held', flush=True); time.sleep(600)"
    )
    run = Run(tmp_path / "run")
    holder = subprocess.Popen([sys.executable, "-c", code, run.path], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=rf"{run.path}: another process \(pid {holder.pid}\)"), run.lock():
            pass
    finally:
        holder.kill()
        holder.wait()
    left = run.path / f"scores.json.{holder.pid}.part"
    left.write_text("{")
    with run.lock():
        assert not left.exists()
    with run.lock():
        pass


def test_a_question_outside_the_named_scheme_is_named_with_its_line(jsonl) -> None:
    path = jsonl("questions.jsonl", {**Q, "category": "CHQ"}, {**Q, "id": "q2", "category": "CHQ", "language": "fr"})
    with pytest.raises(InputError, match=r"line 2: language: scheme consumer-health has 'en' \(found \"fr\"\)"):
        read_questions(path, open_scheme("consumer-health"))


def test_a_run_has_questions_which_are_read_by_the_copy_of_its_scheme(tmp_path: Path, question) -> None:
    with pytest.raises(InputError, match="not a run folder"):
        Run.existing(tmp_path)
    run = Run(tmp_path)
    assert run.scheme() is LLMEVAL_MED
    run.write_questions([question(category="CHQ")], open_scheme("consumer-health"))
    assert run.scheme() == open_scheme("consumer-health")
    assert [question.category for question in run.questions()] == ["CHQ"]
