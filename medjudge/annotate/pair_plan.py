"""The plan of which physicians compare which pairs, and the pairs with all that a rater needs."""

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from medjudge.annotate.forms import printable
from medjudge.annotate.plan import plan_file, rater_problem
from medjudge.annotate.wording import form_texts
from medjudge.errors import InputError
from medjudge.files import first_problem, model_from_json, read_text, write_whole
from medjudge.languages.texts import PACKAGED, Languages, Texts, languages_of
from medjudge.pair_records import PhysicianPair, Preferred
from medjudge.records import Answer, AnswerKey, Question, earlier_turns
from medjudge.store import Run

FIELDS = ("question", "reference", "checklist", "first", "second")
"""The texts that a form shows of a pair."""


class PairFormTexts(Texts):
    """What a form of pairs says in one language (`pair_form.yaml`)."""

    title: str
    place: str
    done: str
    ask: str
    steps: list[str]
    headings: dict[str, str]
    choices: dict[Preferred, str]


class PairItem(BaseModel):
    """One pair to compare: `first` is shown as A. Its id does not reveal the models."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    question_id: str
    first: str
    second: str
    sample: int


class PairPlan(BaseModel):
    """Who compares what: `annotation/pair_plan.json` of a run; `by_rater` has each rater's item ids in order."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int
    overlap: int
    each: int | None
    models: list[str]
    items: list[PairItem]
    by_rater: dict[str, list[str]]


class PairPlanOptions(NamedTuple):
    """What a plan of pairs is drawn by.

    Attributes:
        raters: Their names.
        models: The models to compare, at least two.
        overlap: Raters per pair.
        each: The most pairs per rater; None for no limit.
        seed: Fixes the draw, which answer is A, and every rater's order.
    """

    raters: Sequence[str]
    models: Sequence[str]
    overlap: int = 1
    each: int | None = None
    seed: int = 0


class PairToCompare(NamedTuple):
    """A pair with its question and texts: one screen, or one row of a form."""

    item: PairItem
    question: Question
    languages: Languages
    texts: dict[str, str]

    def record(self, rater: str, preferred: Preferred, comment: str | None) -> PhysicianPair:
        """A rater's preference as a record."""
        names = self.item.model_dump(exclude={"id"})
        return PhysicianPair(**names, rater=rater, preferred=preferred, comment=comment)


def pair_texts(language: str, languages: Languages = PACKAGED) -> PairFormTexts:
    """The texts of a form of pairs in a language."""
    return languages.load(language, "pair_form.yaml", PairFormTexts)


def draw_pair_plan(run: Run, options: PairPlanOptions) -> PairPlan:
    """Chooses pairs, as many of each two models as possible and spread over the questions, and assigns them.

    Raises:
        InputError: A rater's name or a number is invalid, or there is no pair of two answers with text.
    """
    raters = list(options.raters)
    for name in raters:
        if problem := rater_problem(name):
            raise InputError(f"--rater '{name}': {problem}")
    if len({name.casefold() for name in raters}) < len(raters):
        raise InputError("--rater: a rater is named twice; name each rater once")
    if not 1 <= options.overlap <= len(raters):
        raise InputError(f"--overlap {options.overlap}: take 1 to {len(raters)}, the number of raters")
    answers = {answer.key for answer in run.answers() if answer.text.strip()}
    samples = sorted({(key.question_id, key.sample) for key in answers})
    possible = [
        (question_id, sample, first, second)
        for question_id, sample in samples
        for first, second in combinations(options.models, 2)
        if {AnswerKey(question_id, first, sample), AnswerKey(question_id, second, sample)} <= answers
    ]
    if not possible:
        raise InputError(f"{run.path}: no question has an answer of two of these models; nothing can be compared")
    drawn = sorted(possible, key=lambda pair: _draw(options.seed, *pair))
    # The n-th pair of every two models comes before the n + 1st of any.
    counted: Counter[tuple[str, str]] = Counter()
    turn: dict[tuple[str, int, str, str], int] = {}
    for pair in drawn:
        turn[pair] = counted[pair[2:]]
        counted[pair[2:]] += 1
    drawn.sort(key=lambda pair: turn[pair])
    if options.each is not None:
        drawn = drawn[: options.each * len(raters) // options.overlap]
    if not drawn:
        raise InputError(f"--each {options.each}: no pair gets {options.overlap} raters; raise --each")
    items, by_rater = [], {rater: list[str]() for rater in raters}
    for number, (question_id, sample, one, other) in enumerate(drawn):
        code = _draw(options.seed, question_id, sample, one, other, "order")
        first, second = (one, other) if int(code[-1], 16) % 2 else (other, one)
        items.append(PairItem(id=code[:12], question_id=question_id, first=first, second=second, sample=sample))
        for offset in range(options.overlap):
            by_rater[raters[(number + offset) % len(raters)]].append(code[:12])
    ordered = {rater: sorted(ids, key=lambda id: _draw(options.seed, rater, id)) for rater, ids in by_rater.items()}
    return PairPlan(
        seed=options.seed,
        overlap=options.overlap,
        each=options.each,
        models=list(options.models),
        items=items,
        by_rater=ordered,
    )


def pair_plan_file(run: Run) -> Path:
    """The path of a run's plan of pairs."""
    return plan_file(run).with_name("pair_plan.json")


def read_pair_plan(run: Run) -> PairPlan:
    """Reads the plan of pairs of a run.

    Raises:
        InputError: There is none, or it is invalid.
    """
    file = pair_plan_file(run)
    if not file.exists():
        raise InputError(f"{run.path}: no plan of pairs; `medjudge annotate pairs export` makes one")
    try:
        return model_from_json(PairPlan, read_text(file))
    except ValueError as error:
        raise InputError(f"{file}: not a plan ({first_problem(error)}); restore it from a copy") from None


def write_pair_plan(run: Run, plan: PairPlan) -> None:
    """Writes the plan; the same one may be there already.

    Raises:
        InputError: The run has another plan, whose forms may be out.
    """
    file = pair_plan_file(run)
    if file.exists() and read_pair_plan(run) != plan:
        raise InputError(
            f"{file}: another plan, and its forms may be out; give the same options, or move the file away"
        )
    write_whole(file, plan.model_dump_json(indent=1) + "\n")


def pairs_to_compare(run: Run, plan: PairPlan) -> dict[str, list[PairToCompare]]:
    """What each rater has to compare, in the rater's order.

    Raises:
        InputError: An answer of the plan is no longer in the run.
    """
    questions = {question.id: question for question in run.questions()}
    answers = {answer.key: answer for answer in run.answers()}
    earlier, languages = earlier_turns(list(questions.values())), languages_of(run.scheme())
    by_id = {}
    for item in plan.items:
        keys = [AnswerKey(item.question_id, model, item.sample) for model in (item.first, item.second)]
        if item.question_id not in questions or any(key not in answers for key in keys):
            raise InputError(
                f"{pair_plan_file(run)}: pair {item.id} has answers to {item.question_id} that are no longer in "
                f"{run.path}; restore the run, or remove the plan and export again"
            )
        question = questions[item.question_id]
        shown = _texts(question, earlier[question.id], [answers[key] for key in keys], languages)
        by_id[item.id] = PairToCompare(item, question, languages, shown)
    return {rater: [by_id[item_id] for item_id in ids] for rater, ids in plan.by_rater.items()}


def _texts(
    question: Question, earlier: Sequence[str], answers: Sequence[Answer], languages: Languages
) -> dict[str, str]:
    words = form_texts(question.language, languages)
    turns = [f"{words.earlier_question.format(number=number)}\n{text}" for number, text in enumerate(earlier, 1)]
    return {
        "question": printable("\n\n".join([*turns, question.prompt])),
        "reference": printable(question.reference or words.not_given),
        "checklist": printable(question.checklist or words.not_given),
        "first": printable(answers[0].text),
        "second": printable(answers[1].text),
    }


def _draw(seed: int, *parts: object) -> str:
    return sha256("\x1f".join(map(str, (seed, *parts))).encode()).hexdigest()
