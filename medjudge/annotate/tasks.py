"""The three things that physicians do with answers: score them, compare two of them, or mark the items they meet.

A `Task` says what forms and pages show, what is filled in, and which records come of it; everything else that sends
work to physicians and takes it back is the same for all three.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medjudge.annotate.cells import DIMENSIONS
from medjudge.annotate.plan import SCORES_PLAN, Plan, RaterProgress, plan_file, read_plan
from medjudge.annotate.units import EarlierTurn, Unit
from medjudge.annotate.wording import FormTexts, VerdictTexts, both_languages
from medjudge.errors import InputError
from medjudge.item_records import ItemScore
from medjudge.judge.pairs import physician_pairs, physician_pairs_file
from medjudge.pair_records import PairKey, PhysicianPair
from medjudge.records import AgreedScore, AnswerKey, PhysicianScore, conversations_of
from medjudge.store import Run
from medjudge.text.checklist_items import items_of

Filled = Mapping[str, object]
"""The values that were filled in, by field."""


@dataclass(frozen=True)
class Task:
    """One kind of work of physicians.

    Attributes:
        name: `levels`, `pairs` or `items`.
        command: The command whose `export` writes the forms.
        work: What raters have to do, in the plural.
        verdict: What they give, for messages.
        checked_by: The command that compares a judge with it.
        plan_name: The file of the plan.
        shown: The fields of the texts that forms show.
        headings: Field -> its heading in forms, in both languages.
        sheet: The sheet of a workbook; None for one per category.
        former_sheet: Its name in forms that an earlier version exported.
        form_file: The file of a language with what forms and pages say.
        choices: Value in the records -> the words that mean it in forms, the offered one first; for levels none.
        file: The records of a run.
        kept: Reads them.
        key_of: What a record is about, as `keys_of` names it.
        keys_of: What a unit of work asks for, a record each, in the order of its rows.
        said: What a record says; two records of one key that say the same are the same.
        record: A record from unit, number of the row, rater and what was filled in.
            Raises `pydantic.ValidationError` (a ValueError) where that is incomplete or off the scale.
    """

    name: str
    command: str
    work: str
    verdict: str
    checked_by: str
    plan_name: str
    shown: tuple[str, ...]
    headings: Mapping[str, str]
    sheet: str | None
    form_file: str
    choices: Mapping[str, tuple[str, ...]]
    file: Callable[[Run], Path]
    kept: Callable[[Run], Sequence[Any]]
    key_of: Callable[[Any], Hashable]
    keys_of: Callable[[Unit], list[Hashable]]
    said: Callable[[Any], object]
    record: Callable[[Unit, int, str, Filled], Any]
    former_sheet: str = ""

    def fields(self, by_dimensions: bool) -> tuple[str, ...]:
        """The fields that a rater fills in, but for the comment."""
        if self.name == "levels":
            return tuple(DIMENSIONS) if by_dimensions else ("score",)
        return ("preferred",) if self.name == "pairs" else ("verdict",)

    def form(self, unit: Unit) -> list[tuple[str, int, str]]:
        """The choices on the page of a unit: the field of the page's form, the row, and the field of the record."""
        fields = self.fields(unit.by_dimensions)
        if self.name == "items":
            return [(f"item-{row}", row, fields[0]) for row in range(len(unit.points))]
        return [("score" if len(fields) == 1 else field, 0, field) for field in fields]

    @property
    def comments(self) -> tuple[str, ...]:
        """The field of a comment, where there is one."""
        return () if self.name == "items" else ("comment",)

    def offered(self, field: str) -> tuple[str, ...]:
        """The values that a form offers in a field."""
        if self.choices:
            return tuple(words[0] for words in self.choices.values())
        low, high = (0, DIMENSIONS[field]) if field in DIMENSIONS else (1, 5)
        return tuple(map(str, range(low, high + 1)))

    def read_choice(self, value: object) -> str | None:
        """The value in the records that a filled-in cell means, in English or Chinese or both; None if it is none."""
        stated = " ".join(str(value).replace("_", " ").split()).casefold()
        meant = (choice for choice, words in self.choices.items() if stated in map(str.casefold, words))
        return next(meant, None)

    def units(self, run: Run, plan: Plan) -> dict[str, list[Unit]]:
        """The work of each rater, in the rater's order.

        Raises:
            InputError: An answer of the plan is no longer in the run.
        """
        scheme = run.scheme()
        questions = {question.id: question for question in run.questions()}
        answers = {answer.key: answer for answer in run.answers()}
        conversations = conversations_of(questions.values())
        units: dict[str, Unit] = {}
        for item in plan.items:
            if item.question_id not in questions or any(key not in answers for key in item.keys):
                file = plan_file(run, self.plan_name)
                raise InputError(
                    f"{file}: {item.id} is about an answer to {item.question_id} that is no longer in {run.path}; "
                    "restore the run, or remove the plan and export again"
                )
            question, compared = questions[item.question_id], len(item.keys) > 1
            earlier = []
            for turn in conversations[question.group]:
                if turn.round < question.round:
                    before = answers.get(AnswerKey(turn.id, *item.keys[0][1:]))
                    earlier.append(EarlierTurn(turn.prompt, None if compared else before.text if before else ""))
            marked = [point.text for point in items_of(question)] if self.name == "items" else []
            units[item.id] = Unit(item, question, earlier, [answers[key] for key in item.keys], scheme, marked)
        return {rater: [units[item_id] for item_id in item_ids] for rater, item_ids in plan.by_rater.items()}

    def progress(self, run: Run, plans: Sequence[Plan]) -> dict[str, RaterProgress]:
        """The progress of each rater of some plans; what is in two plans counts once."""
        known = {(record.rater, self.key_of(record)) for record in self.kept(run)}
        asked: dict[str, set[tuple[Hashable, ...]]] = {}
        for plan in plans:
            for rater, units in self.units(run, plan).items():
                asked.setdefault(rater, set()).update(tuple(self.keys_of(unit)) for unit in units)
        return {
            rater: RaterProgress(len(of_rater), sum(all((rater, key) in known for key in keys) for keys in of_rater))
            for rater, of_rater in asked.items()
        }

    def read_plan(self, run: Run) -> Plan:
        """Reads the task's plan in a run; see `plan.read_plan`."""
        return read_plan(run, self.plan_name, self.command)


def _score(unit: Unit, row: int, rater: str, filled: Filled) -> PhysicianScore:
    values: dict[str, object] = {"score": filled.get("score")}
    if unit.by_dimensions:
        values = {"dimensions": {name: filled[name] for name in DIMENSIONS if name in filled}}
    values |= {**unit.item.keys[0]._asdict(), "rater": rater, "comment": filled.get("comment") or None}
    return PhysicianScore.model_validate(values)


def _agreed(unit: Unit, row: int, rater: str, filled: Filled) -> AgreedScore:
    return AgreedScore.model_validate(_score(unit, row, rater, filled).model_dump())


def _pair(unit: Unit, row: int, rater: str, filled: Filled) -> PhysicianPair:
    names = unit.item.model_dump(exclude={"id"})
    verdict = {"preferred": filled.get("preferred"), "comment": filled.get("comment") or None}
    return PhysicianPair.model_validate({**names, "rater": rater, **verdict})


def _marked(unit: Unit, row: int, rater: str, filled: Filled) -> ItemScore:
    key = unit.item.keys[0]._asdict()
    return ItemScore.model_validate({**key, "rater": rater, "item": unit.points[row], "verdict": filled.get("verdict")})


def _pair_keys(unit: Unit) -> list[Hashable]:
    one, other = sorted(key.model for key in unit.item.keys)
    return [PairKey(unit.item.question_id, (one, other), unit.item.sample)]


def _better(pair: PhysicianPair) -> object:
    """The model that a pair prefers, whichever answer was shown first, and the comment."""
    return {"first": pair.first, "second": pair.second, "tie": ""}[pair.preferred], pair.comment


_PAIR_TEXTS = both_languages("pair_form.yaml", VerdictTexts)
_FORM_TEXTS = both_languages("scoring_form.yaml", FormTexts)
_ITEM_TEXTS = both_languages("item_form.yaml", VerdictTexts)
_FORMER_WORDS = {"contradicted": ("contradicted 相反", "相反")}
"""The choices on forms that an earlier version exported."""


def _headings(texts: Sequence[Any]) -> dict[str, str]:
    english, chinese = (each.headings for each in texts)
    return {"id": "ID", **{field: f"{name} {chinese[field]}" for field, name in english.items()}}


LEVELS = Task(
    name="levels",
    command="annotate",
    work="answers",
    verdict="score",
    checked_by="validate",
    plan_name=SCORES_PLAN,
    shown=("question", "reference", "checklist", "answer"),
    headings={
        **_headings(_FORM_TEXTS),
        "score": "Score 评分 1–5",
        **{
            name: f"{' '.join(texts.dimensions[name].name for texts in _FORM_TEXTS)} 0–{high}"
            for name, high in DIMENSIONS.items()
        },
        "comment": "Comment 备注",
    },
    sheet=None,
    form_file="scoring_form.yaml",
    choices={},
    file=lambda run: run.physicians_file,
    kept=lambda run: run.physician_scores(),
    key_of=lambda score: score.answer_key,
    keys_of=lambda unit: list(unit.item.keys),
    said=lambda score: score.model_dump(exclude={"texts"}),
    record=_score,
)
AGREED = replace(LEVELS, file=lambda run: run.adjudicated_file, kept=lambda run: run.adjudicated(), record=_agreed)
"""As LEVELS, for the third physician who records the agreed score where two differ."""
PAIRS = Task(
    name="pairs",
    command="annotate pairs",
    work="pairs",
    verdict="verdict",
    checked_by="compare",
    plan_name="pair_plan.json",
    shown=("question", "reference", "checklist", "first", "second"),
    headings=_headings(_PAIR_TEXTS),
    sheet="Pairs 两两比较",
    form_file="pair_form.yaml",
    choices={"first": ("A",), "tie": ("tie", "平局"), "second": ("B",)},
    file=physician_pairs_file,
    kept=physician_pairs,
    key_of=lambda pair: pair.pair_key,
    keys_of=_pair_keys,
    said=_better,
    record=_pair,
    former_sheet="Pairs 成对比较",
)
ITEMS = Task(
    name="items",
    command="annotate items",
    work="answers",
    verdict="verdict",
    checked_by="validate",
    plan_name="item_plan.json",
    shown=("question", "reference", "answer", "item"),
    headings=_headings(_ITEM_TEXTS),
    sheet="Items 逐条核对",
    form_file="item_form.yaml",
    choices={
        choice: (" ".join(words), *words, *_FORMER_WORDS.get(choice, ()))
        for choice in _ITEM_TEXTS[0].choices
        if (words := [texts.choices[choice] for texts in _ITEM_TEXTS])
    },
    file=lambda run: run.items_file,
    kept=lambda run: run.item_scores(),
    key_of=lambda score: (score.answer_key, score.item),
    keys_of=lambda unit: [(unit.item.keys[0], point) for point in unit.points],
    said=lambda score: score.verdict,
    record=_marked,
)
TASKS = {task.name: task for task in (LEVELS, PAIRS, ITEMS)}
