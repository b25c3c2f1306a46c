from collections.abc import Iterator, Sequence

from medjudge.answer.conversation import Reply, Request, answer_questions, request_seed


class Recorder:
    """An engine that keeps what it is asked and answers with the number of messages."""

    name = "recorder"

    def __init__(self) -> None:
        self.waves: list[list[Request]] = []

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        self.waves.append(list(requests))
        for index in reversed(range(len(requests))):
            yield index, Reply(f"{requests[index].messages[-1]['content']}!", "stop", 1, 1)


def test_turns_run_in_waves_and_see_their_own_earlier_answers(question) -> None:
    questions = [
        question(id="b2", group="b", round=2, prompt="b two"),
        question(id="a1", group="a", prompt="a one"),
        question(id="b1", group="b", prompt="b one"),
    ]
    engine = Recorder()
    answers = list(answer_questions(engine, questions, samples=2, seed=0))
    assert [len(wave) for wave in engine.waves] == [4, 2]
    assert [message["content"] for message in engine.waves[1][0].messages] == ["b one", "b one!", "b two"]
    assert len({answer.key for answer in answers}) == 6


def test_existing_answers_are_not_requested_again(question) -> None:
    questions = [question(id="b1", group="b", prompt="one"), question(id="b2", group="b", round=2, prompt="two")]
    first = list(answer_questions(Recorder(), questions, samples=2, seed=0))
    engine = Recorder()
    rest = list(answer_questions(engine, questions, samples=2, seed=0, done=first[:3]))
    assert [request.key for request in rest] == [request.key for request in first[3:]]
    assert engine.waves[-1][0].messages[1]["content"] == "one!"


def test_each_request_has_a_seed_of_its_own(question) -> None:
    engine = Recorder()
    list(answer_questions(engine, [question(id="a"), question(id="b")], samples=3, seed=1))
    seeds = [request.seed for request in engine.waves[0]]
    assert len(set(seeds)) == 6
    assert seeds[0] == request_seed(1, "a", 0) != request_seed(2, "a", 0)
