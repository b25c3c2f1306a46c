"""Every answer of a run with its question and its scores, as the page's script reads them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from medjudge.records import Answer, AnswerKey, Judgment, PhysicianScore, Question
from medjudge.report.contents import Contents
from medjudge.rounds import level_of, mean_probabilities, raters_of, scored_rounds
from medjudge.scale import USABLE_FROM, consensus
from medjudge.validation.pairs import unsafe

_BLOCK = 150_000
"""Characters after which a block ends: small enough that one answer is there at once, large enough to deflate well."""


class Cases(NamedTuple):
    """JSON values: what lists and filters need, the questions' texts, and the answers in blocks, in its order."""

    overview: dict[str, Any]
    texts: list[Any]
    blocks: list[list[Any]]


def cases(run: Contents) -> Cases:
    """Gathers the answers of a run, question by question.

    In the overview, columns have one entry an answer; a judge's `levels` are 0 for unscored and null for not judged,
    its `usable` is the probability of usable in thousandths. Each block holds rows of `[text, finish_reason, judgments,
    physicians' scores]`; `starts` names the first row of each.
    """
    order = {question.id: place for place, question in enumerate(run.questions)}
    models = run.models
    rank = {model: place for place, model in enumerate(models)}
    answers = sorted(
        (answer for answer in run.answers if answer.question_id in order),
        key=lambda one: (order[one.question_id], rank[one.model], one.sample),
    )
    judges = list(run.judgments)
    given: dict[AnswerKey, list[PhysicianScore]] = {}
    for score in run.scores:
        given.setdefault(score.answer_key, []).append(score)
    said: dict[AnswerKey, list[list[Any]]] = {}
    for place, judgments in enumerate(run.judgments.values()):
        for one in judgments:
            said.setdefault(one.answer_key, []).append(_judgment(place, one))
    rows = (
        [one.text, one.finish_reason, said.get(one.key, []), [_score(score) for score in given.get(one.key, [])]]
        for one in answers
    )
    blocks = list(_blocks(rows))
    ends = list(accumulate(len(block) for block in blocks))
    by_id = {question.id: question for question in run.questions}
    return Cases(
        overview={
            "name": run.name,
            "against": run.against_kind,
            "models": models,
            "judges": [_judge(run, judge, answers, order) for judge in judges],
            "raters": raters_of(run.scores),
            "questions": _questions(run.questions),
            "question": [order[answer.question_id] for answer in answers],
            "model": [rank[answer.model] for answer in answers],
            "sample": [answer.sample for answer in answers],
            "physicians": [
                consensus(one.level for one in given[answer.key]) if answer.key in given else None for answer in answers
            ],
            "unsafe": [
                int(answer.key in given and unsafe(by_id[answer.question_id], given[answer.key], run.scheme))
                for answer in answers
            ],
            "starts": [0, *ends][: len(blocks)],
        },
        texts=[[one.prompt, one.reference, one.checklist] for one in run.questions],
        blocks=blocks,
    )


def _questions(questions: Sequence[Question]) -> dict[str, list[Any]]:
    names = ("id", "category", "subcategory", "scene", "difficulty", "language", "group", "round")
    return {name: [getattr(question, name) for question in questions] for name in names}


def _judge(run: Contents, judge: str, answers: Sequence[Answer], order: Mapping[str, int]) -> dict[str, Any]:
    judgments = run.judgments[judge]
    scored, judged = scored_rounds(judgments), {one.answer_key for one in judgments}
    return {
        "name": judge,
        "levels": [
            level_of(scored[one.key]) if one.key in scored else 0 if one.key in judged else None for one in answers
        ],
        "usable": [_usable(scored.get(one.key)) for one in answers],
        "seen": sorted(order[name] for name in run.seen(judge) if name in order),
    }


def _usable(rounds: Sequence[Judgment] | None) -> int | None:
    if rounds is None or any(one.probabilities is None for one in rounds):
        return None
    return round(1000 * float(mean_probabilities(rounds)[USABLE_FROM - 1 :].sum()))


def _judgment(judge: int, one: Judgment) -> list[Any]:
    probabilities = None if one.probabilities is None else [round(share, 3) for share in one.probabilities]
    expected = None if one.expected is None else round(one.expected, 2)
    # The reply as it came is of use where nothing could be read from it.
    unread = one.raw if one.error else None
    cut = [one.answer_tokens_cut, one.context_tokens_cut]
    return [judge, one.round, one.score, expected, probabilities, one.rationale, one.error, unread, cut]


def _score(one: PhysicianScore) -> list[Any]:
    dimensions = None if one.dimensions is None else list(one.dimensions.model_dump().values())
    return [one.rater, one.level, dimensions, one.comment]


def _blocks(rows: Iterable[list[Any]]) -> Iterator[list[Any]]:
    block: list[Any] = []
    size = 0
    for row in rows:
        block.append(row)
        size += len(row[0]) + sum(len(one[5] or "") for one in row[2])
        if size >= _BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block
