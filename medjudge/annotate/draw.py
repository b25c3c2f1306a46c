"""Draws what physicians score, compare or mark, and assigns it to raters."""

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from itertools import combinations
from typing import NamedTuple

from pydantic import ConfigDict

from medjudge.annotate.plan import Item, Pair, Plan, PlanOptions, check_raters
from medjudge.annotate.tasks import LEVELS, PAIRS, Task
from medjudge.errors import InputError
from medjudge.files import file_sha256
from medjudge.records import CONSTRUCTED, AnswerKey, OfAnswer, Question, grouped
from medjudge.store import Run, read_records
from medjudge.text.checklist_items import items_of


class _Candidate(NamedTuple):
    """Work for a rater: `kind` is the model, or the two that are compared."""

    item: Item | Pair
    category: str
    group: str
    kind: str


def draw_plan(run: Run, options: PlanOptions, task: Task = LEVELS) -> Plan:
    """Chooses answers or pairs and assigns them to raters; the order of the run's files makes no difference.

    `random` ones are in proportion to the categories and, within each, to the models, spread over as many
    conversations as possible, because intervals are computed over conversations. `deferred` answers are those that
    `medjudge eval --defer-to-physicians` listed, in the order of the list. Their scores are no random sample: they may
    correct a judge, but not validate it or estimate rates.

    Each goes to `overlap` raters. Loads differ by at most one, and categories, models and pairs of raters are spread
    evenly. Empty answers are left out; of answers to score also those that a physician scored already.

    Raises:
        InputError: A name or number is invalid, or nothing is left to draw.
    """
    options = options.with_defaults()
    assert options.overlap is not None
    check_raters(options.raters, options.overlap)
    if options.each is not None and options.each < 1:
        raise InputError(f"--each {options.each}: each rater gets at least one answer")
    left_out: Counter[str] = Counter()
    if task is LEVELS:
        candidates = _answers_to_score(run, options, left_out)
    else:
        candidates = _pairs(run, options) if task is PAIRS else _answers_with_items(run, options.seed)
    size = len(candidates)
    if options.each is not None:
        size = min(size, options.each * len(options.raters) // options.overlap)
    if size == 0:
        raise InputError(
            f"--each {options.each} and --overlap {options.overlap}: nothing gets {options.overlap} raters; raise "
            "--each"
        )
    drawn = candidates[:size] if options.which == "deferred" else _spread(candidates, size)
    drawn_by = options._asdict() | {"models": list(options.models)}
    del drawn_by["raters"]
    return Plan(
        items=sorted((candidate.item for candidate in drawn), key=lambda item: item.id),
        by_rater=_assigned(drawn, options),
        left_out=dict(left_out),
        list_sha256=file_sha256(run.deferred_file) if options.which == "deferred" else None,
        **drawn_by,
    )


def _answers_to_score(run: Run, options: PlanOptions, left_out: Counter[str]) -> list[_Candidate]:
    """The answers that a physician can still score; the others are counted by reason."""
    questions = {question.id: question for question in run.questions()}
    scored = {score.answer_key for score in run.physician_scores() if score.rater != CONSTRUCTED}
    found: dict[AnswerKey, _Candidate] = {}
    for answer in run.answers():
        key = answer.key
        if key.question_id not in questions:
            left_out["to a question that is not in the run"] += 1
        elif not answer.text.strip():
            left_out["empty"] += 1
        elif key in scored:
            left_out["scored by a physician already"] += 1
        else:
            found[key] = _of_answer(key, options.seed, questions[key.question_id])
    if options.which == "deferred":
        listed = read_deferred(run)
        found = {key: found[key] for key in listed if key in found}
        left_out.clear()
        if gone := len(listed) - len(found):
            left_out["no longer open"] = gone
    if not found:
        reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items()) or "there are none"
        raise InputError(f"{run.path}: no answer is left to score ({reasons})")
    return list(found.values())


def _answers_with_items(run: Run, seed: int) -> list[_Candidate]:
    questions = {question.id: question for question in run.questions() if items_of(question)}
    candidates = [
        _of_answer(answer.key, seed, questions[answer.question_id])
        for answer in run.answers()
        if answer.text.strip() and answer.question_id in questions
    ]
    if not candidates:
        raise InputError(
            f"{run.path}: no answer to a question with items or a numbered checklist; `medjudge data check` counts them"
        )
    return candidates


def _pairs(run: Run, options: PlanOptions) -> list[_Candidate]:
    answers = {answer.key for answer in run.answers() if answer.text.strip()}
    samples = sorted({key.sample for key in answers})
    candidates = []
    for question in run.questions():
        for sample in samples:
            for models in combinations(sorted(options.models), 2):
                if all(AnswerKey(question.id, model, sample) in answers for model in models):
                    code = _draw(options.seed, question.id, sample, *models, "order")
                    first, second = models if int(code[-1], 16) % 2 else reversed(models)
                    pair = Pair(id=code[:12], question_id=question.id, first=first, second=second, sample=sample)
                    kind = " / ".join(models)
                    candidates.append(_Candidate(pair, question.category, question.group, kind))
    if not candidates:
        raise InputError(f"{run.path}: no question has an answer of two of these models; nothing can be compared")
    return candidates


def _of_answer(key: AnswerKey, seed: int, question: Question) -> _Candidate:
    item = Item(id=_draw(seed, *key)[:12], **key._asdict())
    return _Candidate(item, question.category, question.group, key.model)


def _spread(candidates: Sequence[_Candidate], size: int) -> list[_Candidate]:
    """Draws category by category and model by model, each time from the conversation drawn from least so far."""
    if size == len(candidates):
        return list(candidates)
    shuffled = sorted(candidates, key=lambda one: one.item.id)  # ids are hashes
    waiting = grouped(shuffled, lambda one: (one.category, one.kind))
    in_stratum = Counter({stratum: len(members) for stratum, members in waiting.items()})
    in_category = Counter(one.category for one in candidates)
    of_kind = Counter(one.kind for one in candidates)
    taken: Counter[object] = Counter()
    drawn: list[_Candidate] = []

    def share(part: object, whole: int) -> float:
        """The fill of a part after half an item more (Sainte-Laguë): any number of draws is in proportion."""
        return (taken[part] + 0.5) / whole

    while len(drawn) < size:
        stratum = min(
            (stratum for stratum in waiting if waiting[stratum]),
            key=lambda stratum: (
                share(stratum[0], in_category[stratum[0]]),
                share(stratum, in_stratum[stratum]),
                share(("kind", stratum[1]), of_kind[stratum[1]]),
                waiting[stratum][0].item.id,
            ),
        )
        one = min(
            waiting[stratum],
            key=lambda one: (taken["group", one.group], taken["question", one.item.question_id]),
        )
        waiting[stratum].remove(one)
        drawn.append(one)
        parts = (stratum[0], stratum, ("kind", one.kind))
        taken.update([*parts, ("group", one.group), ("question", one.item.question_id)])
    return drawn


def _assigned(candidates: Sequence[_Candidate], options: PlanOptions) -> dict[str, list[str]]:
    """Each rater's item ids, in that rater's order."""
    load: Counter[object] = Counter()
    assigned: dict[str, list[str]] = {rater: [] for rater in options.raters}
    for item, category, _, kind in sorted(candidates, key=lambda one: one.item.id):
        team: list[str] = []
        for _ in range(options.overlap or 1):
            rater = min(
                (rater for rater in options.raters if rater not in team),
                key=lambda rater: (
                    load[rater],
                    sum(load[frozenset((rater, other))] for other in team),
                    load[rater, category],
                    load[rater, "kind", kind],
                    _draw(options.seed, rater, item.id),
                ),
            )
            load.update([frozenset((rater, other)) for other in team])
            team.append(rater)
        for rater in team:
            load.update([rater, (rater, category), (rater, "kind", kind)])
            assigned[rater].append(item.id)
    return {
        rater: sorted(item_ids, key=lambda item_id: _draw(options.seed, "order", rater, item_id))
        for rater, item_ids in assigned.items()
    }


def _draw(seed: int, *parts: object) -> str:
    return sha256("\x1f".join(map(str, (seed, *parts))).encode()).hexdigest()


class _Listed(OfAnswer):
    model_config = ConfigDict(extra="ignore")  # the other fields of a line are for people

    @property
    def key(self) -> AnswerKey:
        return self.answer_key


def read_deferred(run: Run) -> list[AnswerKey]:
    """Reads the list of the answers of a run that `medjudge eval` left to physicians, in its order.

    Raises:
        InputError: There is none, or a line names no answer.
    """
    file = run.deferred_file
    if not file.exists():
        raise InputError(f"--which deferred: {file} is missing; `medjudge eval --defer-to-physicians` writes it")
    return [line.key for line in read_records(file, _Listed)]
