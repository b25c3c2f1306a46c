"""Points of checklists and passages in other words that meet, leave open or contradict them; by several authors.

Claims made by rule and HealthVer's claims teach what a change of a fact is, and what research supports. These teach how
an answer says, denies or passes over what an expert demands of it.
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import yaml
from reader_examples import Example

_VERDICTS = ("met", "open", "contradicted")
_OPEN = _VERDICTS.index("open")
_IN_COMPANY = "in company"


def other_words() -> list[Example]:
    """Three passages for each point of `reader_words.yaml`; the source `words/AUTHOR` names the author by number."""
    authors = yaml.safe_load((Path(__file__).parent / "reader_words.yaml").read_text(encoding="utf-8"))
    return [
        Example(
            prompt="",
            reference=entry["point"],
            checklist="",
            answer=entry[name],
            language=author["language"],
            label=None,
            verdict=verdict,
            group=f"words-{number}-{at}",
            source=f"words/{number}",
        )
        for number, author in enumerate(authors)
        for at, entry in enumerate(author["entries"])
        for verdict, name in enumerate(_VERDICTS)
    ]


def in_company(examples: Sequence[Example], seed: int) -> list[Example]:
    """The same passages beside another one, as they stand in an answer; source `words in company/AUTHOR`.

    A passage that meets or contradicts a point stands beside the one that leaves it open; that one, beside a passage
    of another point. Two passages of other points leave it open too: alone, a passage that leaves a point open
    shares more words with it than one that meets it, which is seldom so in answers.

    Args:
        examples: What `other_words` gives.
        seed: Of the order and of the other points.
    """
    draw, found = Random(f"{seed}-words"), []
    of_author: dict[str, list[Example]] = {}
    for example in examples:
        of_author.setdefault(example.source, []).append(example)
    open_of = {example.group: example for example in examples if example.verdict == _OPEN}

    def beside(example: Example, *passages: str) -> Example:
        space = " " if example.language == "en" else ""
        answer = space.join(draw.sample(passages, len(passages)))
        return example._replace(answer=answer, source=example.source.replace("/", f" {_IN_COMPANY}/"))

    for example in examples:
        others = [other.answer for other in of_author[example.source] if other.group != example.group]
        if example.verdict == _OPEN:
            found.append(beside(example, example.answer, draw.choice(others)))
            found.append(beside(example, *draw.sample(others, 2)))
        else:
            found.append(beside(example, example.answer, open_of[example.group].answer))
    return found


def is_in_company(examples: Sequence[Example]) -> np.ndarray:
    """Which of the examples stand beside another passage, (n,)."""
    return np.array([_IN_COMPANY in example.source for example in examples])


def authors_of(examples: Sequence[Example]) -> np.ndarray:
    """The number of each example's author, (n,)."""
    return np.array([int(example.source.split("/")[1]) for example in examples])
