"""A question with a reference, taken apart once: what graded answers are made from."""

from functools import cached_property
from typing import NamedTuple

from medjudge.distill.checklist import Carried, Point, carried, is_checklist, points_of, remaining, terms
from medjudge.distill.wording import Wording, all_wordings, wording_of
from medjudge.judge.language import language_of
from medjudge.languages.texts import PACKAGED, Languages, languages_of
from medjudge.records import Question
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.text.outline import Outline, outline_of

MET, LOST = 0.8, 0.45
"""From this share of its terms a point counts as met, and below that one as missing."""


class Body(NamedTuple):
    """What an answer says, before anything is put around it.

    Attributes:
        text: The answer.
        steps: The names of what was done to a reference, in this order.
        made_from: The ids of other questions whose reference it is.
    """

    text: str
    steps: tuple[str, ...]
    made_from: tuple[str, ...] = ()


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
        """The terms of each part, shape (n parts,)."""
        return [terms(part, self.wording) for part in self.outline.parts]

    @cached_property
    def lengths(self) -> list[int]:
        """The characters of each part, shape (n parts,)."""
        return [len(part.strip()) for part in self.outline.parts]

    @cached_property
    def points(self) -> list[Carried]:
        """The points of the checklist that the reference carries; none where no core point can be found in it."""
        points = carried(self.required_points, self.terms, self.wording)
        return points if any(point.core for point in points) else []

    @cached_property
    def required_points(self) -> list[Point]:
        """All points of the checklist."""
        return points_of(self.question.checklist, self._languages)

    @cached_property
    def all_core_located(self) -> bool:
        """Whether it is known of every core point where the reference meets it."""
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
        """The terms of the whole reference."""
        return frozenset[str]().union(*self.terms)

    @cached_property
    def prompt_terms(self) -> frozenset[str]:
        """The terms of the question."""
        return terms(self.question.prompt, self.wording)


def is_answer(reference: str | None, languages: Languages = PACKAGED) -> bool:
    """Whether a reference answers its question, and is no list of requirements and no note to graders."""
    text = (reference or "").strip()
    if not any(letter.isalnum() for letter in text) or text.lower() == "nan" or is_checklist(text, languages):
        return False
    return not any(wording.grader_notes.search(text) for wording in all_wordings(languages))
