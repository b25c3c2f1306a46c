"""Answers made of a reference's own sentences, so that the verdict on each of its points is known.

A judge must call a reference usable that is handed in as the answer, however long, and see which sentence of it is
missing or changed.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Literal, NamedTuple

from medjudge.distill.alterations import ALTERATIONS, altered
from medjudge.distill.sources import Source
from medjudge.judge.ordinal_input import points_of
from medjudge.records import Question
from medjudge.text.outline import written
from medjudge.text.reordering import reordered

How = Literal["same", "reordered", "shortened", "changed", "other"]
Verdict = Literal["met", "open", "contradicted"]
_HOW: tuple[How, ...] = ("same", "reordered", "shortened", "changed", "other")
_SHARES = (3, 1, 3, 5, 2)
_LEVEL_BY_SHARE = ((0.99, 5), (0.8, 4), (0.45, 3), (0.2, 2), (0.0, 1))


class Copy(NamedTuple):
    """An answer, the probabilities of its five levels, and the verdict on each point, where that is known."""

    question: Question
    answer: str
    levels: tuple[float, ...]
    verdicts: list[Verdict | None]


def composite(questions: Sequence[Question], draw: Random) -> Question:
    """Several questions as one, whose reference is a numbered list of theirs."""
    numbered = [f"{number}. {question.reference}" for number, question in enumerate(questions, 1)]
    headings = draw.random() < 0.5
    parts = [
        f"**{question.prompt}**\n{question.reference}" if headings else line
        for question, line in zip(questions, numbered, strict=True)
    ]
    prompt = "\n".join(question.prompt for question in questions)
    return questions[0].model_copy(update={"prompt": prompt, "reference": "\n\n".join(parts)})


def copies(questions: Sequence[Question], asides: dict[str, list[str]], seed: int) -> Iterator[Copy]:
    """One answer to each question; `asides` are harmless lines by language, which are put around some of them."""
    for number, question in enumerate(questions):
        draw = Random(f"{seed}-copies-{number}")
        how = draw.choices(_HOW, _SHARES)[0]
        made = _copy(question, questions[draw.randrange(len(questions))], how, draw)
        if made is None:
            continue
        if draw.random() < 0.4:
            lines = draw.sample(asides[question.language], draw.randint(1, 4))
            place = draw.randint(0, len(lines))
            made = made._replace(answer="\n\n".join([*lines[:place], made.answer, *lines[place:]]))
        yield made


def _copy(question: Question, other: Question, how: How, draw: Random) -> Copy | None:
    source, points = Source(question), points_of(question)
    listed = [point.source == "checklist" for point in points]
    if how == "other":
        if other.language != question.language or other.group == question.group:
            return None
        return Copy(question, other.reference or "", (0.9, 0.1, 0.0, 0.0, 0.0), ["open"] * len(points))
    if how in ("same", "reordered"):
        text = source.text if how == "same" else reordered(source.text, source.wording.grammar, draw)
        return Copy(question, text, (0.0, 0.0, 0.0, 0.1, 0.9), ["met"] * len(points))
    if how == "shortened":
        kept = [in_list or draw.random() < draw.choice((0.3, 0.6, 0.85)) for in_list in listed]
        of_reference = [point.text for point, keep, in_list in zip(points, kept, listed, strict=True) if keep > in_list]
        share = len("".join(of_reference)) / max(1, sum(len(p.text) for p, i in zip(points, listed, strict=True) if not i))
        if not of_reference:
            return None
        level = next(level for least, level in _LEVEL_BY_SHARE if share >= least)
        verdicts: list[Verdict | None] = [
            None if in_list and share < 0.99 else "met" if keep else "open"
            for keep, in_list in zip(kept, listed, strict=True)
        ]
        return Copy(question, "\n".join(of_reference), _around(level), verdicts)
    return _changed(question, source, draw)


def _changed(question: Question, source: Source, draw: Random) -> Copy | None:
    """The reference with one to three facts altered; None where it has none to alter."""
    parts, done, facts = list(source.outline.parts), set[int](), draw.randint(1, 3)
    for part in draw.sample(range(len(parts)), len(parts)):
        for kind in draw.sample(list(ALTERATIONS), len(ALTERATIONS)):
            change = altered(parts, part, kind, source.wording, draw)
            if facts and change is not None and not done & set(change.touched):
                parts, facts = change.parts, facts - 1
                done |= set(change.touched)
    if not done:
        return None
    text = written(source.outline, parts)
    plain = "".join(text.split())
    verdicts: list[Verdict | None] = [
        None if point.source == "checklist" else "met" if "".join(point.text.split()) in plain else "contradicted"
        for point in points_of(question)
    ]
    return Copy(question, text, (0.3, 0.5, 0.2, 0.0, 0.0), verdicts)


def _around(level: int) -> tuple[float, ...]:
    near = [each for each in (level - 1, level + 1) if 1 <= each <= 5]
    return tuple(0.8 if each == level else 0.2 / len(near) if each in near else 0.0 for each in range(1, 6))
