from pathlib import Path

import pytest

from medjudge.benchmark.expert_sets import read_liveqa_med, read_mediqa2019
from medjudge.errors import InputError

XML = """<?xml version="1.0"?>
<MEDIQA2019-Task3-QA-TrainingSet2-Alexa><Question QID="7"><QuestionText>What is it?</QuestionText><AnswerList>
<Answer AID="7_Answer1" SystemRank="1" ReferenceRank="1" ReferenceScore="{score}">
<AnswerText>{text}</AnswerText></Answer>
</AnswerList></Question></MEDIQA2019-Task3-QA-TrainingSet2-Alexa>"""


def written(
    tmp_path: Path, name: str = "a.xml", score: str = "4", text: str = "It&apos;s this.", xml: str = XML
) -> Path:
    path = tmp_path / name
    path.write_text(xml.format(score=score, text=text), encoding="utf-8")
    return path


@pytest.mark.parametrize(("score", "level"), [("4", 5), ("3", 4), ("2", 2), ("1", 1)])
def test_correct_answers_become_the_usable_ones(tmp_path: Path, score: str, level: int) -> None:
    read = read_mediqa2019([written(tmp_path, score=score)])
    assert read.questions[0].id == "mediqa-alexa-7"
    assert read.answers[0].text == "It's this."
    assert read.scores[0].level == level
    assert read.scores[0].answer_key == read.answers[0].key


def test_bad_files_are_named(tmp_path: Path) -> None:
    for options, message in (
        ({"score": "5"}, "7_Answer1: ReferenceScore is '5'"),
        ({"text": " "}, "7_Answer1: AnswerText is empty"),
        ({"xml": "<a>"}, "not valid XML"),
        ({"xml": "<a></a>"}, "root element is <a>"),
    ):
        with pytest.raises(InputError, match=message):
            read_mediqa2019([written(tmp_path, **options)])
    with pytest.raises(InputError, match="no such file"):
        read_mediqa2019([tmp_path / "none.xml"])
    with pytest.raises(InputError, match=r"read from .* already"):
        read_mediqa2019([written(tmp_path), written(tmp_path, "b.xml")])


LIVEQA = """<?xml version="1.0"?><LiveQA2017-Medical-Test-Set-Full><NLM-QUESTION qid="TQ3"><Original-Question>
<SUBJECT>gluten</SUBJECT><MESSAGE>are   they
free</MESSAGE></Original-Question><ReferenceAnswers><RefAnswer><ANSWER> Yes. </ANSWER></RefAnswer>
<ReferenceAnswer><ANSWER>Ask.</ANSWER></ReferenceAnswer></ReferenceAnswers></NLM-QUESTION></LiveQA2017-Medical-Test-Set-Full>"""


def test_liveqa_brings_references_and_the_assessors_scores(tmp_path: Path) -> None:
    (tmp_path / "reference.xml").write_text(LIVEQA)
    (tmp_path / "judged.txt").write_text("3 4 Yes, they are free of it.\n3 -2 \x01garbled\n3 1 No idea.\n")
    read = read_liveqa_med(tmp_path / "reference.xml", tmp_path / "judged.txt")
    assert [(question.id, question.prompt, question.reference) for question in read.questions] == [
        ("liveqa-3", "gluten. are they free", "Yes.\n\nAsk.")
    ]
    assert [answer.model for answer in read.answers] == ["system-1", "system-2", "system-3"]
    assert [(score.model, score.level) for score in read.scores] == [("system-1", 5), ("system-3", 1)]


@pytest.mark.parametrize("line", ["9 4 text", "3 7 text", "3 4", "just words here"])
def test_a_wrong_line_of_judged_answers_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "reference.xml").write_text(LIVEQA)
    (tmp_path / "judged.txt").write_text(f"3 4 Fine.\n{line}\n")
    with pytest.raises(InputError, match=r"judged.txt, line 2"):
        read_liveqa_med(tmp_path / "reference.xml", tmp_path / "judged.txt")
