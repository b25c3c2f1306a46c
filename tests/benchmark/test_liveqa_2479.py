"""MedQuAD's answers to LiveQA's questions, from small files of their layout."""

import csv
import io
from collections import Counter
from pathlib import Path
from zipfile import ZipFile

import pytest

from medjudge.benchmark.expert_sets import read_liveqa_2479
from medjudge.errors import InputError

JUDGMENTS = ("1 2-Related GARD_1_Sec1.txt", "1 4-Excellent GARD_1_Sec1.txt", "2 1-Incorrect GARD_1_Sec1.txt")
ANSWERS = {
    "GARD_1_Sec1.txt": "It is rare (very).",
    "GARD_1_Sec2.txt": "See below.",
    "ADAM_1.txt": "Old.",
    "CDC_1.txt": "",
}


@pytest.fixture
def references(tmp_path: Path) -> Path:
    """Three questions, the first with a reference answer."""
    file = tmp_path / "references.xml"
    question = "<Original-Question><SUBJECT>gout</SUBJECT><MESSAGE>What {}?</MESSAGE></Original-Question>"
    reference = "<ReferenceAnswers><RefAnswer><ANSWER> Drink\n water. </ANSWER></RefAnswer></ReferenceAnswers>"
    questions = [
        f'<NLM-QUESTION qid="TQ{number}">{question.format(number)}{reference if number == 1 else ""}</NLM-QUESTION>'
        for number in (1, 2, 3)
    ]
    file.write_text(f"<Set>{''.join(questions)}</Set>")
    return file


def answers_table(answers: dict[str, str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["AnswerID", "Answer"])
    writer.writerows((name, f"Question: what ?\nURL: u\nAnswer: {answer}) \n") for name, answer in answers.items())
    return text.getvalue()


def archive(folder: Path, *judgments: str) -> Path:
    with ZipFile(folder / "answers.zip", "w") as opened:
        opened.writestr("set/judged.txt", "\n".join(judgments) + "\n")
        opened.writestr("set/answers.csv", answers_table(ANSWERS))
        opened.writestr("__MACOSX/set/._answers.csv", "no table")
    return folder / "answers.zip"


def test_judgments_become_scores_of_medquad_s_answers(references: Path, tmp_path: Path) -> None:
    read = read_liveqa_2479([references, archive(tmp_path, *JUDGMENTS, "1 3-Incomplete GARD_1_Sec2.txt")])
    assert [(each.question_id, each.sample, each.score) for each in read.scores] == [
        ("liveqa-1", 0, 2),
        ("liveqa-1", 0, 5),
        ("liveqa-2", 0, 1),
        ("liveqa-1", 1, 4),
    ]
    assert {each.model for each in read.scores} == {"medquad-GARD"}
    assert len({each.key for each in read.scores}) == 4
    assert [answer.text for answer in read.answers] == ["It is rare (very).", "It is rare (very).", "See below."]
    assert read.answers[2].extra == {"answer_id": "GARD_1_Sec2.txt"}
    # The ids are those of liveqa-med, so that a split keeps the two sets of answers to a question together.
    assert [(each.id, each.prompt, each.reference) for each in read.questions] == [
        ("liveqa-1", "gout. What 1?", "Drink water."),
        ("liveqa-2", "gout. What 2?", None),
    ]
    assert not read.oddities


def test_no_assessor_stands_for_the_lower_scores(references: Path, tmp_path: Path) -> None:
    twice = [line for name in ("1", "2") for line in (f"1 1-I GARD_1_Sec{name}.txt", f"1 4-E GARD_1_Sec{name}.txt")]
    read = read_liveqa_2479([references, archive(tmp_path, *twice)])
    levels = Counter({each.rater: 0 for each in read.scores})
    for each in read.scores:
        levels[each.rater] += each.score or 0
    assert levels == {"medquad-assessor-1": 6, "medquad-assessor-2": 6}


def test_answers_of_withdrawn_sources_and_without_text_are_one_oddity(references: Path, tmp_path: Path) -> None:
    judged = (*JUDGMENTS, "3 1-Incorrect ADAM_1.txt", "3 1-Incorrect CDC_1.txt")
    read = read_liveqa_2479([references, archive(tmp_path, *judged)])
    assert len(read.scores) == 3
    assert [question.id for question in read.questions] == ["liveqa-1", "liveqa-2"]
    (oddity,) = read.oddities
    assert oddity.what.startswith("2 judgments of answers without text, or of ADAM, ")


def test_unpacked_files_are_read_too(references: Path, tmp_path: Path) -> None:
    (tmp_path / "judged.txt").write_text("\n".join(JUDGMENTS))
    (tmp_path / "answers.csv").write_text(answers_table(ANSWERS))
    read = read_liveqa_2479([references, tmp_path / "answers.csv", tmp_path / "judged.txt"])
    assert read == read_liveqa_2479([references, archive(tmp_path, *JUDGMENTS)])


def test_what_is_wrong_is_named_with_its_place(references: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name the XML of the reference answers, which holds the questions"):
        read_liveqa_2479([archive(tmp_path, *JUDGMENTS)])
    bad = ("9 1-I GARD_1_Sec1.txt", "1 5-Best GARD_1_Sec1.txt", "1 1-I NONE_1.txt", *JUDGMENTS, JUDGMENTS[0])
    with pytest.raises(InputError) as error:
        read_liveqa_2479([references, archive(tmp_path, *bad)])
    problems = str(error.value).split("\n")
    assert problems[0].endswith("answers.zip, set/judged.txt: 4 problems; nothing was read")
    assert [problem.split(":")[0] for problem in problems[1:]] == ["  line 1", "  line 2", "  line 3", "  line 7"]
    assert "judges GARD_1_Sec1.txt a third time for question 1" in problems[4]
    (tmp_path / "judged.txt").write_text("\n".join(JUDGMENTS))
    for table, message in (("a,b\n", "columns AnswerID and Answer"), ('AnswerID,Answer\nx,"y', "not valid CSV")):
        (tmp_path / "answers.csv").write_text(table)
        with pytest.raises(InputError, match=rf"answers\.csv: .*{message}"):
            read_liveqa_2479([references, tmp_path / "answers.csv", tmp_path / "judged.txt"])
