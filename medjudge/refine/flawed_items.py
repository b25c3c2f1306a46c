"""Questions that separate able models from weak ones badly, by the judge's verdicts on all answers that it scored."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from medjudge.records import Judgment
from medjudge.rounds import level_of, scored_rounds
from medjudge.scale import USABLE_FROM
from medjudge.statistics.item_response import (
    FEWEST_MODELS,
    FEWEST_QUESTIONS,
    Flawed,
    discriminates,
    fit_two_parameter,
    flawed_items,
)


class FlawedQuestion(NamedTuple):
    """A question with its item of the response model."""

    question_id: str
    item: Flawed

    def as_json(self) -> dict[str, Any]:
        """Its line in `flawed_items.jsonl`."""
        separates = (
            "the wrong way round: weaker models pass it more often" if self.item.kind == "negative" else "hardly"
        )
        return {
            "question_id": self.question_id,
            "discrimination": self.item.kind,
            "value": round(self.item.discrimination, 3),
            "low": round(self.item.low, 3),
            "high": round(self.item.high, 3),
            "doubt": round(self.item.doubt, 4),
            "reason": f"separates able models from others {separates}; check its reference, checklist and wording",
        }


class FlawedQuestions(NamedTuple):
    """The flawed questions among `questions` that `models` answered; `why` says why none could be found."""

    models: int
    questions: int
    flawed: list[FlawedQuestion]
    why: str | None

    def as_json(self) -> dict[str, Any]:
        """Its entry in `summary.json`."""
        return {"models": self.models, "questions": self.questions, "listed": len(self.flawed), "why": self.why}


def flawed_questions(judgments: Sequence[Judgment], question_ids: set[str]) -> FlawedQuestions:
    """Fits a response model to the judge's usable verdicts, and lists the questions that it finds flawed.

    Args:
        judgments: All judgments of the judge; those of questions that are not in `question_ids` are left out.
    """
    rounds = {key: made for key, made in scored_rounds(judgments).items() if key.question_id in question_ids}
    models = sorted({key.model for key in rounds})
    questions = sorted({key.question_id for key in rounds})
    if len(models) < FEWEST_MODELS or len(questions) < FEWEST_QUESTIONS:
        too_few = (
            f"{len(models)} models and {len(questions)} questions are too few; at least {FEWEST_MODELS} and "
            f"{FEWEST_QUESTIONS} are needed"
        )
        return FlawedQuestions(len(models), len(questions), [], too_few)
    usable, samples = np.zeros((2, len(models), len(questions)))
    for key, made in rounds.items():
        cell = models.index(key.model), questions.index(key.question_id)
        samples[cell] += 1
        usable[cell] += level_of(made) >= USABLE_FROM
    fit = fit_two_parameter(usable, samples)
    why = None if discriminates(fit) else "the questions as a whole hardly separate the models"
    flawed = [FlawedQuestion(questions[item.question], item) for item in flawed_items(fit)]
    return FlawedQuestions(len(models), len(questions), flawed, why)
