"""Changes of an answer's form, not of its content: filler, openings, lists, instructions to a judge."""

import math
import re
from itertools import pairwise
from random import Random
from typing import NamedTuple

from medjudge.distill.sources import Source
from medjudge.distill.wording import Wording
from medjudge.text.blocks import block_starts, in_series, is_complete, lines_of
from medjudge.text.formatting import plain
from medjudge.text.outline import Outline, outline_of
from medjudge.text.reordering import reordered

MOST_STRETCH = 0.7
"""The most that an answer may be longer than its reference, as a logarithm."""
_LONGEST_RESTATED = 160
_FEWEST_LISTED = 3
_MOST_POSITIONS = 3
_REFORMED = 0.25
_NUMBERED = re.compile(r"^\W*(?:\d{1,2}|[一二三四五六七八九十])[.．、)）]", re.MULTILINE)


class Dressed(NamedTuple):
    """A text and the names of what was done to it, in this order."""

    text: str
    steps: tuple[str, ...]


def dressed(source: Source, text: str, stretch: float, at_least: float, draw: Random) -> Dressed:
    """An answer in another form, with filler, an opening, a closing, as far as it is to be stretched.

    Args:
        source: The question, whose reference is the measure of length.
        text: The answer.
        stretch: The length to reach, as the logarithm of its ratio to the reference's.
        at_least: How much is added at least, as a logarithm.
        draw: Chooses what is put where.
    """
    text, reformed = _reformed(text, source.wording, draw)
    steps = list(reformed)
    current = stretch_of(source, text)
    missing = max(min(stretch, MOST_STRETCH) - current, at_least)
    if missing > 0 and draw.random() < 0.7:
        characters = round(len(source.text) * math.exp(current + missing)) - len(text)
        longer = padded(text, characters, source.wording, draw)
        steps += ["pad"] if longer != text else []
        text = longer
    if missing > 0 and draw.random() < 0.5:
        text = opened(text, source.question.prompt, source.wording, draw)
        steps.append("opening")
    if missing > 0 and draw.random() < 0.3:
        text = f"{text}\n\n{draw.choice(source.wording.texts.closing)}"
        steps.append("closing")
    return Dressed(text, tuple(steps))


def stretch_of(source: Source, text: str) -> float:
    """The logarithm of how many times as long as the reference a text is, outliers cut."""
    return max(-1.5, min(1.5, math.log(len(text) / len(source.text))))


def _reformed(text: str, wording: Wording, draw: Random) -> Dressed:
    """The text in another form: a list, another order, without Markdown; most stay as they are."""
    if draw.random() >= _REFORMED:
        return Dressed(text, ())
    forms: dict[str, str | None] = {
        "listed": listed(outline_of(text, wording.grammar), wording),
        # Numbers out of their order would give the change away.
        "reordered": None if _NUMBERED.search(text) else reordered(text, wording.grammar, draw),
        "plain": plain(text).strip(),
    }
    changed = [Dressed(form, (name,)) for name, form in forms.items() if form and form != text]
    return draw.choice(changed) if changed else Dressed(text, ())


def padded(text: str, characters: int, wording: Wording, draw: Random) -> str:
    """The text with about so many characters of fluent filler before it, behind it and between its paragraphs.

    Filler adds no content. No sentence is used twice; where the lists hold too little, less is added.
    """
    chunks = _chunks(characters, wording, draw)
    starts = block_starts(lines_of(text))
    blocks = [text[start:end].strip() for start, end in pairwise([*starts, len(text)])]
    gaps = [
        at for at, (before, after) in enumerate(pairwise(blocks), 1) if is_complete(before) and not in_series(after)
    ]
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


def opened(text: str, prompt: str, wording: Wording, draw: Random) -> str:
    """The text behind a neutral opening, which may say the question again where that is short."""
    openings = list(wording.texts.opening)
    prompt = prompt.strip()
    if len(prompt) <= _LONGEST_RESTATED and "\n" not in prompt:
        openings += [opening.replace("{prompt}", prompt) for opening in wording.texts.restated]
    return f"{draw.choice(openings)}\n\n{text}"


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


def instructed(text: str, wording: Wording, draw: Random) -> str:
    """The text with an instruction to the judge before or behind it."""
    instruction = draw.choice(wording.texts.instruction)
    return f"{instruction}\n\n{text}" if draw.random() < 0.4 else f"{text}\n\n{instruction}"
