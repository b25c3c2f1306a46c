"""The word lists of the graded answers (`graded_answers.yaml` of each language)."""

import re
from functools import cache

from medjudge.languages.texts import PACKAGED, Languages, Texts
from medjudge.probes.texts import asked_form
from medjudge.text.grammar import grammar_of

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
        forms = (*asked_form(language, languages), grammar.any_of(texts.no_dressing))
        self.no_dressing = re.compile("|".join(f"(?:{form.pattern})" for form in forms), re.IGNORECASE)
        """What a question asks for where nothing may be put around its answer."""
        self.grader_notes = grammar.any_of(texts.grader_notes)
        """What a text says that speaks to graders and is no answer."""
        self.form_labels = grammar.any_of(texts.form_labels, r"^", r"(?:要求)?[①-⑳\d]*\s*[:：]")
        """The label of a checklist's item on form rather than content."""
        self.item_openers = grammar.any_of(texts.item_openers, r"^")
        self.leans = grammar.any_of(texts.leans, r"^\W*")
        """The beginning of a sentence that depends on the one before it."""
        self.negations = grammar.any_of(texts.negations)
        self.subordinates = grammar.any_of(texts.subordinates)
        """What begins a condition or an aside."""
        self.stop_words = frozenset(texts.stop_words)


@cache
def wording_of(language: str, languages: Languages = PACKAGED) -> Wording:
    """A language's lists, read once."""
    return Wording(language, languages)


@cache
def all_wordings(languages: Languages = PACKAGED) -> tuple[Wording, ...]:
    """The lists of every language that has some."""
    return tuple(wording_of(language, languages) for language in languages.codes(FILE))
