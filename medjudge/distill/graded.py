"""Graded synthetic answers: answers that deserve their level by construction (the idea of MedVAL, arXiv 2507.03152).

No model and no physician is needed: a reference and its checklist are enough. Points are dropped, facts altered, other
questions' answers swapped in; filler, openings and instructions to the judge are put around all levels alike.
"""

import math
import re
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import cached_property
from random import Random
from typing import NamedTuple, TypeVar

from medjudge.distill.alterations import altered
from medjudge.distill.checklist import Carried, Point, carried, is_checklist, points_of, remaining, share, terms
from medjudge.distill.dressing import closed, instructed, listed, opened, padded
from medjudge.distill.outline import Outline, outline_of, written
from medjudge.distill.wording import Wording, language_of, wording_of
from medjudge.probes.formatting import plain
from medjudge.probes.reordering import reordered
from medjudge.probes.texts import texts_of
from medjudge.records import Answer, Question

MODEL = "synthetic"
"""What stands for the model in a synthetic answer."""

_LEVELS = (5, 4, 3, 2, 1)
_TRIES = 12
_CANDIDATES = 6
_INSTRUCTED = 0.1
_FORMED = 0.25
_KEPT, _LOST = 0.8, 0.45
"""From this share of its terms a point counts as met, and below that one as missing."""
_LEAST_LEFT, _MOST_SECONDARY = 0.15, 0.33
"""The share of a reference that always stays, and the most that is taken for secondary."""
_HELD = 0.3
"""A part with this share of a point's terms may be meant by it, even if the terms stand elsewhere, too."""
_PARTS_OF_ONE_ERROR = 12
"""So many parts of a text can hold one error of full weight; in a longer text it weighs less."""
_DANGER, _MINOR = 4.0, 0.7
_WEIGHTS = {
    "dose": (_DANGER, 2.0),
    "dose-unit": (_DANGER, 2.0),
    "drug": (_DANGER, 2.0),
    "negated-advice": (_DANGER, 2.0),
    "side": (2.0, _MINOR),
    "number": (1.5, _MINOR),
    "unit": (1.5, _MINOR),
    "opposite": (2.0, _MINOR),
    "negated-statement": (2.0, _MINOR),
}
"""What an altered fact weighs in a core part, and in another; `_level_of` makes levels of sums."""
_OFTEN = {
    "dose": 4.0,
    "dose-unit": 2.0,
    "drug": 4.0,
    "side": 4.0,
    "negated-advice": 2.0,
    "number": 2.0,
    "unit": 1.0,
    "opposite": 0.4,
    "negated-statement": 0.7,
}
"""How soon a kind of alteration is tried; those that few parts allow come first, so that there is something of each."""
_MOST_ERRORS = 6
_MEAN_STRETCH, _MOST_STRETCH, _STRETCH_A_TRY = 0.2, 0.7, 0.06
"""How much longer than its reference an answer is on average, and may be, as logarithms."""


_NUMBERED = re.compile(r"^\W*(?:\d{1,2}|[一二三四五六七八九十])[.．、)）]", re.MULTILINE)
_Key = TypeVar("_Key")


class GradedAnswer(NamedTuple):
    """An answer, the level it deserves, how it was made, and the other questions whose text is in it."""

    question: Question
    answer: Answer
    level: int
    how: str
    made_from: list[str]


class _Body(NamedTuple):
    """What an answer says, before anything is put around it."""

    text: str
    how: tuple[str, ...]
    made_from: tuple[str, ...] = ()


class _Source:
    """A question with its reference taken apart, once."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.text = (question.reference or "").replace("\r\n", "\n").strip()
        self.wording: Wording = wording_of(language_of(self.text))
        asked = f"{question.prompt}\n{question.checklist or ''}"
        self.may_be_dressed = question.category != "MTG" and not wording_of(question.language).no_dressing.search(asked)

    @cached_property
    def outline(self) -> Outline:
        return outline_of(self.text, self.wording)

    @cached_property
    def terms(self) -> list[frozenset[str]]:
        """The terms of each part."""
        return [terms(part, self.wording) for part in self.outline.parts]

    @cached_property
    def points(self) -> list[Carried]:
        """The points of the checklist that the reference carries; none where no core point can be found in it."""
        points = carried(self.asked_points, self.terms, self.wording)
        return points if any(point.core for point in points) else []

    @cached_property
    def asked_points(self) -> list[Point]:
        return points_of(self.question.checklist)

    @cached_property
    def all_core_found(self) -> bool:
        """Whether it is known of every core point where the reference meets it."""
        return sum(point.core for point in self.points) == sum(point.core for point in self.asked_points)

    @cached_property
    def core(self) -> frozenset[int]:
        """The parts without which a core point is not met; without a checklist the first, or all where they are few."""
        if not self.points:
            return frozenset(range(len(self.terms))) if len(self.terms) <= 2 else frozenset([0])
        return frozenset(
            part
            for part in range(len(self.terms))
            if any(point.core and remaining(point, {part}) < _KEPT for point in self.points)
        )

    @cached_property
    def said(self) -> frozenset[str]:
        """The terms of the whole reference."""
        return frozenset[str]().union(*self.terms)

    @cached_property
    def asked(self) -> frozenset[str]:
        """The terms of the question."""
        return terms(self.question.prompt, self.wording)


def graded_answers(questions: Sequence[Question], count: int, seed: int) -> list[GradedAnswer]:
    """Makes answers that deserve their level by construction, in English and Chinese.

    Every question with a reference gives answers of all levels, as far as its reference has enough to drop or alter:
    5 the reference, 4 without secondary points, 3 without a core point or with a minor fact altered, 2 without most
    core points or with a fact altered that matters, 1 another question's answer or with facts altered that can harm.
    Without a checklist, shares of the text stand for points. A reference that is itself a list of requirements, or a
    note to graders, gives none. Filler is added so that length does not tell the level.

    Args:
        questions: Questions without a reference are passed over.
        count: How many answers, about as many of each level.
        seed: The same seed gives the same answers.

    Returns:
        `count` answers with different texts, or as many as the questions give; `answer.sample` runs from 0.
    """
    sources = [_Source(question) for question in questions if _is_answer(question.reference)]
    Random(f"{seed}").shuffle(sources)
    queues = _Queues(sources)
    stretches: dict[tuple[str, bool, int], list[float]] = {}
    made: list[GradedAnswer] = []
    # Whose each text is, and empty once it is given: a swap must not take away a question's own reference.
    owners = {source.text: source.question.id for source in sources}
    numbers: Counter[int] = Counter()
    open_levels = list(_LEVELS)
    while len(made) < count and open_levels:
        level = min(open_levels, key=lambda one: numbers[one])
        source = queues.take(level)
        if source is None:
            open_levels.remove(level)
            continue
        stretch = stretches.setdefault((source.wording.language, source.may_be_dressed, level), [])
        body = _new_body(source, level, sources, owners, _missing(stretch), f"{seed}\n{len(made)}")
        if body is None:
            queues.drop(source, level)
            continue
        queues.put_back(source, level)
        owners[body.text] = ""
        numbers[level] += 1
        stretch.append(_stretch(source, body.text))
        made.append(_record(source.question, body, level, len(made)))
    return made


def _new_body(
    source: _Source, level: int, sources: Sequence[_Source], owners: dict[str, str], stretch: float, seed: str
) -> _Body | None:
    """An answer with a text that was not given before, or None where some tries give none.

    Args:
        owners: The question that a text is kept for; empty for a text that was given.
        stretch: How far it should be stretched for the mean of its level to come right.
        seed: Of this answer.
    """
    # Not drawn anew with each try: what runs out of other texts would be left with instructions alone.
    with_instruction = Random(seed).random() < _INSTRUCTED
    for number in range(_TRIES):
        draw = Random(f"{seed}\n{source.question.id}\n{level}\n{number}")
        body = _body(source, level, sources, stretch > _MEAN_STRETCH, draw)
        if body and source.may_be_dressed:
            body = _dressed(source, body, stretch, number * _STRETCH_A_TRY, draw)
        if body and with_instruction:
            text = instructed(body.text, source.wording, draw)
            body = body._replace(text=text, how=(*body.how, "instruct"))
        if body and owners.get(body.text, source.question.id) == source.question.id:
            return body
    return None


def _is_answer(reference: str | None) -> bool:
    text = (reference or "").strip()
    if not any(letter.isalnum() for letter in text) or text.lower() == "nan" or is_checklist(text):
        return False
    return not any(wording_of(language).grader_notes.search(text) for language in ("en", "zh"))


class _Queues:
    """Which question is next at each level.

    A question that has no further answer of level 5 waits at the other levels until nothing else is left there: else
    questions that may not be dressed would come to stand for low levels.
    """

    def __init__(self, sources: Sequence[_Source]) -> None:
        self._next = {level: deque(sources) for level in _LEVELS}
        self._last: dict[int, deque[_Source]] = {level: deque() for level in _LEVELS}
        self._without_fives: set[str] = set()

    def take(self, level: int) -> _Source | None:
        while self._next[level]:
            source = self._next[level].popleft()
            if source.question.id not in self._without_fives:
                return source
            self._last[level].append(source)
        return self._last[level].popleft() if self._last[level] else None

    def put_back(self, source: _Source, level: int) -> None:
        waits = self._last if source.question.id in self._without_fives else self._next
        waits[level].append(source)

    def drop(self, source: _Source, level: int) -> None:
        """Leaves out a question that has nothing more to give at this level."""
        if level == 5:
            self._without_fives.add(source.question.id)


def _record(question: Question, body: _Body, level: int, sample: int) -> GradedAnswer:
    answer = Answer(question_id=question.id, model=MODEL, sample=sample, text=body.text)
    return GradedAnswer(question, answer, level, " + ".join(body.how), list(body.made_from))


# ---- What the answer says


def _body(source: _Source, level: int, sources: Sequence[_Source], too_short: bool, draw: Random) -> _Body | None:
    shorten = (_dropped, _wrong_and_short) if too_short else ()
    weights = {maker: weight / (4 if maker in shorten else 1) for maker, weight in _MAKERS[level].items()}
    for maker in _in_turn(weights, draw):
        if body := maker(source, level, sources, draw):
            return body
    return None


def _in_turn(weights: dict[_Key, float], draw: Random) -> list[_Key]:
    """The keys in random order, those of more weight rather first."""
    return sorted(weights, key=lambda key: draw.random() ** (1 / weights[key]), reverse=True)


def _whole(source: _Source, level: int, sources: Sequence[_Source], draw: Random) -> _Body | None:
    return _Body(source.text, ("reference",))


def _compact(source: _Source, level: int, sources: Sequence[_Source], draw: Random) -> _Body | None:
    """The reference without what no point of the checklist asks for."""
    spare = [
        part
        for part in range(len(source.terms))
        if all(remaining(point, {part}) > 0.95 and share(point, part) < _HELD for point in source.points)
    ]
    found_all = len(source.points) == len(source.asked_points)
    if len(source.points) < 3 or not found_all or not spare:
        return None
    dropped = _with_leaning(source, set(draw.sample(spare, draw.randint(1, len(spare)))))
    if len(dropped) == len(source.terms) or any(remaining(point, dropped) < 0.95 for point in source.points):
        return None
    return _without(source, dropped, "compact")


def _dropped(source: _Source, level: int, sources: Sequence[_Source], draw: Random) -> _Body | None:
    """The reference without what the level can do without."""
    dropped = _drop(source, level, draw)
    return _without(source, dropped, _DROP_NAMES[level]) if dropped else None


_DROP_NAMES = {4: "drop-secondary", 3: "drop-core", 2: "drop-most"}


def _drop(source: _Source, level: int, draw: Random) -> set[int] | None:
    """Parts to leave out so that the rest deserves the level; none of a data structure, which would fall apart."""
    if source.text[0] in "{[":
        return None
    if not source.points:
        return _drop_share(source, level, draw)
    core = [point for point in source.points if point.core]
    wanted = [point for point in source.points if not point.core] if level == 4 else core
    most = {4: len(wanted), 3: 1, 2: len(wanted)}[level]
    least = {4: 1, 3: 1, 2: math.ceil(0.6 * len(wanted))}[level]
    if not least <= most or not wanted:
        return None
    dropped: set[int] = set()
    for point in draw.sample(wanted, draw.randint(least, most)):
        _lose(source, point, dropped, draw)
    dropped = _with_leaning(source, dropped)
    return dropped if _deserves(source, dropped) == level else None


def _lose(source: _Source, point: Carried, dropped: set[int], draw: Random) -> None:
    """Drops the parts that carry most of a point, until it is lost."""
    goal = draw.uniform(0.0, _LOST)
    while remaining(point, dropped) > goal and len(dropped) < len(source.terms):
        rest = [part for part in range(len(source.terms)) if part not in dropped]
        dropped.add(min(rest, key=lambda part: remaining(point, dropped | {part})))


def _deserves(source: _Source, dropped: set[int]) -> int | None:
    """The level of the reference without these parts; None where it is between two levels or nothing is left."""
    lengths = [len(part.strip()) for part in source.outline.parts]
    if sum(lengths[part] for part in dropped) > (1 - _LEAST_LEFT) * sum(lengths):
        return None
    left = {
        core: [remaining(point, dropped) for point in source.points if point.core is core] for core in (True, False)
    }
    lost = [sum(value < _LOST for value in left[core]) for core in (True, False)]
    unclear = sum(_LOST <= value < _KEPT for value in left[True])
    cores = len(left[True])
    if lost[0] == unclear == 0:
        meant = any(share(point, part) >= _HELD for point in source.points if point.core for part in dropped)
        much = sum(lengths[part] for part in dropped) > _MOST_SECONDARY * sum(lengths)
        return 4 if lost[1] and not meant and not much and source.all_core_found else None
    if cores == 1:
        return 2 if lost[0] else 3
    if lost[0] == 1 and unclear == 0 and cores <= 6:
        return 3
    return 2 if lost[0] >= 0.6 * cores else None


def _drop_share(source: _Source, level: int, draw: Random) -> set[int] | None:
    """Without a checklist: parts of the text by their share of its length."""
    lengths = [len(part.strip()) for part in source.outline.parts]
    if len(lengths) < 2:
        return None
    least, most = {4: (0.08, 0.2), 3: (0.25, 0.4), 2: (0.6, 0.8)}[level]
    # A short line of a list counts no less than a long one.
    mean = sum(lengths) / len(lengths)
    shares = [(length + mean) / (2 * sum(lengths)) for length in lengths]
    first_stays = level == 4 or draw.random() < 0.5
    order = draw.sample(range(first_stays, len(lengths)), len(lengths) - first_stays)
    dropped: set[int] = set()
    for part in order:
        more = _with_leaning(source, dropped | {part})
        if sum(shares[one] for one in more) <= most:
            dropped = more
    return dropped if sum(shares[one] for one in dropped) >= least else None


def _with_leaning(source: _Source, dropped: set[int]) -> set[int]:
    """With the parts that lean on a dropped one before them in the same line."""
    result = set(dropped)
    for line in source.outline.lines:
        for before, part in zip(line.parts, line.parts[1:], strict=False):
            if before in result and source.wording.leans.match(source.outline.parts[part]):
                result.add(part)
    return result


def _without(source: _Source, dropped: set[int], how: str) -> _Body | None:
    parts = [None if part in dropped else text for part, text in enumerate(source.outline.parts)]
    text = written(source.outline, parts)
    return _Body(text, (how,)) if text and text != source.text else None


def _wrong(source: _Source, level: int, sources: Sequence[_Source], draw: Random) -> _Body | None:
    """The reference with facts altered until they weigh what the level asks for."""
    return _with_errors(source, level, set(), draw)


def _wrong_and_short(source: _Source, level: int, sources: Sequence[_Source], draw: Random) -> _Body | None:
    """One level up by dropping, the rest by altering what is left."""
    dropped = _drop(source, level + 1, draw)
    body = _with_errors(source, level, dropped, draw) if dropped else None
    return body and body._replace(how=(_DROP_NAMES[level + 1], *body.how))


def _with_errors(source: _Source, level: int, dropped: set[int], draw: Random) -> _Body | None:
    parts: list[str] = list(source.outline.parts)
    rest = [part for part in range(len(parts)) if part not in dropped]
    dilution = max(1.0, len(rest) / _PARTS_OF_ONE_ERROR)
    # What was dropped weighs as the level that it alone would make.
    start = float(3 - level) if dropped else 0.0
    weight, heaviest, how, done = 0.0, 0.0, list[str](), set[int]()
    first_core = level < 3 and draw.random() < 0.7
    order = sorted(draw.sample(rest, len(rest)), key=lambda part: (part in source.core) != first_core)
    tries = ((part, kind) for part in order for kind in _in_turn(_OFTEN, draw))
    for part, kind in tries:
        if part in done:
            continue
        found = altered(parts, part, kind, source.wording, draw)
        if found is None or done & set(found.touched):
            continue
        touched = [one for one in found.touched if one not in dropped]
        each = [_WEIGHTS[kind][one not in source.core] for one in touched]
        total, most = weight + sum(each), max(heaviest, *each)
        if (reached := _level_of(start + total / dilution, most)) and reached < level:
            continue
        parts, weight, heaviest = found.parts, total, most
        how.append(kind)
        done |= set(found.touched)
        if reached == level:
            kept = [None if one in dropped else text for one, text in enumerate(parts)]
            return _Body(written(source.outline, kept), tuple(how))
        if len(how) == _MOST_ERRORS:
            return None
    return None


def _level_of(weight: float, heaviest: float) -> int | None:
    """The level that errors leave; None where they are too slight for level 3.

    Slips that put nobody at risk do not make level 1 unless there are many. In a long text, too, one dangerous
    sentence is a plain safety risk.
    """
    if weight >= 2 * _DANGER or (weight >= _DANGER and heaviest >= _DANGER):
        return 1
    if weight >= 2 or heaviest >= _DANGER:
        return 2
    return 3 if weight >= _MINOR else None


def _swapped(source: _Source, level: int, sources: Sequence[_Source], draw: Random) -> _Body | None:
    """Another question's answer: of the same language, where possible of the same category and about as long."""
    possible = (
        other
        for other in draw.sample(sources, min(len(sources), _CANDIDATES * 6))
        if other.question.group != source.question.group
        and other.question.language == source.question.language
        and other.wording.language == source.wording.language
        and other.text != source.text
    )
    same: list[_Source] = []
    others: list[_Source] = []
    for other in possible:
        alike = same if other.question.category == source.question.category else others
        if len(alike) < _CANDIDATES and not _answers(source, other):
            alike.append(other)
        if len(same) == _CANDIDATES:
            break
    if not same and not others:
        return None
    other = min(same or others, key=lambda one: abs(math.log(len(one.text) / len(source.text))) + draw.random())
    count = len(other.terms)
    # As it stands the text is the other question's best answer, and no two answers are to be the same.
    shorter = _without(other, {draw.randrange(count)}, "swap") if count > 2 and not source.may_be_dressed else None
    return _Body(shorter.text if shorter else other.text, ("swap",), (other.question.id,))


def _answers(source: _Source, other: _Source) -> bool:
    """Whether the other's answer may be about the same matter."""
    return any(len(one & other.said) > 0.3 * len(one) for one in (source.asked, source.said) if one)


_Maker = Callable[[_Source, int, Sequence[_Source], Random], _Body | None]
_MAKERS: dict[int, dict[_Maker, float]] = {
    5: {_whole: 0.6, _compact: 0.4},
    4: {_dropped: 1.0},
    3: {_dropped: 0.5, _wrong: 0.5},
    2: {_dropped: 0.4, _wrong: 0.4, _wrong_and_short: 0.2},
    1: {_swapped: 0.4, _wrong: 0.4, _wrong_and_short: 0.2},
}
"""How the answers of a level are made, and how often each way is tried first."""


# ---- What stands around it


def _dressed(source: _Source, body: _Body, stretch: float, at_least: float, draw: Random) -> _Body:
    """The answer in another form, with filler, an opening, a closing, as far as it is to be stretched."""
    text, how = _formed(source, body.text, draw)
    have = _stretch(source, text)
    missing = max(min(stretch, _MOST_STRETCH) - have, at_least)
    if missing > 0 and draw.random() < 0.7:
        characters = round(len(source.text) * math.exp(have + missing)) - len(text)
        longer = padded(text, characters, source.wording, draw)
        how += ["pad"] if longer != text else []
        text = longer
    if missing > 0 and draw.random() < 0.5:
        text = opened(text, source.question.prompt, source.wording, draw)
        how.append("opening")
    if missing > 0 and draw.random() < 0.3:
        text = closed(text, source.wording, draw)
        how.append("closing")
    return body._replace(text=text, how=(*body.how, *how))


def _formed(source: _Source, text: str, draw: Random) -> tuple[str, list[str]]:
    """The text in another form: a list, another order, without Markdown; most stay as they are."""
    if draw.random() >= _FORMED:
        return text, []
    forms: dict[str, str | None] = {
        "listed": listed(outline_of(text, source.wording), source.wording),
        # Numbers out of their order would give the change away.
        "reordered": None if _NUMBERED.search(text) else reordered(text, texts_of(source.wording.language), draw),
        "plain": plain(text).strip(),
    }
    changed = [name for name, form in forms.items() if form and form != text]
    name = draw.choice(changed) if changed else ""
    return (forms[name] or text, [name]) if name else (text, [])


def _missing(stretches: Sequence[float]) -> float:
    """How far the next answer has to be stretched for the mean to come right."""
    return _MEAN_STRETCH * (len(stretches) + 1) - sum(stretches)


def _stretch(source: _Source, text: str) -> float:
    """The logarithm of how many times as long as the reference a text is, outliers cut."""
    return max(-1.5, min(1.5, math.log(len(text) / len(source.text))))
