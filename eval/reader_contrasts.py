"""Pairs of statements that exclude each other, with passages in other words that say one of them; by several authors.

Each subject has three facts, each of them a statement, its opposite, and a passage for either. The passage of a
statement meets it, contradicts its opposite, and leaves the other two facts open. So neither a statement nor a passage
tells the verdict by itself (contrast sets; Gardner et al., 2020).
"""

import json
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from random import Random
from typing import NamedTuple

from reader_claims import CONTRADICTED, OPEN, SUPPORTED
from reader_examples import Example

FOLDER = Path(__file__).parent / "reader_contrasts"
HELD_OUT = ("en-test", "zh-test")
"""Authors that the layers never learn from. One in five of their subjects fits the verdicts' weights; the others are
measured."""
_OTHER_SUBJECT = 0.5
"""The share of the answers of several passages that also have one about another subject."""


class Fact(NamedTuple):
    """A statement and its opposite, and a passage that says the one or the other, in this order."""

    statements: tuple[str, str]
    passages: tuple[str, str]


class Subject(NamedTuple):
    """Three facts about one thing, independent of each other."""

    name: str
    author: str
    language: str
    facts: list[Fact]


def subjects(folder: Path = FOLDER) -> list[Subject]:
    """All subjects; a file for each author, whose name begins with the language."""
    return [
        Subject(entry["subject"], path.stem, path.stem[:2], [Fact((a, b), (c, d)) for a, b, c, d in entry["facts"]])
        for path in sorted(folder.glob("*.jsonl"))
        for entry in map(json.loads, path.read_text(encoding="utf-8").splitlines())
    ]


def contrasts(some: Sequence[Subject], seed: int) -> list[Example]:
    """Statements beside single passages, source `contrasts/AUTHOR`, and beside several, `contrasts in company/AUTHOR`.

    As many are met as are contradicted and left open.
    """
    by_author: dict[str, list[Subject]] = {}
    for subject in some:
        by_author.setdefault(subject.author, []).append(subject)
    examples: list[Example] = []
    for author, own in by_author.items():
        for number, subject in enumerate(own):
            draw, others = Random(f"{seed} {author} {number}"), [*own[:number], *own[number + 1 :]]
            for answer, stated in [*_single(subject), *_several(subject, others, draw)]:
                source = f"contrasts{'' if len(stated) == 1 else ' in company'}/{author}"
                for statement, verdict in _verdicts(subject, stated, draw):
                    group = f"contrasts-{author}-{number}"
                    examples.append(Example("", statement, "", answer, subject.language, None, verdict, group, source))
    return examples


_Stated = dict[int, int]
"""Which version an answer states, by the number of the fact."""


def _single(subject: Subject) -> Iterator[tuple[str, _Stated]]:
    for number, fact in enumerate(subject.facts):
        for version, passage in enumerate(fact.passages):
            yield passage, {number: version}


def _several(subject: Subject, others: Sequence[Subject], draw: Random) -> Iterator[tuple[str, _Stated]]:
    """Answers of two passages, and sometimes one about another subject; each passage stands in two of them."""
    space = " " if subject.language == "en" else ""
    for first, second in combinations(range(len(subject.facts)), 2):
        turned = draw.randrange(2)
        for version in range(2):
            stated = {first: version, second: version ^ turned}
            passages = [subject.facts[number].passages[own] for number, own in stated.items()]
            if draw.random() < _OTHER_SUBJECT:
                passages.append(draw.choice(draw.choice(draw.choice(others).facts).passages))
            yield space.join(draw.sample(passages, len(passages))), stated


def _verdicts(subject: Subject, stated: _Stated, draw: Random) -> Iterator[tuple[str, int]]:
    """Statements beside an answer: of each fact that it states both, of as many that it leaves open one."""
    for number, version in stated.items():
        statements = subject.facts[number].statements
        yield statements[version], SUPPORTED
        yield statements[1 - version], CONTRADICTED
    left_open = [
        statement for number, fact in enumerate(subject.facts) if number not in stated for statement in fact.statements
    ]
    for statement in draw.sample(left_open, min(len(stated), len(left_open))):
        yield statement, OPEN
