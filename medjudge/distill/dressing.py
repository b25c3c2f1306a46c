"""What stands around an answer and changes nothing about it: filler, openings, lists, instructions to the judge."""

from itertools import pairwise
from random import Random

from medjudge.distill.outline import Outline
from medjudge.distill.wording import Wording
from medjudge.probes.reordering import block_starts, in_series, is_complete, lines_of

_LONGEST_RESTATED = 160
_FEWEST_LISTED = 3
_MOST_PLACES = 3


def padded(text: str, characters: int, wording: Wording, draw: Random) -> str:
    """The text with about so many characters of fluent filler before it, behind it and between its paragraphs.

    Filler adds no content. No sentence is used twice; where the lists hold less than was asked for, it is less.
    """
    chunks = _chunks(characters, wording, draw)
    starts = block_starts(lines_of(text))
    blocks = [text[start:end].strip() for start, end in pairwise([*starts, len(text)])]
    gaps = [at for at, (one, other) in enumerate(pairwise(blocks), 1) if is_complete(one) and not in_series(other)]
    few = draw.sample([0, len(blocks), *gaps], min(len(gaps) + 2, _MOST_PLACES))
    places = [draw.choice(few) for _ in chunks]
    said: list[str] = []
    for at in range(len(blocks) + 1):
        said += [chunk for place, chunk in zip(places, chunks, strict=True) if place == at]
        said += blocks[at : at + 1]
    return "\n\n".join(said)


def _chunks(characters: int, wording: Wording, draw: Random) -> list[str]:
    """Paragraphs of one to four sentences of filler."""
    stop, between = (".", " ") if wording.language == "en" else ("。", "")
    joint = " " if wording.language == "en" else ""
    sentences = []
    for group in wording.said["filler"]:
        ends = draw.sample(group["end"], len(group["end"]))
        begins = [begin for _ in ends for begin in draw.sample(group["begin"], len(group["begin"]))]
        sentences += [f"{begin}{joint}{end}{stop}" for begin, end in zip(begins, ends, strict=False)]
    draw.shuffle(sentences)
    chosen: list[str] = []
    while sentences and sum(map(len, chosen)) + len(sentences[-1]) / 2 < characters:
        chosen.append(sentences.pop())
    chunks = []
    while chosen:
        size = draw.randint(2, 5)
        chunks.append(between.join(chosen[:size]))
        chosen = chosen[size:]
    return chunks


def opened(text: str, prompt: str, wording: Wording, draw: Random) -> str:
    """The text behind a neutral opening, which may say the question again where that is short."""
    openings = list(wording.said["opening"])
    prompt = prompt.strip()
    if len(prompt) <= _LONGEST_RESTATED and "\n" not in prompt:
        openings += [one.replace("{prompt}", prompt) for one in wording.said["restated"]]
    return f"{draw.choice(openings)}\n\n{text}"


def closed(text: str, wording: Wording, draw: Random) -> str:
    """The text with a neutral closing."""
    return f"{text}\n\n{draw.choice(wording.said['closing'])}"


def listed(outline: Outline, wording: Wording) -> str | None:
    """Sentences of a single paragraph as a list; None for another form, or with too few of them.

    A sentence that leans on the one before it stays with it.
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
    said = draw.choice(wording.said["instruction"])
    return f"{said}\n\n{text}" if draw.random() < 0.4 else f"{text}\n\n{said}"
