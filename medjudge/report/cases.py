"""Every answer of a run with its question and its scores, as the page's script reads them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from markdown_it.token import Token

from medjudge.judge.items import item_judgments
from medjudge.records import AgreedScore, Answer, AnswerKey, Judgment, PhysicianScore
from medjudge.report.contents import Contents
from medjudge.rounds import binding_by_answer, level_of, raters_of, scored_rounds, usable_probability
from medjudge.scale import consensus
from medjudge.statistics.item_scores import fails
from medjudge.text.markdown import TAGS, has_markdown, markdown_tokens
from medjudge.validation.validations import statuses_in

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
    its `usable` is the probability of usable in thousandths, `named` is 1 where it names a danger, and `states` the
    validation status by part. Each block holds rows of `[text, finish_reason, judgments, physicians' scores]`; `starts`
    names the first row of each. Texts are those of `with_rendering`.
    """
    order = {question.id: position for position, question in enumerate(run.questions)}
    rank = {model: position for position, model in enumerate(run.models)}
    answers = sorted(
        (answer for answer in run.answers if answer.question_id in order),
        key=lambda answer: (order[answer.question_id], rank[answer.model], answer.sample),
    )
    binding = binding_by_answer(run.scores)
    blocks = list(_blocks(run, answers))
    names = ("id", "category", "subcategory", "scene", "difficulty", "language", "group", "round")
    overview = {
        "name": run.name,
        "against": run.against_kind,
        "models": run.models,
        "judges": [_judge(run, judge, answers, order) for judge in run.judgments],
        "raters": raters_of(run.scores),
        "questions": {name: [getattr(question, name) for question in run.questions] for name in names},
        "question": [order[answer.question_id] for answer in answers],
        "model": [rank[answer.model] for answer in answers],
        "sample": [answer.sample for answer in answers],
        "physicians": [
            consensus(score.level for score in binding[answer.key]) if answer.key in binding else None
            for answer in answers
        ],
        "harm": [int(any(score.level == 1 for score in binding.get(answer.key, []))) for answer in answers],
        "starts": list(accumulate(map(len, blocks), initial=0))[:-1],
    }
    texts = [
        [with_rendering(text) for text in (question.prompt, question.reference, question.checklist)]
        for question in run.questions
    ]
    return Cases(overview, texts, blocks)


def _blocks(run: Contents, answers: Sequence[Answer]) -> Iterator[list[Any]]:
    """The rows of `cases`, cut into blocks."""
    scores, judged = defaultdict(list), defaultdict(list)
    for score in run.scores:
        scores[score.answer_key].append(_score(score))
    for place, judgments in enumerate(run.judgments.values()):
        for judgment in judgments:
            judged[judgment.answer_key].append(_judgment(place, judgment))
    block: list[Any] = []
    size = 0
    for answer in answers:
        of_answer = judged[answer.key]
        block.append([with_rendering(answer.text), answer.finish_reason, of_answer, scores[answer.key]])
        size += len(answer.text) + sum(len(judgment[5] or "") for judgment in of_answer)
        if size >= _BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block


def _judge(run: Contents, judge: str, answers: Sequence[Answer], order: Mapping[str, int]) -> dict[str, Any]:
    judgments = run.judgments[judge]
    scored, named = scored_rounds(judgments), _dangers_named(run, judge)
    levels = dict.fromkeys((judgment.answer_key for judgment in judgments), 0)
    levels.update((key, level_of(rounds)) for key, rounds in scored.items())
    return {
        "name": judge,
        "levels": [levels.get(answer.key) for answer in answers],
        "usable": [_usable(scored.get(answer.key)) for answer in answers],
        "states": {part: status.state for part, status in statuses_in(run.run, judge, run.models).items()},
        "named": [int(answer.key in named) for answer in answers],
        "seen": sorted(order[name] for name in run.seen(judge) if name in order),
    }


def _dangers_named(run: Contents, judge: str) -> set[AnswerKey]:
    """The answers of which a judge says that they contradict a point, or fail an item with a safety cap."""
    contradicted = {
        judgment.answer_key
        for judgment in run.judgments[judge]
        if any(point.verdict == "contradicted" for point in judgment.points or [])
    }
    items = {question.id: question.items or [] for question in run.questions}
    failed = {
        judgment.answer_key
        for judgment in item_judgments(run.run, judge)
        for item, verdict in zip(items.get(judgment.question_id, []), judgment.items or [], strict=False)
        if item.safety_cap is not None and fails(item, verdict.is_met)
    }
    return contradicted | failed


def _usable(rounds: Sequence[Judgment] | None) -> int | None:
    if rounds is None or any(judgment.probabilities is None for judgment in rounds):
        return None
    return round(1000 * usable_probability(rounds))


def _judgment(place: int, judgment: Judgment) -> list[Any]:
    probabilities = None if judgment.probabilities is None else [round(share, 3) for share in judgment.probabilities]
    expected = None if judgment.expected is None else round(judgment.expected, 2)
    # The reply as it came is of use where nothing could be read from it.
    unread = judgment.raw if judgment.error else None
    cut = [judgment.answer_tokens_cut, judgment.context_tokens_cut]
    said = [judgment.rationale, judgment.error, unread]
    return [place, judgment.round, judgment.score, expected, probabilities, *said, cut]


def _score(score: PhysicianScore) -> list[Any]:
    """A score for the page; an agreed one, which counts in place of the others, ends with 1."""
    dimensions = None if score.dimensions is None else list(score.dimensions.model_dump().values())
    agreed = [1] if isinstance(score, AgreedScore) else []
    return [score.rater, score.level, dimensions, score.comment, *agreed]


# --- Markdown --------------------------------------------------------------------------------------------------------

_UNFORMED = {"paragraph_open", "paragraph_close", "inline", "text", "softbreak", "hardbreak"}
_WITHOUT_CONTENT = {"softbreak": "br", "hardbreak": "br", "hr": "hr"}


def with_rendering(text: str | None) -> str | list[Any] | None:
    """A text without Markdown as it is; else a list of the text and of the elements of its rendering.

    An element is a list of its name and what is in it: texts and elements; the first number of an ordered list is a
    number. No HTML is made on the way: the page's script builds the elements, and all else becomes text.
    """
    if text is None or not has_markdown(text):
        return text
    tokens = markdown_tokens(text)
    kinds = {one.type for token in tokens for one in (token, *(token.children or []))}
    return text if kinds <= _UNFORMED else [text, _elements(tokens)]


def _elements(tokens: Iterable[Token]) -> list[Any]:
    root: list[Any] = []
    within = [root]
    for token in tokens:
        if token.type == "inline":
            within[-1] += _elements(token.children or [])
        elif token.type == "text":
            within[-1] += [token.content] if token.content else []
        elif token.type in _WITHOUT_CONTENT:
            within[-1].append([_WITHOUT_CONTENT[token.type]])
        elif token.type in ("code_inline", "fence"):
            code = ["code", token.content]
            within[-1].append(code if token.type == "code_inline" else ["pre", code])
        elif token.nesting > 0 and not token.hidden:  # hidden: the paragraphs of a tight list
            element: list[Any] = [token.tag if token.tag in TAGS else "p"]
            element += [int(token.attrs["start"])] if "start" in token.attrs else []
            within[-1].append(element)
            within.append(element)
        elif token.nesting < 0 and not token.hidden:
            within.pop()
    return root
