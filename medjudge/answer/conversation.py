"""Asks an engine questions turn by turn, with one seed per request, and yields every answer as it is made."""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple, Protocol

from medjudge.records import Answer, AnswerKey, Question, conversations_of

Message = dict[str, str]
BROKE_OFF = "cut off: "
"""Beginning of the `finish_reason` of an answer that its server did not complete."""


class Request(NamedTuple):
    """One chat to continue, and its sampling seed."""

    messages: list[Message]
    seed: int


class Reply(NamedTuple):
    """The reply to a request.

    `finish_reason` is `stop`, `length` (truncated), `BROKE_OFF` with a reason, or the reason for an empty text.

    `thinking` is the thought before the answer, without its marks; `tokens_out` counts it.
    """

    text: str
    finish_reason: str
    tokens_in: int | None = None
    tokens_out: int | None = None
    thinking: str | None = None


class Engine(Protocol):
    """Continues chats. `name` is the model's name in the records."""

    name: str

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        """Yield (index of the request, its reply) in any order, as soon as each is made."""
        ...


def answer_questions(
    engine: Engine,
    questions: Sequence[Question],
    samples: int,
    seed: int,
    done: Sequence[Answer] = (),
    system: str | None = None,
) -> Iterator[Answer]:
    """Answer every question `samples` times, except for the answers that exist already.

    All first turns run together, then all second turns, and so on. A later turn includes the model's own earlier
    answers of the same sample, as far as the earlier questions are given.

    Args:
        seed: Determines, with question and sample, the seed of each request, whatever else runs.
        system: The system message that every conversation begins with.
    """
    turns_of = conversations_of(questions)
    beginning = [] if system is None else [{"role": "system", "content": system}]
    answers = {answer.key: answer for answer in done if answer.model == engine.name}
    for turn in sorted({question.round for question in questions}):
        wave = [
            (question, sample)
            for question in questions
            if question.round == turn
            for sample in range(samples)
            if AnswerKey(question.id, engine.name, sample) not in answers
        ]
        requests = [
            Request(
                beginning + _messages(question, sample, turns_of[question.group], engine.name, answers),
                request_seed(seed, question.id, sample),
            )
            for question, sample in wave
        ]
        for index, reply in engine.answer(requests):
            question, sample = wave[index]
            answer = Answer(question_id=question.id, model=engine.name, sample=sample, **reply._asdict())
            answers[answer.key] = answer
            yield answer


def cut_off(answer: Answer) -> bool:
    """True if an answer has a text that is not complete: it reached the token limit, or broke off."""
    reason = answer.finish_reason or ""
    return bool(answer.text.strip()) and (reason == "length" or reason.startswith(BROKE_OFF))


def unanswered(questions: Sequence[Question], model: str, samples: int, done: Sequence[Answer]) -> list[Question]:
    """All questions of the conversations in which an answer of the model is missing."""
    existing = {answer.key for answer in done}
    missing = {
        question.group
        for question in questions
        for sample in range(samples)
        if AnswerKey(question.id, model, sample) not in existing
    }
    return [question for question in questions if question.group in missing]


def request_seed(seed: int, question_id: str, sample: int) -> int:
    """A 63-bit seed that depends only on the arguments."""
    digest = sha256(f"{seed}\x1f{question_id}\x1f{sample}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def _messages(
    question: Question, sample: int, turns: Sequence[Question], model: str, answers: dict[AnswerKey, Answer]
) -> list[Message]:
    messages = []
    for turn in turns:
        answer = answers.get(AnswerKey(turn.id, model, sample))
        if turn.round < question.round and answer is not None:
            messages += [{"role": "user", "content": turn.prompt}, {"role": "assistant", "content": answer.text}]
    return [*messages, {"role": "user", "content": question.prompt}]
