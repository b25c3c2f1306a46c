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
            yield index, Reply(f"{requests[index].messages[-1]['content']}!", "stop", 1, 1)


def test_existing_answers_are_not_requested_again(question) -> None:
    questions = [question(id="b1", group="b", prompt="one"), question(id="b2", group="b", round=2, prompt="two")]
    first = list(answer_questions(Recorder(), questions, samples=2, seed=0))
    engine = Recorder()
    rest = list(answer_questions(engine, questions, samples=2, seed=0, done=first[:3]))
    assert [request.key for request in rest] == [request.key for request in first[3:]]
    assert engine.waves[-1][0].messages[1]["content"] == "one!"
