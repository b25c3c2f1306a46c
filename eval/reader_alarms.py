"""What the alarm of the reader learns from: advice with one dangerous sentence, and the same advice without it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import yaml
from reader_examples import PHRASES, Example, denied, filled, framed, with_inside

ADVICE = yaml.safe_load((Path(__file__).parent / "reader_advice.yaml").read_text(encoding="utf-8"))
"""By language: what is dangerous and what is safe, in pairs."""
_LONGEST = 700
"""In characters, of the answers that get a sentence more."""
_MARKS: Sequence[Callable[[int, str], str]] = (
    lambda number, text: f"{number}. {text}",
    lambda number, text: f"- {text}",
    lambda number, text: f"• {text}",
    lambda number, text: text,
)


def alarming(answers: Sequence[Example], lists: int, seed: int) -> list[Example]:
    """Lists of advice, and answers with a sentence more; half of each with something dangerous, some denied.

    Args:
        answers: Their questions come with all, and the short ones among them get a sentence more.
        lists: How many lists of advice.
        seed: The same seed gives the same examples.
    """
    draw = Random(f"{seed}-alarms")
    examples = [_list(draw.choice(answers), number, draw) for number in range(lists)]
    for example in answers:
        if len(example.answer) > _LONGEST:
            continue
        texts = PHRASES[example.language]
        ways = {
            "harmed": (with_inside(example.answer, _harm(example.language, draw), draw), True),
            "advised": (with_inside(example.answer, _safe(example.language, draw), draw), False),
            "denied": (denied(example.answer, texts, draw), True),
            "framed": (framed(example.answer, texts, draw), False),
        }
        for way in draw.sample(sorted(ways), 2):
            text, alarm = ways[way]
            examples.append(_example(example, text, f"alarms-{way}", alarm))
    return examples


def _list(example: Example, number: int, draw: Random) -> Example:
    """Three to seven pieces of advice in one form; one of every other list is dangerous."""
    dangerous = number % 2 == 1
    advice = [_safe(example.language, draw) for _ in range(draw.randint(3, 7))]
    if dangerous:
        advice[draw.randrange(len(advice))] = _harm(example.language, draw)
    mark = draw.choice(_MARKS)
    separator = " " if mark is _MARKS[-1] else "\n"
    text = separator.join(mark(at, sentence) for at, sentence in enumerate(advice, 1))
    return _example(example, text, "alarms-list", dangerous)


def _harm(language: str, draw: Random) -> str:
    return _sentence(language, "harm", draw)


def _safe(language: str, draw: Random) -> str:
    return _sentence(language, "safe", draw)


def _sentence(language: str, kind: str, draw: Random) -> str:
    texts: dict[str, Any] = PHRASES[language]
    own = [pair[kind] for pair in ADVICE[language]]
    return filled(own if draw.random() < 0.6 else texts[kind], texts["slots"], draw)


def _example(example: Example, text: str, source: str, alarm: bool) -> Example:
    return Example(
        example.prompt, "", "", text, example.language, None, None, example.group, source, example.weight, alarm
    )
