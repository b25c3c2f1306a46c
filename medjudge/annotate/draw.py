"""Draws the answers that physicians score, and shares them out among the raters."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from hashlib import sha256

from medjudge.annotate.plan import Item, Plan, Which
from medjudge.errors import InputError
from medjudge.records import CONSTRUCTED, Answer, AnswerKey
from medjudge.scale import USABLE_FROM
from medjudge.store import Run

_NO_FILE_NAME = re.compile(r'[\x00-\x1f<>:"/\\|?*]|^[.\s]|[.\s]$')
_LONGEST_NAME = 80


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
