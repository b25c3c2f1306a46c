"""Which physician scores which answers: chosen, assigned and written down before any form goes out."""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, ValidationError

from medjudge.errors import InputError
from medjudge.records import CONSTRUCTED, Answer, AnswerKey, PhysicianScore, Question
from medjudge.scale import USABLE_FROM
from medjudge.store import Run, read_text, repair_last_line, write_records, write_whole

Which = Literal["random", "informative"]

_NO_FILE_NAME = re.compile(r'[\x00-\x1f<>:"/\\|?*]|^[.\s]|[.\s]$')
_LONGEST_NAME = 80


class Item(BaseModel):
    """One answer to be scored. The id tells a rater nothing of the model."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    id: str
    question_id: str
    model: str
    sample: int

    @property
    def key(self) -> AnswerKey:
        return AnswerKey(self.question_id, self.model, self.sample)


class Plan(BaseModel):
    """Who scores what: `annotation/plan.json` of a run.

    `by_rater` holds each rater's item ids in the order that the rater sees them. `left_out` counts the answers that
    could not be chosen, by reason.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int
    which: Which
    judge: str | None = None
    teacher: str | None = None
    overlap: int = 1
    each: int | None = None
    items: list[Item]
    by_rater: dict[str, list[str]]
    left_out: dict[str, int] = {}


class ToScore(NamedTuple):
    """One screen or row: an answer with all that a rater needs.

    `earlier` holds the earlier turns of the conversation, oldest first: the question, and what the same model answered
    (empty where that answer is not in the run).
    """

    item: Item
    question: Question
    earlier: list[tuple[str, str]]
    answer: Answer


class Added(NamedTuple):
    """How many scores were new, there already, or put in place of others."""

    new: int
    same: int
    replaced: int


def plan_file(run: Run) -> Path:
    """Where a run's plan lies."""
    return run.path / "annotation" / "plan.json"


def make_plan(
    run: Run,
    raters: Sequence[str],
    overlap: int,
    each: int | None,
    which: Which,
    judge: str | None,
    teacher: str | None,
    seed: int,
) -> Plan:
    """Chooses answers and shares them out; the same arguments and answers give the same plan, in whatever order.

    `random`: in proportion to the categories and, in each, to the models, spread over as many conversations as there
    are, because intervals are over conversations. `informative`: first the answers whose usable verdict by the judge is
    likeliest to be overturned, by P(usable) against the teacher's verdict where there is one, else by nearness to one
    half, the order of `medjudge eval --defer-to-physicians`. Scores of informative answers are no random sample: they
    may correct a judge, not validate it and not estimate rates.

    Every answer goes to `overlap` raters. Loads differ by one answer at most, and categories, models and pairs of
    raters are shared out evenly. Empty answers and those that a physician scored already are left out; by
    `informative` also those that the judge left unscored.

    Args:
        overlap: Raters an answer, 1 to the number of raters.
        each: The most answers of a rater; None for no limit.
        judge: `informative`: a judge of this run that gives probabilities.
        teacher: `informative`: another judge of this run.
        seed: Decides the draw, the shares and every rater's order.

    Raises:
        InputError: A name or number cannot be, the judge gives no probabilities, or no answer is left to be scored.
    """
    _check_raters(raters, overlap)
    if each is not None and each < 1:
        raise InputError(f"--each {each}: a rater gets one answer at least")
    if which == "random" and (judge or teacher):
        raise InputError("--judge and --teacher choose the informative answers; add --which informative or leave them")
    category = {question.id: question.category for question in run.questions()}
    group = {question.id: question.group for question in run.questions()}
    candidates, left_out = _candidates(run, set(category))
    surprise = _surprise(run, judge, teacher) if which == "informative" else {}
    if which == "informative":
        left_out["unscored by the judge"] = sum(answer.key not in surprise for answer in candidates)
        candidates = [answer for answer in candidates if answer.key in surprise]
    left_out = {reason: count for reason, count in left_out.items() if count}
    if not candidates:
        told = ", ".join(f"{count} {reason}" for reason, count in left_out.items()) or "there are none"
        raise InputError(f"{run.path}: no answer is left to be scored ({told})")
    items = [_item(seed, answer) for answer in candidates]
    wanted = len(items) if each is None else min(len(items), each * len(raters) // overlap)
    if wanted == 0:
        raise InputError(f"--each {each} and --overlap {overlap}: no answer gets its {overlap} raters; raise --each")
    if which == "informative":
        chosen = sorted(items, key=lambda item: (-surprise[item.key], item.id))[:wanted]
    else:
        chosen = _spread(items, category, group, wanted)
    by_rater = _assigned(chosen, raters, overlap, category, seed)
    return Plan(
        seed=seed,
        which=which,
        judge=judge,
        teacher=teacher,
        overlap=overlap,
        each=each,
        items=sorted(chosen, key=lambda item: item.id),
        by_rater=by_rater,
        left_out=left_out,
    )


def read_plan(run: Run) -> Plan:
    """The plan of a run.

    Raises:
        InputError: There is none, or it cannot be read.
    """
    file = plan_file(run)
    if not file.exists():
        raise InputError(f"{run.path}: no plan of who scores what; `medjudge annotate export` makes one")
    return _read(file)


def read_plans(run: Run) -> list[Plan]:
    """The plan of a run, and after it the earlier ones that `write_plan` kept, the latest first.

    Raises:
        InputError: There is none, or one cannot be read.
    """
    return [read_plan(run), *map(_read, reversed(_earlier_files(run)))]


def earlier_file(run: Run) -> Path:
    """Where the plan of a run is kept once another one is written: plan-1.json, plan-2.json and so on."""
    there = _earlier_files(run)
    return plan_file(run).with_name(f"plan-{1 + (_number(there[-1]) if there else 0)}.json")


def _earlier_files(run: Run) -> list[Path]:
    return sorted((file for file in plan_file(run).parent.glob("plan-*.json") if _number(file)), key=_number)


def _number(file: Path) -> int:
    number = file.stem.removeprefix("plan-")
    return int(number) if number.isdecimal() else 0


def _read(file: Path) -> Plan:
    try:
        return Plan.model_validate_json(read_text(file))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{file}: not a plan ({place}: {first['msg']}); restore it from a copy") from None


def write_plan(run: Run, plan: Plan) -> Path | None:
    """Writes `annotation/plan.json`, all of it or nothing.

    Returns:
        The file in which another plan that was there is kept; None where there was none.
    """
    kept = earlier_file(run) if plan_file(run).exists() and read_plan(run) != plan else None
    if kept is not None:
        write_whole(kept, read_text(plan_file(run)))
    write_whole(plan_file(run), plan.model_dump_json(indent=1) + "\n")
    return kept


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


def scores_lock(run: Run) -> FileLock:
    """Lets one process and thread at a time at the scores; the system frees it where a process dies."""
    file = plan_file(run).with_name("scores.lock")
    file.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(file)


def add_scores(run: Run, scores: Sequence[PhysicianScore], replace: bool = False) -> Added:
    """Adds scores to the run's `physician_scores.jsonl`; on the disk when this returns.

    The same score again adds nothing. Others who add or read under `scores_lock` wait.

    Args:
        replace: Whether another score of the same rater for the same answer takes the place of the old one.

    Raises:
        InputError: There is another score of the same rater for the same answer, and `replace` is not set; nothing is
            written.
    """
    with scores_lock(run):
        merged = {score.key: score for score in run.physician_scores()}
        new: list[PhysicianScore] = []
        changed: list[tuple[PhysicianScore, PhysicianScore]] = []
        for score in scores:
            if score.key not in merged:
                new.append(score)
                merged[score.key] = score
            elif merged[score.key] != score:
                changed.append((merged[score.key], score))
        if changed and not replace:
            before, score = changed[0]
            more = f"; and {len(changed) - 1} more like it" if len(changed) > 1 else ""
            raise InputError(
                f"{run.physicians_file}: {score.rater} gave the answer of {score.model} to {score.question_id} "
                f"{shown_score(before)}, and now {shown_score(score)}{more}; --replace takes the new scores"
            )
        if changed:
            write_records(run.physicians_file, {**merged, **{score.key: score for _, score in changed}}.values())
        elif new:
            _append(run.physicians_file, new)
        return Added(len(new), len(scores) - len(new) - len(changed), len(changed))


def _append(path: Path, scores: Sequence[PhysicianScore]) -> None:
    if path.exists():
        repair_last_line(path)
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(score.model_dump_json() + "\n" for score in scores))
        file.flush()
        os.fsync(file.fileno())


def shown_score(score: PhysicianScore) -> str:
    """A score in words, with its comment: 4, or 5/5/4/5/1 by dimensions."""
    if score.dimensions is None:
        given = str(score.score)
    else:
        given = "/".join(str(points) for points in score.dimensions.model_dump().values())
    return f"{given} ('{score.comment}')" if score.comment else given


def _check_raters(raters: Sequence[str], overlap: int) -> None:
    for name in raters:
        if not name.strip() or _NO_FILE_NAME.search(name) or len(name) > _LONGEST_NAME:
            raise InputError(f"--rater '{name}': a file gets this name; take letters, digits, '-', '.', '_' or '@'")
        if name.casefold() == CONSTRUCTED:
            raise InputError(f"--rater {name}: this name stands for levels that no physician gave; take another")
    folded = [name.casefold() for name in raters]
    if twice := [name for name in raters if folded.count(name.casefold()) > 1]:
        raise InputError(f"--rater {twice[0]}: named twice; each rater is named once")
    if not raters:
        raise InputError("--rater: name one rater at least")
    if not 1 <= overlap <= len(raters):
        raise InputError(
            f"--overlap {overlap}: every answer goes to so many raters, and there are {len(raters)}; take 1 to "
            f"{len(raters)}"
        )


def _candidates(run: Run, known: set[str]) -> tuple[list[Answer], dict[str, int]]:
    """The answers that a physician can still score, and how many cannot, by reason."""
    scored = {score.answer_key for score in run.physician_scores() if score.rater != CONSTRUCTED}
    reasons: Counter[str] = Counter()
    kept = []
    for answer in run.answers():
        if answer.question_id not in known:
            reasons["to a question that is not in the run"] += 1
        elif not answer.text.strip():
            reasons["empty"] += 1
        elif answer.key in scored:
            reasons["scored by a physician already"] += 1
        else:
            kept.append(answer)
    return kept, dict(reasons)


def _surprise(run: Run, judge: str | None, teacher: str | None) -> dict[AnswerKey, float]:
    """How likely the judge's verdict on usable is overturned, 0 to 1, for each answer that it scored.

    Against a teacher: |P(usable) - the teacher's verdict|, above one half where the two differ. Else the smaller of
    P(usable) and its complement. Conformal sets would change nothing in the order: of two labels the uncertain ones
    are those nearest to one half.
    """
    for option, name in (("--judge", judge), ("--teacher", teacher)):
        if (name is None and option == "--judge") or (name is not None and name not in run.judges()):
            there = ", ".join(run.judges()) or "none; run `medjudge eval` first"
            raise InputError(f"--which informative: {option} names a judge of {run.path}; there are: {there}")
    assert judge is not None
    if judge == teacher:
        raise InputError(f"--teacher {teacher}: the judge itself; name another one, or leave it out")
    usable: dict[AnswerKey, list[float]] = defaultdict(list)
    for judgment in run.judgments(judge):
        if judgment.score is not None:
            if judgment.probabilities is None:
                raise InputError(f"--judge {judge}: gives no probabilities; take a local judge, or --which random")
            usable[judgment.answer_key].append(sum(judgment.probabilities[USABLE_FROM - 1 :]))
    levels: dict[AnswerKey, list[int]] = defaultdict(list)
    for judgment in run.judgments(teacher) if teacher else ():
        if judgment.score is not None:
            levels[judgment.answer_key].append(judgment.score)
    surprise = {}
    for key, values in usable.items():
        probability = sum(values) / len(values)
        if key in levels:
            verdict = sum(levels[key]) / len(levels[key]) >= USABLE_FROM
            surprise[key] = abs(probability - verdict)
        else:
            surprise[key] = min(probability, 1 - probability)
        surprise[key] = round(surprise[key], 12)  # so that 0.3 and 0.7 are a tie
    return surprise


def _spread(items: Sequence[Item], category: Mapping[str, str], group: Mapping[str, str], wanted: int) -> list[Item]:
    """Draws items category by category and model by model, each time from the conversation drawn from least."""
    if wanted == len(items):
        return list(items)
    waiting: dict[tuple[str, str], list[Item]] = defaultdict(list)
    for item in sorted(items, key=lambda item: item.id):  # ids are hashes, so this is a shuffle
        waiting[category[item.question_id], item.model].append(item)
    size = Counter({stratum: len(some) for stratum, some in waiting.items()})
    of_category = Counter(category[item.question_id] for item in items)
    of_model = Counter(item.model for item in items)
    taken: Counter[object] = Counter()
    chosen: list[Item] = []

    def share(part: object, whole: int) -> float:
        """How full a part is after half an item more (Sainte-Laguë): any number of draws is in proportion."""
        return (taken[part] + 0.5) / whole

    while len(chosen) < wanted:
        stratum = min(
            (one for one in waiting if waiting[one]),
            key=lambda one: (
                share(one[0], of_category[one[0]]),
                share(one, size[one]),
                share(("model", one[1]), of_model[one[1]]),
                waiting[one][0].id,
            ),
        )
        item = min(
            waiting[stratum],
            key=lambda item: (taken["group", group[item.question_id]], taken["question", item.question_id]),
        )
        waiting[stratum].remove(item)
        chosen.append(item)
        parts = (stratum[0], stratum, ("model", item.model))
        taken.update([*parts, ("group", group[item.question_id]), ("question", item.question_id)])
    return chosen


def _assigned(
    items: Sequence[Item], raters: Sequence[str], overlap: int, category: Mapping[str, str], seed: int
) -> dict[str, list[str]]:
    """Each rater's item ids, in that rater's own order."""
    load: Counter[object] = Counter()
    mine: dict[str, list[str]] = {rater: [] for rater in raters}
    for item in sorted(items, key=lambda item: item.id):
        team: list[str] = []
        for _ in range(overlap):
            rater = min(
                (one for one in raters if one not in team),
                key=lambda one: (
                    load[one],
                    sum(load[frozenset((one, other))] for other in team),
                    load[one, category[item.question_id]],
                    load[one, "model", item.model],
                    _draw(seed, one, item.id),
                ),
            )
            load.update([frozenset((rater, other)) for other in team])
            team.append(rater)
        for rater in team:
            load.update([rater, (rater, category[item.question_id]), (rater, "model", item.model)])
            mine[rater].append(item.id)
    return {rater: sorted(ids, key=lambda item_id: _draw(seed, "order", rater, item_id)) for rater, ids in mine.items()}


def _item(seed: int, answer: Answer) -> Item:
    key = answer.key
    return Item(id=_draw(seed, *key)[:12], question_id=key.question_id, model=key.model, sample=key.sample)


def _draw(seed: int, *parts: object) -> str:
    return sha256("\x1f".join(map(str, (seed, *parts))).encode()).hexdigest()
