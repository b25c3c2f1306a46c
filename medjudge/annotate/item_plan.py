"""The plan of which physicians mark the items of which answers, and these answers with all that a rater needs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from medjudge.annotate.forms import printable
from medjudge.annotate.plan import plan_file, rater_problem
from medjudge.annotate.wording import form_texts
from medjudge.errors import InputError
from medjudge.files import first_problem, model_from_json, read_text, write_whole
from medjudge.item_records import ItemScore
from medjudge.languages.texts import PACKAGED, Languages, Texts, languages_of
from medjudge.records import AnswerKey, Question, RubricItem, earlier_turns
from medjudge.store import Run
from medjudge.text.checklist_items import items_of

FIELDS = ("question", "reference", "answer")
"""The texts that a form shows of an answer, beside its items."""
ItemChoice = Literal["met", "not_met", "contradicted"]
CHOICES: tuple[ItemChoice, ...] = ("met", "not_met", "contradicted")
"""What a rater chooses from, with the keys 1, 2 and 3."""


class ItemFormTexts(Texts):
    """What a form of items says in one language (`item_form.yaml`)."""

    title: str
    place: str
    done: str
    ask: str
    save: str
    missing: str
    item: str
    refusal: str
    steps: list[str]
    headings: dict[str, str]
    choices: dict[ItemChoice, str]


class MarkedAnswer(BaseModel):
    """One answer whose items are marked. Its id does not reveal the model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    question_id: str
    model: str
    sample: int

    @property
    def key(self) -> AnswerKey:
        return AnswerKey(self.question_id, self.model, self.sample)


class ItemPlan(BaseModel):
    """Who marks what: `annotation/item_plan.json` of a run; `by_rater` has each rater's answers' ids in order."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int
    overlap: int
    each: int | None
    answers: list[MarkedAnswer]
    by_rater: dict[str, list[str]]


class ItemPlanOptions(NamedTuple):
    """What a plan of items is drawn by.

    Attributes:
        raters: Their names.
        overlap: Raters per answer.
        each: The most answers per rater; None for no limit.
        seed: Fixes the draw and every rater's order.
    """

    raters: Sequence[str]
    overlap: int = 1
    each: int | None = None
    seed: int = 0


class AnswerToMark(NamedTuple):
    """An answer with its items and texts: one screen, or a group of rows of a form."""

    answer: MarkedAnswer
    question: Question
    items: list[RubricItem]
    languages: Languages
    texts: dict[str, str]

    def records(self, rater: str, verdicts: Mapping[int, ItemChoice]) -> list[ItemScore]:
        """A rater's verdicts as records.

        Args:
            verdicts: By the place of the item, from 0.
        """
        key = self.answer.key._asdict()
        return [
            ItemScore(**key, rater=rater, item=self.items[place].text, verdict=verdict)
            for place, verdict in verdicts.items()
        ]


def item_form_texts(language: str, languages: Languages = PACKAGED) -> ItemFormTexts:
    """The texts of a form of items in a language."""
    return languages.load(language, "item_form.yaml", ItemFormTexts)


def draw_item_plan(run: Run, options: ItemPlanOptions) -> ItemPlan:
    """Chooses answers to questions with items, spread over the questions, and assigns them.

    Raises:
        InputError: A rater's name or a number is invalid, or there is no answer to a question with items.
    """
    raters = list(options.raters)
    for name in raters:
        if problem := rater_problem(name):
            raise InputError(f"--rater '{name}': {problem}")
    if len({name.casefold() for name in raters}) < len(raters):
        raise InputError("--rater: a rater is named twice; name each rater once")
    if not 1 <= options.overlap <= len(raters):
        raise InputError(f"--overlap {options.overlap}: take 1 to {len(raters)}, the number of raters")
    with_items = {question.id for question in run.questions() if items_of(question)}
    possible = [answer.key for answer in run.answers() if answer.text.strip() and answer.question_id in with_items]
    if not possible:
        raise InputError(
            f"{run.path}: no answer to a question with items or a numbered checklist; `medjudge data check` counts them"
        )
    drawn = sorted(possible, key=lambda key: _draw(options.seed, *key))
    # The n-th answer to every question comes before the n + 1st to any.
    counted: Counter[str] = Counter()
    turn: dict[AnswerKey, int] = {}
    for key in drawn:
        turn[key] = counted[key.question_id]
        counted[key.question_id] += 1
    drawn.sort(key=lambda key: turn[key])
    if options.each is not None:
        drawn = drawn[: options.each * len(raters) // options.overlap]
    if not drawn:
        raise InputError(f"--each {options.each}: no answer gets {options.overlap} raters; raise --each")
    answers, by_rater = [], {rater: list[str]() for rater in raters}
    for number, key in enumerate(drawn):
        code = _draw(options.seed, *key)[:12]
        answers.append(MarkedAnswer(id=code, **key._asdict()))
        for offset in range(options.overlap):
            by_rater[raters[(number + offset) % len(raters)]].append(code)
    ordered = {rater: sorted(ids, key=lambda id: _draw(options.seed, rater, id)) for rater, ids in by_rater.items()}
    return ItemPlan(seed=options.seed, overlap=options.overlap, each=options.each, answers=answers, by_rater=ordered)


def item_plan_file(run: Run) -> Path:
    """The path of a run's plan of items."""
    return plan_file(run).with_name("item_plan.json")


def read_item_plan(run: Run) -> ItemPlan:
    """Reads the plan of items of a run.

    Raises:
        InputError: There is none, or it is invalid.
    """
    file = item_plan_file(run)
    if not file.exists():
        raise InputError(f"{run.path}: no plan of items; `medjudge annotate items export` makes one")
    try:
        return model_from_json(ItemPlan, read_text(file))
    except ValueError as error:
        raise InputError(f"{file}: not a plan ({first_problem(error)}); restore it from a copy") from None


def write_item_plan(run: Run, plan: ItemPlan) -> None:
    """Writes the plan; the same one may be there already.

    Raises:
        InputError: The run has another plan, whose forms may be out.
    """
    file = item_plan_file(run)
    if file.exists() and read_item_plan(run) != plan:
        raise InputError(
            f"{file}: another plan, and its forms may be out; give the same options, or move the file away"
        )
    write_whole(file, plan.model_dump_json(indent=1) + "\n")


def answers_to_mark(run: Run, plan: ItemPlan) -> dict[str, list[AnswerToMark]]:
    """What each rater has to mark, in the rater's order.

    Raises:
        InputError: An answer of the plan is no longer in the run.
    """
    questions = {question.id: question for question in run.questions()}
    answers = {answer.key: answer for answer in run.answers()}
    earlier, languages = earlier_turns(list(questions.values())), languages_of(run.scheme())
    by_id = {}
    for planned in plan.answers:
        if planned.question_id not in questions or planned.key not in answers:
            raise InputError(
                f"{item_plan_file(run)}: {planned.id} is an answer to {planned.question_id} that is no longer in "
                f"{run.path}; restore the run, or remove the plan and export again"
            )
        question = questions[planned.question_id]
        words = form_texts(question.language, languages)
        turns = [
            f"{words.earlier_question.format(number=number)}\n{text}"
            for number, text in enumerate(earlier[question.id], 1)
        ]
        shown = {
            "question": printable("\n\n".join([*turns, question.prompt])),
            "reference": printable(question.reference or words.not_given),
            "answer": printable(answers[planned.key].text),
        }
        by_id[planned.id] = AnswerToMark(planned, question, items_of(question), languages, shown)
    return {rater: [by_id[answer_id] for answer_id in ids] for rater, ids in plan.by_rater.items()}


def _draw(seed: int, *parts: object) -> str:
    return sha256("\x1f".join(map(str, (seed, "items", *parts))).encode()).hexdigest()
