"""Probes: an answer's text is changed in a way that must not change its score.

A probe adds or removes form and claims, never medical content. Which variant of its texts an answer gets, and where, is
drawn from the seed and the answer's key.
"""

from collections.abc import Callable
from itertools import pairwise
from random import Random

from medjudge.errors import InputError
from medjudge.probes.formatting import plain
from medjudge.probes.reordering import block_starts, in_series, is_complete, lines_of, reordered
from medjudge.probes.texts import Texts, texts_of
from medjudge.records import Answer, Language, Question

PROBES: tuple[str, ...] = (
    "filler",
    "reordered",
    "plain",
    "instruction",
    "authority",
    "quoted-rubric",
    "language-wrapper",
    "doubled",
    "fluent-wrong",
)
FLUENT_WRONG = "fluent-wrong"
"""The one probe that may lower a score; only a rise to usable counts against the judge."""

_FORM_BROKEN = {"filler": "length", "reordered": "order", "plain": "form", "doubled": "length"}
"""What a question may ask for that the probe would break, as named under `asks_for` in the texts."""


def probed(question: Question, answer: Answer, probe: str, seed: int = 0, level: int | None = None) -> Answer | None:
    """The answer as a probe changes it, or None where the probe does not apply.

    A probe does not apply to an empty answer, nor where it finds nothing to strip or to move without changing the
    meaning. `filler`, `reordered`, `plain` and `doubled` leave out questions whose graders would rightly mark the
    change down: texts to be generated (MTG), and those that ask for a length, an order or a form.

    Args:
        question: The question; its language chooses the texts.
        answer: The answer to change.
        probe: One of `PROBES`.
        seed: Chooses among variants and places, together with the answer's key.
        level: The answer's level by physicians (or as constructed); `fluent-wrong` takes levels 1 and 2 only.

    Returns:
        A copy with another text; `tokens_out`, no longer true, is None.

    Raises:
        InputError: There is no such probe.
    """
    if probe not in PROBES:
        raise InputError(f"probe {probe}: no such probe; take one of {', '.join(PROBES)}")
    if not answer.text.strip() or not _applies(question, probe, level):
        return None
    language: Language = question.language
    if probe == "language-wrapper":
        language = "zh" if language == "en" else "en"
    draw = Random("\n".join(map(str, (seed, probe, *answer.key))))
    newline = "\r\n" if "\r\n" in answer.text else "\n"
    text = answer.text.replace("\r\n", "\n")
    changed = _CHANGES[probe](text, texts_of(language), draw)
    if changed == text or not changed.strip():
        return None
    return answer.model_copy(update={"text": changed.replace("\n", newline), "tokens_out": None})


def _applies(question: Question, probe: str, level: int | None) -> bool:
    if probe == FLUENT_WRONG:
        return level is not None and level <= 2
    if probe not in _FORM_BROKEN:
        return True
    asked = texts_of(question.language).asks_for[_FORM_BROKEN[probe]]
    return question.category != "MTG" and not asked.search(f"{question.prompt}\n{question.checklist or ''}")


def _filled(text: str, texts: Texts, draw: Random) -> str:
    said = texts.variants["filler"]
    gaps = _gaps(text)
    places = sorted(draw.sample(gaps, min(len(gaps), len(said["between"]), 3)))
    pieces = [text[start:end] for start, end in pairwise([0, *places, len(text)])]
    between = draw.sample(said["between"], len(places))
    middle = pieces[0] + "".join(f"{words}\n\n{piece}" for words, piece in zip(between, pieces[1:], strict=True))
    return f"{draw.choice(said['begin'])}\n\n{middle}\n\n{draw.choice(said['end'])}"


def _gaps(text: str) -> list[int]:
    """Where a paragraph begins that is neither part of a list or table nor led up to by the paragraph before it."""
    starts = block_starts(lines_of(text))
    blocks = [text[start:end].strip() for start, end in pairwise([*starts, len(text)])]
    return [
        start
        for start, (before, after) in zip(starts[1:], pairwise(blocks), strict=True)
        if is_complete(before) and not in_series(after)
    ]


def _beside(name: str) -> Callable[[str, Texts, Random], str]:
    def change(text: str, texts: Texts, draw: Random) -> str:
        said = draw.choice(texts.variants[name])
        return f"{said}\n\n{text}" if draw.random() < 0.5 else f"{text}\n\n{said}"

    return change


def _wrapped(text: str, texts: Texts, draw: Random) -> str:
    said = texts.variants["wrapper"]
    return f"{draw.choice(said['begin'])}\n\n{text}\n\n{draw.choice(said['end'])}"


def _doubled(text: str, texts: Texts, draw: Random) -> str:
    return f"{text}\n\n{text}"


def _fluent(text: str, texts: Texts, draw: Random) -> str:
    said = {name: draw.choice(variants) for name, variants in texts.variants["fluent"].items()}
    return (
        f"{said['opening']}\n\n## {said['heading']}\n\n{text}\n\n"
        f"## {said['summary_heading']}\n\n{said['summary']}\n\n{said['closing']}"
    )


_CHANGES: dict[str, Callable[[str, Texts, Random], str]] = {
    "filler": _filled,
    "reordered": reordered,
    "plain": lambda text, texts, draw: plain(text),
    "instruction": _beside("instruction"),
    "authority": _beside("authority"),
    "quoted-rubric": _beside("quoted_rubric"),
    "language-wrapper": _wrapped,
    "doubled": _doubled,
    "fluent-wrong": _fluent,
}
