"""Draws the answers that physicians score, and assigns them to raters."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from medjudge.annotate.deferred import read_deferred
from medjudge.annotate.plan import Item, Plan, PlanOptions, rater_problem
from medjudge.errors import InputError
from medjudge.records import CONSTRUCTED, Answer, AnswerKey
from medjudge.scale import USABLE_FROM
from medjudge.store import Run


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
    assert options.overlap is not None
    _check_options(options)
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
    raters = options.raters
    for name in raters:
        if problem := rater_problem(name):
            raise InputError(f"--rater '{name}': {problem}")
        if name.casefold() == CONSTRUCTED:
            raise InputError(f"--rater {name}: this name stands for levels that no physician gave; choose another")
    folded = [name.casefold() for name in raters]
    if repeated := [name for name in raters if folded.count(name.casefold()) > 1]:
        raise InputError(f"--rater {repeated[0]}: named twice; name each rater once")
    if not raters:
        raise InputError("--rater: name at least one rater")
    if options.overlap is None or not 1 <= options.overlap <= len(raters):
        raise InputError(
            f"--overlap {options.overlap}: each answer goes to that many raters, and there are {len(raters)}; take 1 "
            f"to {len(raters)}"
        )
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
    """How likely the judge's verdict on usable is overturned, 0 to 1, for each answer that it scored.

    Against a teacher: |P(usable) - the teacher's verdict|, above one half where the two differ. Otherwise the smaller
    of P(usable) and its complement. Conformal sets would give the same order: of two labels the uncertain ones are
    those nearest to one half.
    """
    for option, name in (("--judge", judge), ("--teacher", teacher)):
        if (name is None and option == "--judge") or (name is not None and name not in run.judges()):
            judges = ", ".join(run.judges()) or "none; run `medjudge eval` first"
            raise InputError(f"--which informative: {option} names a judge of {run.path}; there are: {judges}")
    assert judge is not None
    if judge == teacher:
        raise InputError(f"--teacher {teacher}: is the judge itself; name another one, or omit it")
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
        """How full a part is after half an item more (Sainte-Laguë): any number of draws is in proportion."""
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
