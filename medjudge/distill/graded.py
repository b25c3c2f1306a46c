"""Graded synthetic answers: answers that deserve their level by construction (the idea of MedVAL, arXiv 2507.03152).

No model and no physician is needed: a reference and its checklist are enough. Points are dropped, facts altered, other
questions' answers swapped in; filler, openings and instructions to the judge are put around all levels alike.
"""

import math
import re
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple

from medjudge.distill.alterations import in_random_order, wrong, wrong_and_short
from medjudge.distill.dropping import compact, shortened, swapped
from medjudge.distill.sources import Body, Source, Wording, is_answer
from medjudge.languages.texts import languages_of
from medjudge.records import Answer, Question
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.text.blocks import cut_into_blocks
from medjudge.text.formatting import plain
from medjudge.text.outline import Outline, outline_of
from medjudge.text.reordering import reordered

MODEL = "synthetic"
"""The name of the model in a synthetic answer."""

_LEVELS = (5, 4, 3, 2, 1)
_TRIES = 12
_INSTRUCTED = 0.1
_MEAN_STRETCH, _STRETCH_PER_TRY = 0.2, 0.06
"""The mean length of an answer relative to its reference, and what each try adds, as logarithms."""


class GradedAnswer(NamedTuple):
    """An answer, the level it deserves, how it was made, and the other questions whose text is in it."""

    question: Question
    answer: Answer
    level: int
    how: str
    made_from: list[str]


def graded_answers(
    questions: Sequence[Question], count: int, seed: int, scheme: Scheme = LLMEVAL_MED
) -> list[GradedAnswer]:
    """Makes `count` answers that deserve their level by construction, about as many of each level.

    Every question with a reference gives answers of all levels, as far as its reference has enough to drop or alter:
    5 the reference, 4 without secondary points, 3 without a core point or with a minor fact altered, 2 without most
    core points or with a fact altered that matters, 1 another question's answer or with facts altered that can harm.
    Without a checklist, shares of the text replace points. A reference that is itself a list of requirements, or a
    note to graders, gives none. Filler is added so that length does not tell the level.

    The texts differ, so that there are fewer where the questions give no more; `answer.sample` runs from 0.

    Raises:
        InputError: A question is in a language without word lists.
    """
    languages = languages_of(scheme)
    sources = [Source(question, scheme) for question in questions if is_answer(question.reference, languages)]
    Random(f"{seed}").shuffle(sources)
    queues = _Queues(sources)
    stretches: dict[tuple[str, bool, int], list[float]] = {}
    answers: list[GradedAnswer] = []
    # Whose each text is, and empty once it is given: a swap must not take away a question's own reference.
    owners = {source.text: source.question.id for source in sources}
    numbers: Counter[int] = Counter()
    open_levels = list(_LEVELS)
    while len(answers) < count and open_levels:
        level = min(open_levels, key=lambda open_level: numbers[open_level])
        source = queues.take(level)
        if source is None:
            open_levels.remove(level)
            continue
        stretch = stretches.setdefault((source.language, source.may_be_dressed, level), [])
        missing = _MEAN_STRETCH * (len(stretch) + 1) - sum(stretch)  # brings the mean of the level right
        body = _new_body(source, level, missing, f"{seed}\n{len(answers)}", sources, owners)
        if body is None:
            queues.drop(source, level)
            continue
        queues.put_back(source, level)
        owners[body.text] = ""
        numbers[level] += 1
        stretch.append(stretch_of(source, body.text))
        answer = Answer(question_id=source.question.id, model=MODEL, sample=len(answers), text=body.text)
        answers.append(GradedAnswer(source.question, answer, level, " + ".join(body.steps), list(body.made_from)))
    return answers


def _new_body(
    source: Source, level: int, stretch: float, seed: str, sources: Sequence[Source], owners: Mapping[str, str]
) -> Body | None:
    """An answer that was not given before, or None where some tries give none.

    `stretch` would bring the mean of its level right. `owners` has the question that a text is reserved for.
    """
    # Not drawn anew with each try: what runs out of other texts would be left with instructions alone.
    with_instruction = Random(seed).random() < _INSTRUCTED
    for number in range(_TRIES):
        draw = Random(f"{seed}\n{source.question.id}\n{level}\n{number}")
        body = _body(source, level, stretch > _MEAN_STRETCH, sources, draw)
        if body and source.may_be_dressed:
            body = dressed(source, body, stretch, number * _STRETCH_PER_TRY, draw)
        if body and with_instruction:
            instruction = draw.choice(source.wording.texts.instruction)
            around = (instruction, body.text) if draw.random() < 0.4 else (body.text, instruction)
            body = body.with_step("instruct", "\n\n".join(around))
        if body and owners.get(body.text, source.question.id) == source.question.id:
            return body
    return None


class _Queues:
    """The next question at each level; one that has no further answer of level 5 waits until nothing else is left.

    Else questions that may not be dressed would be typical of low levels.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._next = {level: deque(sources) for level in _LEVELS}
        self._last: dict[int, deque[Source]] = {level: deque() for level in _LEVELS}
        self._without_fives: set[str] = set()

    def take(self, level: int) -> Source | None:
        while self._next[level]:
            source = self._next[level].popleft()
            if source.question.id not in self._without_fives:
                return source
            self._last[level].append(source)
        return self._last[level].popleft() if self._last[level] else None

    def put_back(self, source: Source, level: int) -> None:
        waits = self._last if source.question.id in self._without_fives else self._next
        waits[level].append(source)

    def drop(self, source: Source, level: int) -> None:
        if level == 5:
            self._without_fives.add(source.question.id)


_MAKERS: dict[str, Callable[[Source, int, Sequence[Source], Random], Body | None]] = {
    "whole": lambda source, level, sources, draw: Body(source.text, ("reference",)),
    "compact": lambda source, level, sources, draw: compact(source, draw),
    "shortened": lambda source, level, sources, draw: shortened(source, level, draw),
    "wrong": lambda source, level, sources, draw: wrong(source, level, draw),
    "wrong_and_short": lambda source, level, sources, draw: wrong_and_short(source, level, draw),
    "swapped": lambda source, level, sources, draw: swapped(source, sources, draw),
}
_FREQUENCIES: dict[int, dict[str, float]] = {
    5: {"whole": 0.6, "compact": 0.4},
    4: {"shortened": 1.0},
    3: {"shortened": 0.5, "wrong": 0.5},
    2: {"shortened": 0.4, "wrong": 0.4, "wrong_and_short": 0.2},
    1: {"swapped": 0.4, "wrong": 0.4, "wrong_and_short": 0.2},
}
"""The ways to make answers of a level, and how often each is tried first."""


def _body(source: Source, level: int, too_short: bool, sources: Sequence[Source], draw: Random) -> Body | None:
    """The content of the answer, made in the first way that works."""
    rarer = ("shortened", "wrong_and_short") if too_short else ()
    weights = {maker: weight / (4 if maker in rarer else 1) for maker, weight in _FREQUENCIES[level].items()}
    bodies = (_MAKERS[maker](source, level, sources, draw) for maker in in_random_order(weights, draw))
    return next((body for body in bodies if body), None)


MOST_STRETCH = 0.7
"""The most that an answer may be longer than its reference, as a logarithm."""
_LONGEST_RESTATED = 160
_FEWEST_LISTED = 3
_MOST_POSITIONS = 3
_REFORMED = 0.25
_NUMBERED = re.compile(r"^\W*(?:\d{1,2}|[一二三四五六七八九十])[.．、)）]", re.MULTILINE)


def dressed(source: Source, body: Body, stretch: float, at_least: float, draw: Random) -> Body:
    """An answer in another form, with filler, an opening, a closing, as far as it is to be stretched.

    `stretch` is the length to reach, as the logarithm of its ratio to the reference's; `at_least` is added in any case.
    """
    body = _reformed(body, source.wording, draw)
    current = stretch_of(source, body.text)
    missing = max(min(stretch, MOST_STRETCH) - current, at_least)
    if missing > 0 and draw.random() < 0.7:
        characters = round(len(source.text) * math.exp(current + missing)) - len(body.text)
        longer = padded(body.text, characters, source.wording, draw)
        body = body.with_step("pad", longer) if longer != body.text else body
    if missing > 0 and draw.random() < 0.5:
        body = body.with_step("opening", f"{draw.choice(_openings(source))}\n\n{body.text}")
    if missing > 0 and draw.random() < 0.3:
        body = body.with_step("closing", f"{body.text}\n\n{draw.choice(source.wording.texts.closing)}")
    return body


def stretch_of(source: Source, text: str) -> float:
    """The logarithm of how many times as long as the reference a text is, outliers cut."""
    return max(-1.5, min(1.5, math.log(len(text) / len(source.text))))


def _reformed(body: Body, wording: Wording, draw: Random) -> Body:
    """The text in another form: a list, another order, without Markdown; most stay as they are."""
    if draw.random() >= _REFORMED:
        return body
    text = body.text
    forms: dict[str, str | None] = {
        "listed": listed(outline_of(text, wording.grammar), wording),
        # Numbers out of their order would give the change away.
        "reordered": None if _NUMBERED.search(text) else reordered(text, wording.grammar, draw),
        "plain": plain(text).strip(),
    }
    changed = [body.with_step(name, form) for name, form in forms.items() if form and form != text]
    return draw.choice(changed) if changed else body


def padded(text: str, characters: int, wording: Wording, draw: Random) -> str:
    """The text with about so many characters of fluent filler before it, behind it and between its paragraphs.

    Filler adds no content. No sentence is used twice; where the lists hold too little, less is added.
    """
    chunks = _chunks(characters, wording, draw)
    _, blocks, gaps = cut_into_blocks(text)
    possible = draw.sample([0, len(blocks), *gaps], min(len(gaps) + 2, _MOST_POSITIONS))
    positions = [draw.choice(possible) for _ in chunks]
    result: list[str] = []
    for at in range(len(blocks) + 1):
        result += [chunk for position, chunk in zip(positions, chunks, strict=True) if position == at]
        result += blocks[at : at + 1]
    return "\n\n".join(result)


def _chunks(characters: int, wording: Wording, draw: Random) -> list[str]:
    """Paragraphs of one to four sentences of filler."""
    space, stop = wording.grammar.space, wording.grammar.stop
    sentences = []
    for group in wording.texts.filler:
        ends = draw.sample(group.end, len(group.end))
        begins = [begin for _ in ends for begin in draw.sample(group.begin, len(group.begin))]
        sentences += [f"{begin}{space}{end}{stop}" for begin, end in zip(begins, ends, strict=False)]
    draw.shuffle(sentences)
    drawn: list[str] = []
    while sentences and sum(map(len, drawn)) + len(sentences[-1]) / 2 < characters:
        drawn.append(sentences.pop())
    chunks = []
    while drawn:
        size = draw.randint(2, 5)
        chunks.append(space.join(drawn[:size]))
        drawn = drawn[size:]
    return chunks


def _openings(source: Source) -> list[str]:
    """Neutral openings, some of which say the question again where that is short."""
    texts, prompt = source.wording.texts, source.question.prompt.strip()
    short = len(prompt) <= _LONGEST_RESTATED and "\n" not in prompt
    return [*texts.opening, *(opening.replace("{prompt}", prompt) for opening in texts.restated if short)]


def listed(outline: Outline, wording: Wording) -> str | None:
    """Sentences of a single paragraph as a list; None for another form, or with too few of them.

    A sentence that depends on the one before it stays with it.
    """
    if len(outline.lines) != 1 or outline.lines[0].prefix:
        return None
    items: list[str] = []
    for number, part in enumerate(outline.parts):
        same_sentence = outline.sentences[number] == outline.sentences[max(number - 1, 0)]
        if items and (same_sentence or wording.leans.match(part)):
            items[-1] += part
        else:
            items.append(part)
    return "\n".join(f"- {item.strip()}" for item in items) if len(items) >= _FEWEST_LISTED else None
