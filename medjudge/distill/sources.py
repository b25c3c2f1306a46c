"""The material of graded answers: a question's reference in parts, the points of its checklist, and word lists."""

import re
from collections.abc import Sequence, Set
from functools import cache, cached_property
from typing import NamedTuple

from medjudge.judge.language import language_of
from medjudge.languages.texts import PACKAGED, Languages, Texts, languages_of
from medjudge.probes.texts import ASKED, asks_for
from medjudge.records import Question
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.text.grammar import grammar_of
from medjudge.text.outline import Outline, outline_of

_HEADING_LEAD = r"\W*(?:[一二三四五六七八九十IVX\d]{1,3}[、.．)）])?\s*[#*【\[]*"
_HEADING_TAIL = r"[】\]*]*\s*(?:[（(][^）)]*[）)])?\s*(?:[:：][*]*\s*|$)"
_ITEM = re.compile(r"\s*(?:[-*+•●]\s*|[（(]?\d{1,2}[.．、)）]\s*|[①-⑳]\s*)")
_ITEM_WITHIN = re.compile(r"(?<=[；;。])\s*(?=\d{1,2}[.．、)）]\s*\D)")
_WORDS = re.compile(r"\d+(?:\.\d+)?|[A-Za-zµμ]{2,}(?:-?\d+)?|[\u4e00-\u9fff]+")
_LOCATED = 0.3
"""The share of a point's terms that a reference must hold for the point to be found in it."""
FILE = "graded_answers.yaml"


class FillerGroup(Texts):
    """Halves of filler sentences: each beginning goes with each end."""

    begin: list[str]
    end: list[str]


class Laterality(Texts):
    """The words for left and right, and patterns for what must precede and follow them."""

    left: str
    right: str
    before: str
    after: str


class GradedTexts(Texts):
    """A language's `graded_answers.yaml`; its comments say what each list is for."""

    filler: list[FillerGroup]
    opening: list[str]
    restated: list[str]
    closing: list[str]
    instruction: list[str]
    core: list[str]
    secondary: list[str]
    form_labels: list[str]
    item_openers: list[str]
    grader_notes: list[str]
    no_dressing: list[str]
    stop_words: list[str]
    leans: list[str]
    dose_units: list[str]
    not_doses: list[str]
    other_units: list[str]
    unit_swaps: dict[str, str]
    range: list[str]
    laterality: Laterality
    negated_advice: list[tuple[str, str]]
    negated_statements: list[tuple[str, str]]
    negations: list[str]
    subordinates: list[str]
    opposites: list[tuple[str, str]]
    drugs: list[list[str]]


class Wording:
    """One language's lists (`texts`), its grammar, and the lists that are searched for as patterns."""

    def __init__(self, language: str, languages: Languages) -> None:
        texts = self.texts = languages.load(language, FILE, GradedTexts)
        grammar = self.grammar = grammar_of(language, languages)
        # What breaks a form that was asked for is the same for a probe and for a training answer.
        forms = (*(asks_for(language, what, languages) for what in ASKED), grammar.any_of(texts.no_dressing))
        self.no_dressing = re.compile("|".join(f"(?:{form.pattern})" for form in forms), re.IGNORECASE)
        """Words of questions whose answer nothing may be put around."""
        self.grader_notes = grammar.any_of(texts.grader_notes)
        """Words of a text that speaks to graders and is no answer."""
        self.form_labels = grammar.any_of(texts.form_labels, r"^", r"(?:要求)?[①-⑳\d]*\s*[:：]")
        """The label of a checklist's item on form rather than content."""
        self.item_openers = grammar.any_of(texts.item_openers, r"^")
        self.leans = grammar.any_of(texts.leans, r"^\W*")
        """The beginning of a sentence that depends on the one before it."""
        self.negations = grammar.any_of(texts.negations)
        self.subordinates = grammar.any_of(texts.subordinates)
        """The beginning of a condition or an aside."""
        self.stop_words = frozenset(texts.stop_words)


@cache
def wording_of(language: str, languages: Languages = PACKAGED) -> Wording:
    """A language's lists, read once."""
    return Wording(language, languages)


@cache
def all_wordings(languages: Languages = PACKAGED) -> tuple[Wording, ...]:
    """The lists of every language that has some."""
    return tuple(wording_of(language, languages) for language in languages.codes(FILE))


class Point(NamedTuple):
    """One requirement, and whether it is a core or a secondary one."""

    text: str
    core: bool


class Carried(NamedTuple):
    """A point as a text carries it: for each of its terms the weight, and the parts of the text that hold it.

    A term weighs less the more parts hold it: what all parts speak of tells nothing about one of them.
    """

    core: bool
    terms: tuple[tuple[float, Set[int]], ...]


def points_of(checklist: str | None, languages: Languages = PACKAGED) -> list[Point]:
    """Reads the core and secondary points of a checklist, in any language that has word lists.

    Points without a heading above them are core. Points on form, tone and wording are left out: no sentence of an
    answer carries them. No points where there is no checklist.
    """
    points: list[Point] = []
    core = True
    for line in (checklist or "").splitlines():
        for is_core in (True, False):
            if heading := _heading(line, is_core, languages):
                core, line = is_core, line[heading.end() :]
        for item in _ITEM_WITHIN.split(line):
            text = _ITEM.sub("", item, count=1).strip()
            if any(wording.form_labels.match(text) for wording in all_wordings(languages)):
                continue
            text = re.sub(r"^(?:[\u4e00-\u9fff]{2,6}要求|内容)[①-⑳\d]*\s*[:：]\s*", "", text)
            if re.search(r"\w", text):
                points.append(Point(text, core))
    return points


def _heading(line: str, is_core: bool, languages: Languages) -> re.Match[str] | None:
    for wording in all_wordings(languages):
        names = "|".join(wording.texts.core if is_core else wording.texts.secondary)
        if heading := re.match(f"{_HEADING_LEAD}(?:{names}){_HEADING_TAIL}", line, re.IGNORECASE):
            return heading
    return None


def terms(text: str, wording: Wording) -> frozenset[str]:
    """The terms of a text: numbers, words cut to a stem, and pairs of Chinese characters."""
    result: set[str] = set()
    for word in _WORDS.findall(text):
        if "\u4e00" <= word[0] <= "\u9fff":
            pairs = {word[at : at + 2] for at in range(len(word) - 1)}
            result |= {pair for pair in pairs if pair not in wording.stop_words and pair[0] not in wording.stop_words}
        elif word.lower() not in wording.stop_words:
            result.add(re.sub(r"(?:ies|es|ed|ing|s|ly)$", "", word.lower())[:7])
    return frozenset(result)


def carried(points: Sequence[Point], parts: Sequence[frozenset[str]], wording: Wording) -> list[Carried]:
    """The points that a text carries, of the terms of its parts; those that cannot be found in it are left out."""
    holders: dict[str, set[int]] = {}
    for number, part in enumerate(parts):
        for term in part:
            holders.setdefault(term, set()).add(number)
    result = []
    for point in points:
        point_terms = terms(wording.item_openers.sub("", point.text), wording)
        located = sorted(point_terms & holders.keys())
        if located and len(located) >= _LOCATED * len(point_terms):
            weights = ((2.0 if term[0].isdigit() else 1.0) / len(holders[term]) for term in located)
            result.append(Carried(point.core, tuple(zip(weights, (holders[term] for term in located), strict=True))))
    return result


def remaining(point: Carried, dropped: Set[int]) -> float:
    """The share of a point that a text without these parts still carries, from 0 (lost) to 1 (as in the whole text)."""
    left = sum(weight for weight, holders in point.terms if not holders <= dropped)
    return left / sum(weight for weight, _ in point.terms)


def share(point: Carried, part: int) -> float:
    """The share of a point's terms that one part holds, however many other parts do."""
    return sum(part in holders for _, holders in point.terms) / len(point.terms)


MET, LOST = 0.8, 0.45
"""From this share of its terms a point counts as met, and below that one as missing."""


class Body(NamedTuple):
    """The content of an answer, before its form is changed: the names of what was done to a reference, in this order.

    `made_from` has the ids of other questions whose reference it is.
    """

    text: str
    steps: tuple[str, ...]
    made_from: tuple[str, ...] = ()

    def with_step(self, step: str, text: str) -> "Body":
        return self._replace(text=text, steps=(*self.steps, step))


class Source:
    """A question with its reference."""

    def __init__(self, question: Question, scheme: Scheme = LLMEVAL_MED) -> None:
        languages = languages_of(scheme)
        self.question = question
        self.text = (question.reference or "").replace("\r\n", "\n").strip()
        # An English translation may answer a Chinese question.
        both = ("en", "zh")
        self.language = language_of(self.text, both) if question.language in both else question.language
        self.wording: Wording = wording_of(self.language, languages)
        prompt = f"{question.prompt}\n{question.checklist or ''}"
        no_dressing = wording_of(question.language, languages).no_dressing
        form_is_content = scheme.category(question.category).form_is_content
        self.may_be_dressed = not form_is_content and not no_dressing.search(prompt)
        self._languages = languages

    @cached_property
    def outline(self) -> Outline:
        return outline_of(self.text, self.wording.grammar)

    @cached_property
    def terms(self) -> list[frozenset[str]]:
        """The terms of each part."""
        return [terms(part, self.wording) for part in self.outline.parts]

    @cached_property
    def lengths(self) -> list[int]:
        """The characters of each part."""
        return [len(part.strip()) for part in self.outline.parts]

    @cached_property
    def points(self) -> list[Carried]:
        """The points of the checklist that the reference carries; none where no core point can be found in it."""
        points = carried(self.required_points, self.terms, self.wording)
        return points if any(point.core for point in points) else []

    @cached_property
    def required_points(self) -> list[Point]:
        return points_of(self.question.checklist, self._languages)

    @cached_property
    def all_core_located(self) -> bool:
        """True if every core point can be found in the reference."""
        return sum(point.core for point in self.points) == sum(point.core for point in self.required_points)

    @cached_property
    def core(self) -> frozenset[int]:
        """The parts without which a core point is not met; without a checklist the first, or all where they are few."""
        if not self.points:
            return frozenset(range(len(self.terms))) if len(self.terms) <= 2 else frozenset([0])
        return frozenset(
            part
            for part in range(len(self.terms))
            if any(point.core and remaining(point, {part}) < MET for point in self.points)
        )

    @cached_property
    def reference_terms(self) -> frozenset[str]:
        return frozenset[str]().union(*self.terms)

    @cached_property
    def prompt_terms(self) -> frozenset[str]:
        return terms(self.question.prompt, self.wording)


def is_answer(reference: str | None, languages: Languages = PACKAGED) -> bool:
    """True if a reference answers its question, and is no list of requirements and no note to graders."""
    text = (reference or "").strip()
    requires = any(_heading(line, is_core, languages) for line in text.splitlines() for is_core in (True, False))
    if not any(letter.isalnum() for letter in text) or text.lower() == "nan" or requires:
        return False
    return not any(wording.grader_notes.search(text) for wording in all_wordings(languages))
