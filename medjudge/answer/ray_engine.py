"""Answers with a chat model on the workers of a Ray cluster."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from medjudge.answer.conversation import answer_questions, unanswered
from medjudge.answer.thinking import ThinkingOptions
from medjudge.parallel.ray_pool import map_on_actors
from medjudge.records import Answer, Question
from medjudge.screen import progress_bar


class PartlyAnswered(NamedTuple):
    """A question and its existing answers."""

    question: Question
    done: list[Answer]


class RayEngine(NamedTuple):
    """Engine that answers as `TransformersEngine` does, on many workers; each conversation stays on one worker.

    Attributes:
        name: The model's name in the records.
        model_id: A hub id, or a folder that every worker must find at the same absolute path.
        device: The workers' device: `auto`, `cpu` or `cuda`.
        max_new_tokens: The most tokens of an answer.
        temperature: The sampling temperature; 0 for greedy decoding.
        thinking: Whether the model thinks before it answers.
        system: The system message that every conversation begins with.
    """

    name: str
    model_id: str
    device: str
    max_new_tokens: int
    temperature: float
    thinking: ThinkingOptions = ThinkingOptions()
    system: str | None = None

    def answer_questions(
        self, questions: Sequence[Question], samples: int, seed: int, done: Sequence[Answer] = ()
    ) -> Iterator[Answer]:
        """As `conversation.answer_questions`.

        Raises:
            UnfinishedError: A worker failed.
        """
        existing: dict[str, list[Answer]] = {}
        for answer in done:
            if answer.model == self.name:
                existing.setdefault(answer.question_id, []).append(answer)
        work = [
            PartlyAnswered(question, existing.get(question.id, []))
            for question in unanswered(questions, self.name, samples, done)
        ]
        missing = samples * len(work) - sum(len(item.done) for item in work)
        with progress_bar(missing, f"answering ({self.name}, Ray)", "answer") as bar:
            for answers in map_on_actors(
                _load,
                (self, samples, seed),
                work,
                key=lambda item: item.question.group,
                weight=lambda item: len(item.question.prompt),
                device=self.device,
            ):
                yield from answers
                bar.update(len(answers))


def _load(work_of: RayEngine, samples: int, seed: int) -> Callable[[list[PartlyAnswered]], list[Answer]]:
    from medjudge.answer.transformers_engine import TransformersEngine

    engine = TransformersEngine(
        work_of.model_id,
        device=work_of.device,
        max_new_tokens=work_of.max_new_tokens,
        temperature=work_of.temperature,
        thinking=work_of.thinking,
    )

    def answers(work: list[PartlyAnswered]) -> list[Answer]:
        done = [answer for item in work for answer in item.done]
        questions = [item.question for item in work]
        return list(answer_questions(engine, questions, samples, seed, done, work_of.system))

    return answers
