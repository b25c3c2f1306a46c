"""A chat model on the workers of a Ray cluster."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tqdm import tqdm

from medjudge.answer.conversation import answer_questions, unanswered
from medjudge.parallel.ray_pool import map_on_actors
from medjudge.records import Answer, Question


class Asked(NamedTuple):
    """A question, and the answers to it that are there."""

    question: Question
    done: list[Answer]


class RayEngine(NamedTuple):
    """Answers as `TransformersEngine` does, on many workers at once; a conversation stays on one.

    Attributes:
        name: The model's name in the records.
        model_id: A folder, which every worker must find under the same absolute path, or a hub id.
        device: `auto`, `cpu` or `cuda`, of the workers.
        max_new_tokens: The most tokens of an answer.
        temperature: 0 for the likeliest token throughout.
    """

    name: str
    model_id: str
    device: str
    max_new_tokens: int
    temperature: float

    def answer_questions(
        self, questions: Sequence[Question], samples: int, seed: int, done: Sequence[Answer] = ()
    ) -> Iterator[Answer]:
        """As `conversation.answer_questions`.

        Raises:
            UnfinishedError: A worker failed.
        """
        there: dict[str, list[Answer]] = {}
        for answer in done:
            if answer.model == self.name:
                there.setdefault(answer.question_id, []).append(answer)
        work = [Asked(one, there.get(one.id, [])) for one in unanswered(questions, self.name, samples, done)]
        missing = samples * len(work) - sum(len(one.done) for one in work)
        with tqdm(total=missing, desc=f"answering ({self.name}, Ray)", unit="answer", disable=None) as bar:
            for answers in map_on_actors(
                _load,
                (self.model_id, self.device, self.max_new_tokens, self.temperature, samples, seed),
                work,
                key=lambda item: item.question.group,
                weight=lambda item: len(item.question.prompt),
                device=self.device,
            ):
                yield from answers
                bar.update(len(answers))


def _load(
    model: str, device: str, max_new_tokens: int, temperature: float, samples: int, seed: int
) -> Callable[[list[Asked]], list[Answer]]:
    from medjudge.answer.transformers_engine import TransformersEngine

    engine = TransformersEngine(model, device=device, max_new_tokens=max_new_tokens, temperature=temperature)

    def answers(work: list[Asked]) -> list[Answer]:
        done = [answer for one in work for answer in one.done]
        return list(answer_questions(engine, [one.question for one in work], samples, seed, done))

    return answers
