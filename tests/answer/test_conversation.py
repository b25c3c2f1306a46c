from collections.abc import Iterator, Sequence

from medjudge.answer.conversation import Reply, Request, answer_questions


class Recorder:
    """An engine that keeps what it is asked and answers with the number of messages."""

    name = "recorder"

    def __init__(self) -> None:
        self.waves: list[list[Request]] = []

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        self.waves.append(list(requests))
        for index in reversed(range(len(requests))):
            yield index, Reply(f"{requests[index].messages[-1]['content']}!", "stop", 1, 1, "Hm.")


def test_existing_answers_are_not_requested_again(question) -> None:
    questions = [question(id="b1", group="b", prompt="one"), question(id="b2", group="b", round=2, prompt="two")]
    first = list(answer_questions(Recorder(), questions, samples=2, seed=0))
    engine = Recorder()
    rest = list(answer_questions(engine, questions, samples=2, seed=0, done=first[:3]))
    assert [request.key for request in rest] == [request.key for request in first[3:]]
    assert engine.waves[-1][0].messages[1]["content"] == "one!"


def test_a_later_turn_sees_the_answer_without_its_thought_and_the_system_message(question) -> None:
    questions = [question(id=f"c-{n}", group="c", round=n, prompt=f"turn {n}") for n in (1, 2)]
    engine = Recorder()
    answers = list(answer_questions(engine, questions, 1, 0, system="Be brief."))
    assert [answer.thinking for answer in answers] == ["Hm.", "Hm."]
    assert [each["content"] for each in engine.waves[1][0].messages] == ["Be brief.", "turn 1", "turn 1!", "turn 2"]
