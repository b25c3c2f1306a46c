"""What a rater has to score: an answer of a plan with its question and the conversation before it."""

from typing import NamedTuple

from medjudge.annotate.plan import Item, Plan, plan_file
from medjudge.errors import InputError
from medjudge.languages.texts import Languages, languages_of
from medjudge.records import Answer, AnswerKey, Question
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.store import Run


class EarlierTurn(NamedTuple):
    """A question and what the same model answered; empty where that answer is not in the run."""

    prompt: str
    answer: str


class ToScore(NamedTuple):
    """An answer with all that a rater needs: one screen, or one row of a form.

    `earlier` holds the earlier turns of the conversation, oldest first.
    """

    item: Item
    question: Question
    earlier: list[EarlierTurn]
    answer: Answer
    scheme: Scheme = LLMEVAL_MED

    @property
    def by_dimensions(self) -> bool:
        """Whether the five dimensions are filled in, and not the score."""
        return self.scheme.category(self.question.category).scored_by == "dimensions"

    @property
    def languages(self) -> Languages:
        """The texts of the scheme's languages."""
        return languages_of(self.scheme)


def all_to_score(run: Run, plan: Plan) -> dict[str, list[ToScore]]:
    """What each rater has to score, in the rater's order.

    Raises:
        InputError: An answer of the plan is no longer in the run.
    """
    scheme = run.scheme()
    questions = {question.id: question for question in run.questions()}
    answers = {answer.key: answer for answer in run.answers()}
    conversations: dict[str, list[Question]] = {}
    for question in sorted(questions.values(), key=lambda question: question.round):
        conversations.setdefault(question.group, []).append(question)
    to_score_by_id: dict[str, ToScore] = {}
    for item in plan.items:
        if item.question_id not in questions or item.key not in answers:
            raise InputError(
                f"{plan_file(run)}: item {item.id} is an answer to {item.question_id} that is no longer in "
                f"{run.path}; restore the run, or remove the plan and export again"
            )
        question = questions[item.question_id]
        earlier = []
        for turn in conversations[question.group]:
            if turn.round < question.round:
                answer = answers.get(AnswerKey(turn.id, item.model, item.sample))
                earlier.append(EarlierTurn(turn.prompt, answer.text if answer else ""))
        to_score_by_id[item.id] = ToScore(item, question, earlier, answers[item.key], scheme)
    return {rater: [to_score_by_id[item_id] for item_id in item_ids] for rater, item_ids in plan.by_rater.items()}
