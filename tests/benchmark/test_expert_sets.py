from pathlib import Path

import pytest

from medjudge.benchmark.expert_sets import read_mediqa2019
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


def test_the_three_released_files(real_data: Path) -> None:
    folder = real_data / "mediqa2019-qa"
    sizes = {}
    for name in ("train-alexa", "train-liveqamed", "validation"):
        read = read_mediqa2019([folder / f"{name}.xml"])
        sizes[name] = (len(read.questions), len(read.answers), len({one.key for one in read.answers}))
    assert sizes == {"train-alexa": (104, 862, 862), "train-liveqamed": (104, 839, 839), "validation": (25, 234, 234)}
