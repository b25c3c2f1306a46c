"""Probes: an answer's text is changed in a way that must not change its score, or that must make it unusable.

Most probes add or remove form and claims, never medical content. Three put a text without content in the answer's
place, one denies the answer, and one adds a dangerous instruction to it: none of these is usable. Which variant of its
texts an answer gets, and where, is drawn from the seed and the answer's key.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import Literal, NamedTuple

from medjudge.errors import InputError
from medjudge.languages.texts import languages_of
from medjudge.probes.texts import Asked, ProbeTexts, asks_for, probe_texts
from medjudge.records import Answer, Question
from medjudge.scale import USABLE_FROM
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.text.blocks import cut_into_blocks
from medjudge.text.formatting import plain
from medjudge.text.grammar import Grammar, grammar_of
from medjudge.text.reordering import reordered

OUTSIDE_GATE = frozenset(
    {"prepended-verdict", "homoglyphs", "only-praise", "only-yes", "echo", "negated", "append-harm"}
)
"""Probes that are measured and listed, and enter a gate only where it states a threshold for them."""
FLUENT_WRONG = "fluent-wrong"

Counted = Literal["changes", "rises", "usable"]
"""The change that counts against a judge: usable either way; an answer becomes usable; it is usable afterwards."""
COUNTED: dict[str, Counted] = {
    FLUENT_WRONG: "rises",
    **dict.fromkeys(("only-praise", "only-yes", "echo", "negated", "append-harm"), "usable"),
}
"""The change that counts where not all do: a fluent frame may lower a score, and what empties or spoils must."""
_OF_USABLE = frozenset({"negated", "append-harm"})
"""Probes of usable answers: a bad one denied, or with one more danger in it, is as unusable as before."""
_SHARE_OF_LOOK_ALIKES = 0.25

_NEEDS: dict[str, Asked] = {"filler": "length", "reordered": "order", "plain": "form", "doubled": "length"}
"""The requests of a question that the probe would break."""


class _Material(NamedTuple):
    texts: ProbeTexts
    grammar: Grammar
    draw: Random
    prompt: str


def probed(
    question: Question,
    answer: Answer,
    probe: str,
    seed: int = 0,
    level: int | None = None,
    scheme: Scheme = LLMEVAL_MED,
) -> Answer | None:
    """The answer as a probe changes it, or None where the probe does not apply.

    A probe does not apply to an empty answer, nor where it finds nothing to strip or to move without changing the
    meaning. `filler`, `reordered`, `plain` and `doubled` leave out questions whose graders would rightly mark the
    change down: those of a category whose form is content, and those that ask for a length, an order or a form.
    `fluent-wrong` takes answers of levels 1 and 2 only, `negated` and `append-harm` usable ones only.

    Args:
        probe: One of `PROBES`.
        seed: Chooses among variants and positions, together with the answer's key.
        level: The answer's level by physicians (or as constructed); None where it is unknown.
        scheme: What the question belongs to; it may add languages' texts.

    Returns:
        A copy with another text; `tokens_out`, no longer true, is None.

    Raises:
        InputError: There is no such probe, or the question's language has no texts for it.
    """
    if probe not in PROBES:
        raise InputError(f"probe {probe}: no such probe; choose one of {', '.join(PROBES)}")
    if not answer.text.strip() or not _applies(question, probe, level, scheme):
        return None
    languages = languages_of(scheme)
    language: str = question.language
    if probe == "language-wrapper":
        language = "zh" if language == "en" else "en"
    draw = Random("\n".join(map(str, (seed, probe, *answer.key))))
    texts, grammar = probe_texts(language, languages), grammar_of(language, languages)
    material = _Material(texts, grammar, draw, question.prompt.replace("\r\n", "\n").strip())
    newline = "\r\n" if "\r\n" in answer.text else "\n"
    text = answer.text.replace("\r\n", "\n")
    changed = _CHANGES[probe](text, material)
    if changed == text or not changed.strip():
        return None
    return answer.model_copy(update={"text": changed.replace("\n", newline), "tokens_out": None})


def _applies(question: Question, probe: str, level: int | None, scheme: Scheme) -> bool:
    if probe == FLUENT_WRONG:
        return level is not None and level <= 2
    if probe in _OF_USABLE:
        return level is not None and level >= USABLE_FROM
    if probe not in _NEEDS:
        return True
    if scheme.category(question.category).form_is_content:
        return False
    pattern = asks_for(question.language, _NEEDS[probe], languages_of(scheme))
    return not pattern.search(f"{question.prompt}\n{question.checklist or ''}")


def _with_filler(text: str, material: _Material) -> str:
    filler, draw = material.texts.filler, material.draw
    starts, _, numbers = cut_into_blocks(text)
    gaps = [starts[number] for number in numbers]
    positions = sorted(draw.sample(gaps, min(len(gaps), len(filler.between), 3)))
    pieces = [text[start:end] for start, end in pairwise([0, *positions, len(text)])]
    between = draw.sample(filler.between, len(positions))
    middle = pieces[0] + "".join(f"{words}\n\n{piece}" for words, piece in zip(between, pieces[1:], strict=True))
    return f"{draw.choice(filler.begin)}\n\n{middle}\n\n{draw.choice(filler.end)}"


def _beside(text: str, variants: Sequence[str], draw: Random) -> str:
    addition = draw.choice(variants)
    return f"{addition}\n\n{text}" if draw.random() < 0.5 else f"{text}\n\n{addition}"


def _wrapped(text: str, material: _Material) -> str:
    wrapper, draw = material.texts.wrapper, material.draw
    return f"{draw.choice(wrapper.begin)}\n\n{text}\n\n{draw.choice(wrapper.end)}"


def _fluent(text: str, material: _Material) -> str:
    fluent, draw = material.texts.fluent, material.draw
    opening, heading, summary_heading, summary, closing = map(
        draw.choice, (fluent.opening, fluent.heading, fluent.summary_heading, fluent.summary, fluent.closing)
    )
    return f"{opening}\n\n## {heading}\n\n{text}\n\n## {summary_heading}\n\n{summary}\n\n{closing}"


def _with_look_alikes(text: str, material: _Material) -> str:
    """A quarter of the characters that have a look-alike replaced by it, at least one."""
    look_alikes, draw = material.texts.look_alikes, material.draw
    places = [place for place, character in enumerate(text) if character in look_alikes]
    characters = list(text)
    for place in draw.sample(places, math.ceil(_SHARE_OF_LOOK_ALIKES * len(places))):
        characters[place] = look_alikes[characters[place]]
    return "".join(characters)


_CHANGES: dict[str, Callable[[str, _Material], str]] = {
    "filler": _with_filler,
    "reordered": lambda text, material: reordered(text, material.grammar, material.draw),
    "plain": lambda text, material: plain(text),
    "instruction": lambda text, material: _beside(text, material.texts.instruction, material.draw),
    "authority": lambda text, material: _beside(text, material.texts.authority, material.draw),
    "quoted-rubric": lambda text, material: _beside(text, material.texts.quoted_rubric, material.draw),
    "language-wrapper": _wrapped,
    "doubled": lambda text, material: f"{text}\n\n{text}",
    "fluent-wrong": _fluent,
    "prepended-verdict": lambda text, material: f"{material.draw.choice(material.texts.verdict_first)}\n\n{text}",
    "homoglyphs": _with_look_alikes,
    "only-praise": lambda text, material: material.draw.choice(material.texts.only_praise),
    "only-yes": lambda text, material: material.draw.choice(material.texts.only_yes),
    "echo": lambda text, material: material.draw.choice(material.texts.echo).replace("{prompt}", material.prompt),
    "negated": lambda text, material: f"{material.draw.choice(material.texts.negated)}\n\n{text}",
    "append-harm": lambda text, material: f"{text}\n\n{material.draw.choice(material.texts.harm)}",
}
PROBES: tuple[str, ...] = tuple(_CHANGES)
