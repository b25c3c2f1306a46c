"""Draws what physicians score, compare or mark, and assigns it to raters."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from itertools import combinations
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from medjudge.annotate.plan import Item, ItemPlan, Pair, PairPlan, Plan, PlanOptions, check_raters
from medjudge.errors import InputError
from medjudge.files import file_sha256, first_problem, json_lines
from medjudge.records import CONSTRUCTED, Answer, AnswerKey
from medjudge.rounds import level_of, mean_probabilities, scored_rounds
from medjudge.scale import USABLE_FROM
from medjudge.store import Run
from medjudge.text.checklist_items import items_of


def draw_plan(run: Run, options: PlanOptions) -> Plan:
    """Chooses answers and assigns them to raters; the order of the run's files makes no difference.

    `random` answers are in proportion to the categories and, within each, to the models, spread over as many
    conversations as possible, because intervals are computed over conversations. `informative` answers are those whose
    usable verdict by the judge is likeliest to be overturned: by P(usable) against the teacher's verdict where there is
    one, otherwise by nearness to one half, the order of `medjudge eval --defer-to-physicians`. Scores of informative
    answers are no random sample: they may correct a judge, but not validate it or estimate rates. `deferred` answers
    are those that `medjudge eval` listed, in the order of the list.

    Each answer goes to `overlap` raters. Loads differ by at most one answer, and categories, models and pairs of raters
    are spread evenly. Empty answers and those that a physician scored already are left out; for `informative` also
    those that the judge left unscored.

    Raises:
        InputError: A name or number is invalid, the judge gives no probabilities, or no answer is left to score.
    """
    options = options.with_defaults()
    _check_options(options)
    assert options.overlap is not None
    categories = {question.id: question.category for question in run.questions()}
    groups = {question.id: question.group for question in run.questions()}
    candidates, left_out = _candidates(run, set(categories))
    informative = options.which == "informative"
    deferred = read_deferred(run) if options.which == "deferred" else None
    surprise = _surprise(run, options.judge, options.teacher) if informative else {}
    if informative:
        left_out["unscored by the judge"] = sum(answer.key not in surprise for answer in candidates)
        candidates = [answer for answer in candidates if answer.key in surprise]
    if deferred is not None:
        listed = set(deferred.keys)
        candidates = [answer for answer in candidates if answer.key in listed]
        left_out = {"no longer open": len(listed) - len(candidates)}
    left_out = {reason: count for reason, count in left_out.items() if count}
    if not candidates:
        reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items()) or "there are none"
        raise InputError(f"{run.path}: no answer is left to score ({reasons})")
    items = [_item(options.seed, answer) for answer in candidates]
    size = len(items)
    if options.each is not None:
        size = min(size, options.each * len(options.raters) // options.overlap)
    if size == 0:
        raise InputError(
            f"--each {options.each} and --overlap {options.overlap}: no answer gets {options.overlap} raters; raise "
            "--each"
        )
    if informative:
        drawn = sorted(items, key=lambda item: (-surprise[item.key], item.id))[:size]
    elif deferred is not None:
        place = {key: number for number, key in enumerate(deferred.keys)}
        drawn = sorted(items, key=lambda item: place[item.key])[:size]
    else:
        drawn = _spread(items, categories, groups, size)
    return Plan(
        seed=options.seed,
        which=options.which,
        judge=options.judge,
        teacher=options.teacher,
        overlap=options.overlap,
        each=options.each,
        items=sorted(drawn, key=lambda item: item.id),
        by_rater=_assigned(drawn, options.raters, options.overlap, categories, options.seed),
        left_out=left_out,
        list_sha256=deferred.sha256 if deferred else None,
    )


def _check_options(options: PlanOptions) -> None:
    assert options.overlap is not None
    check_raters(options.raters, options.overlap)
    if options.each is not None and options.each < 1:
        raise InputError(f"--each {options.each}: each rater gets at least one answer")
    if options.which != "informative" and (options.judge or options.teacher):
        raise InputError("--judge and --teacher choose informative answers; add --which informative or omit them")


class _Candidates(NamedTuple):
    """The answers that a physician can still score, and how many cannot, by reason."""

    answers: list[Answer]
    left_out: dict[str, int]


def _candidates(run: Run, question_ids: set[str]) -> _Candidates:
    scored = {score.answer_key for score in run.physician_scores() if score.rater != CONSTRUCTED}
    left_out: Counter[str] = Counter()
    answers = []
    for answer in run.answers():
        if answer.question_id not in question_ids:
            left_out["to a question that is not in the run"] += 1
        elif not answer.text.strip():
            left_out["empty"] += 1
        elif answer.key in scored:
            left_out["scored by a physician already"] += 1
        else:
            answers.append(answer)
    return _Candidates(answers, dict(left_out))


def _surprise(run: Run, judge: str | None, teacher: str | None) -> dict[AnswerKey, float]:
    """The chance, 0 to 1, that the judge's verdict on usable is overturned, for each answer that it scored.

    Against a teacher: |P(usable) - the teacher's verdict|, above one half where the two differ. Otherwise the smaller
    of P(usable) and its complement.
    """
    for option, name in (("--judge", judge), ("--teacher", teacher)):
        if (name is None and option == "--judge") or (name is not None and name not in run.judges()):
            judges = ", ".join(run.judges()) or "none; run `medjudge eval` first"
            raise InputError(f"--which informative: {option} names a judge of {run.path}; there are: {judges}")
    assert judge is not None
    if judge == teacher:
        raise InputError(f"--teacher {teacher}: is the judge itself; name another one, or omit it")
    taught = scored_rounds(run.judgments(teacher)) if teacher else {}
    surprise = {}
    for key, rounds in scored_rounds(run.judgments(judge)).items():
        if any(judgment.probabilities is None for judgment in rounds):
            raise InputError(f"--judge {judge}: gives no probabilities; take a local judge, or --which random")
        usable = float(mean_probabilities(rounds)[USABLE_FROM - 1 :].sum())
        chance = abs(usable - (level_of(taught[key]) >= USABLE_FROM)) if key in taught else min(usable, 1 - usable)
        surprise[key] = round(chance, 12)  # so that 0.3 and 0.7 are a tie
    return surprise


def _spread(items: Sequence[Item], categories: Mapping[str, str], groups: Mapping[str, str], size: int) -> list[Item]:
    """Draws items category by category and model by model, each from the conversation drawn from least so far."""
    if size == len(items):
        return list(items)
    waiting: dict[tuple[str, str], list[Item]] = defaultdict(list)
    for item in sorted(items, key=lambda item: item.id):  # ids are hashes, so this is a shuffle
        waiting[categories[item.question_id], item.model].append(item)
    in_stratum = Counter({stratum: len(members) for stratum, members in waiting.items()})
    in_category = Counter(categories[item.question_id] for item in items)
    of_model = Counter(item.model for item in items)
    taken: Counter[object] = Counter()
    drawn: list[Item] = []

    def share(part: object, whole: int) -> float:
        """The fill of a part after half an item more (Sainte-Laguë): any number of draws is in proportion."""
        return (taken[part] + 0.5) / whole

    while len(drawn) < size:
        stratum = min(
            (stratum for stratum in waiting if waiting[stratum]),
            key=lambda stratum: (
                share(stratum[0], in_category[stratum[0]]),
                share(stratum, in_stratum[stratum]),
                share(("model", stratum[1]), of_model[stratum[1]]),
                waiting[stratum][0].id,
            ),
        )
        item = min(
            waiting[stratum],
            key=lambda item: (taken["group", groups[item.question_id]], taken["question", item.question_id]),
        )
        waiting[stratum].remove(item)
        drawn.append(item)
        parts = (stratum[0], stratum, ("model", item.model))
        taken.update([*parts, ("group", groups[item.question_id]), ("question", item.question_id)])
    return drawn


def _assigned(
    items: Sequence[Item], raters: Sequence[str], overlap: int, categories: Mapping[str, str], seed: int
) -> dict[str, list[str]]:
    """Each rater's item ids, in that rater's order."""
    load: Counter[object] = Counter()
    assigned: dict[str, list[str]] = {rater: [] for rater in raters}
    for item in sorted(items, key=lambda item: item.id):
        category = categories[item.question_id]
        team: list[str] = []
        for _ in range(overlap):
            rater = min(
                (rater for rater in raters if rater not in team),
                key=lambda rater: (
                    load[rater],
                    sum(load[frozenset((rater, other))] for other in team),
                    load[rater, category],
                    load[rater, "model", item.model],
                    _draw(seed, rater, item.id),
                ),
            )
            load.update([frozenset((rater, other)) for other in team])
            team.append(rater)
        for rater in team:
            load.update([rater, (rater, category), (rater, "model", item.model)])
            assigned[rater].append(item.id)
    return {
        rater: sorted(item_ids, key=lambda item_id: _draw(seed, "order", rater, item_id))
        for rater, item_ids in assigned.items()
    }


def _item(seed: int, answer: Answer) -> Item:
    key = answer.key
    return Item(id=_draw(seed, *key)[:12], question_id=key.question_id, model=key.model, sample=key.sample)


def _draw(seed: int, *parts: object) -> str:
    return sha256("\x1f".join(map(str, (seed, *parts))).encode()).hexdigest()


class DeferredAnswers(NamedTuple):
    """The answers of the list in its order, and the sha256 of its file."""

    keys: list[AnswerKey]
    sha256: str


class _Line(BaseModel):
    # The other fields of a line are for people.
    model_config = ConfigDict(strict=True, protected_namespaces=())

    question_id: str
    model: str
    sample: int = 0


def read_deferred(run: Run) -> DeferredAnswers:
    """Reads the list of a run.

    Raises:
        InputError: There is none, or a line names no answer.
    """
    file = run.deferred_file
    if not file.exists():
        raise InputError(f"--which deferred: {file} is missing; `medjudge eval --defer-to-physicians` writes it")
    keys = []
    for number, fields in json_lines(file):
        try:
            line = _Line.model_validate(fields)
        except ValidationError as error:
            raise InputError(f"{file}, line {number}: {first_problem(error)}") from None
        keys.append(AnswerKey(line.question_id, line.model, line.sample))
    return DeferredAnswers(keys, file_sha256(file))


class VerdictOptions(NamedTuple):
    """The options of a plan of pairs or items.

    Attributes:
        raters: Their names.
        overlap: Raters per pair or answer.
        each: The most pairs or answers per rater; None for no limit.
        seed: Fixes the draw, which answer of a pair is A, and every rater's order.
        models: The models to compare, at least two.
    """

    raters: Sequence[str]
    overlap: int = 1
    each: int | None = None
    seed: int = 0
    models: Sequence[str] = ()


def draw_pairs(run: Run, options: VerdictOptions) -> PairPlan:
    """Chooses pairs, as many of each two models as possible and spread over the questions, and assigns them.

    Raises:
        InputError: A rater's name or a number is invalid, or there is no pair of two answers with text.
    """
    check_raters(options.raters, options.overlap)
    answers = {answer.key for answer in run.answers() if answer.text.strip()}
    possible = [
        (question_id, sample, first, second)
        for question_id, sample in sorted({(key.question_id, key.sample) for key in answers})
        for first, second in combinations(options.models, 2)
        if {AnswerKey(question_id, first, sample), AnswerKey(question_id, second, sample)} <= answers
    ]
    if not possible:
        raise InputError(f"{run.path}: no question has an answer of two of these models; nothing can be compared")
    items = []
    for question_id, sample, one, other in _in_turn(possible, (options.seed,), lambda pair: pair[2:], options):
        code = _draw(options.seed, question_id, sample, one, other, "order")
        first, second = (one, other) if int(code[-1], 16) % 2 else (other, one)
        items.append(Pair(id=code[:12], question_id=question_id, first=first, second=second, sample=sample))
    shares = _dealt([item.id for item in items], (options.seed,), options)
    models = list(options.models)
    return PairPlan(
        seed=options.seed, overlap=options.overlap, each=options.each, models=models, items=items, by_rater=shares
    )


def draw_items(run: Run, options: VerdictOptions) -> ItemPlan:
    """Chooses answers to questions with items, spread over the questions, and assigns them.

    Raises:
        InputError: A rater's name or a number is invalid, or there is no answer to a question with items.
    """
    check_raters(options.raters, options.overlap)
    with_items = {question.id for question in run.questions() if items_of(question)}
    possible = [answer.key for answer in run.answers() if answer.text.strip() and answer.question_id in with_items]
    if not possible:
        raise InputError(
            f"{run.path}: no answer to a question with items or a numbered checklist; `medjudge data check` counts them"
        )
    seed = (options.seed, "items")
    drawn = _in_turn(possible, seed, lambda key: key.question_id, options)
    items = [Item(id=_draw(*seed, *key)[:12], **key._asdict()) for key in drawn]
    shares = _dealt([item.id for item in items], seed, options)
    return ItemPlan(seed=options.seed, overlap=options.overlap, each=options.each, answers=items, by_rater=shares)


def _in_turn(
    possible: Sequence[Any], seed: tuple[Any, ...], kind: Callable[[Any], Any], options: VerdictOptions
) -> list[Any]:
    """A random order in which the n-th of every kind comes before the n + 1st of any; as many as the raters take."""
    counted: Counter[Any] = Counter()
    turn = {}
    for one in sorted(possible, key=lambda one: _draw(*seed, *one)):
        turn[one] = counted[kind(one)]
        counted[kind(one)] += 1
    most = len(turn) if options.each is None else options.each * len(options.raters) // options.overlap
    if most == 0:
        raise InputError(f"--each {options.each}: nothing gets {options.overlap} raters; raise --each")
    return sorted(turn, key=lambda one: turn[one])[:most]


def _dealt(ids: Sequence[str], seed: tuple[Any, ...], options: VerdictOptions) -> dict[str, list[str]]:
    """Each rater's ids, in that rater's order."""
    raters = options.raters
    shares: dict[str, list[str]] = {rater: [] for rater in raters}
    for number, code in enumerate(ids):
        for offset in range(options.overlap):
            shares[raters[(number + offset) % len(raters)]].append(code)
    return {rater: sorted(own, key=lambda code: _draw(*seed, rater, code)) for rater, own in shares.items()}
