"""The files of training in two stages."""

from collections import Counter

import pytest

from medjudge.distill.people_last import people_last
from medjudge.errors import InputError
from medjudge.records import TrainingLine


@pytest.fixture
def lines(question, answer):
    def of(**counts: int) -> list[TrainingLine]:
        return [
            TrainingLine(
                question=question(id=f"{source}-{number}", prompt=f"{source} {number}"),
                earlier=[],
                answer=answer(question_id=f"{source}-{number}", text="Rest."),
                level=3,
                probabilities=[0, 0, 1, 0, 0],
                source=source,
                scored_by=[source],
                weight=3 if source == "physician" else 1,
            )
            for source, count in counts.items()
            for number in range(count)
        ]

    return of


def sources(lines: list[TrainingLine]) -> Counter:
    return Counter(line.source for line in lines)


def test_the_last_stage_is_people_with_three_tenths_of_the_teacher(lines) -> None:
    train = lines(physician=60, constructed=10, teacher=400, synthetic=20)
    stages = people_last(train, 0)
    assert sources(stages.first) == {"teacher": 400, "synthetic": 20}
    assert sources(stages.last) == {"physician": 60, "constructed": 10, "teacher": stages.replayed}
    assert stages.replayed == 30
    assert {line.weight for line in stages.last} == {1}
    assert {line.question.id for line in stages.last} <= {line.question.id for line in train}
    assert people_last(train, 0) == stages != people_last(train, 1)


def test_no_more_is_replayed_than_the_teacher_scored(lines) -> None:
    assert people_last(lines(physician=70, teacher=5), 0).replayed == 5


def test_both_must_have_scored(lines) -> None:
    with pytest.raises(InputError, match="no answer to train on has a physicians' score"):
        people_last(lines(teacher=5, synthetic=5), 0)
    with pytest.raises(InputError, match="no answer to train on has a teacher's judgment"):
        people_last(lines(physician=5), 0)
