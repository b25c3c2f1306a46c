"""The first sentence about a run in which models answered fewer than half of the questions."""

from collections.abc import Mapping

from markupsafe import Markup

from medjudge.report.words import Words, isolated
from medjudge.validation.usability import ModelUsability


def few_answers(models: Mapping[str, ModelUsability], words: Words) -> Markup | None:
    """A note on models that answered fewer than half of the questions; None where none did."""
    few = [
        words(
            "{model} answered {n} of {questions}",
            model=isolated(model),
            n=f"{rate.answered:,}",
            questions=f"{rate.questions:,}",
        )
        for model, rate in ((model, rates.overall) for model, rates in models.items())
        if rate.mostly_unanswered
    ]
    if not few:
        return None
    return words(
        "Most questions have no answer: {few}. Instead of a rate, the usable ones of the answered questions are "
        "counted. {option} with another run folder leaves the unanswered questions out.",
        few=words(", ").join(few),
        option=Markup("<code>eval --answered-only</code>"),
    )


def few_answers_line(models: Mapping[str, ModelUsability]) -> str | None:
    """The same note as plain text, for screens and tables."""
    said = few_answers(models, Words())
    return said and said.striptags()
