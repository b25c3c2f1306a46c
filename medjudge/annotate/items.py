"""What a rater has to score: an answer of a plan with its question and the conversation before it."""

from typing import NamedTuple

from medjudge.annotate.plan import Item, Plan, plan_file
from medjudge.errors import InputError
from medjudge.records import Answer, AnswerKey, Question
from medjudge.store import Run


class ToScore(NamedTuple):
    """One screen or row: an answer with all that a rater needs.

    `earlier` holds the earlier turns of the conversation, oldest first: the question, and what the same model answered
    (empty where that answer is not in the run).
    """

    item: Item
    question: Question
    earlier: list[tuple[str, str]]
    answer: Answer


def to_score(run: Run, plan: Plan, rater: str) -> list[ToScore]:
    """What a rater has to score, in the rater's order.

    Raises:
        InputError: The plan has no such rater, or an answer of it is not in the run any more.
    """
    if rater not in plan.by_rater:
        raise InputError(f"rater {rater}: not in the plan of {run.path}; the raters are {', '.join(plan.by_rater)}")
    return all_to_score(run, plan)[rater]


def all_to_score(run: Run, plan: Plan) -> dict[str, list[ToScore]]:
    """What each rater has to score, in the rater's order.

    Raises:
        InputError: An answer of the plan is not in the run any more.
    """
    questions = {question.id: question for question in run.questions()}
    answers = {answer.key: answer for answer in run.answers()}
    conversations: dict[str, list[Question]] = {}
    for question in sorted(questions.values(), key=lambda one: one.round):
        conversations.setdefault(question.group, []).append(question)
    shown: dict[str, ToScore] = {}
    for item in plan.items:
        if item.question_id not in questions or item.key not in answers:
            raise InputError(
                f"{plan_file(run)}: item {item.id} is an answer to {item.question_id} that is not in {run.path} any "
                "more; restore the run, or remove the plan and export again"
            )
        question = questions[item.question_id]
        before = [one for one in conversations[question.group] if one.round < question.round]
        said = [answers.get(AnswerKey(one.id, item.model, item.sample)) for one in before]
        earlier = [(one.prompt, answer.text if answer else "") for one, answer in zip(before, said, strict=True)]
        shown[item.id] = ToScore(item, question, earlier, answers[item.key])
    return {rater: [shown[item_id] for item_id in ids] for rater, ids in plan.by_rater.items()}
