"""Part 5: a local judge first, GPT-4 for what its conformal sets leave open, people for a share of the rest."""

from typing import Any, NamedTuple

import numpy as np
from real_cells import Cell, Cells
from real_material import FOLDS, SEEDS, Material, folds
from sklearn.metrics import cohen_kappa_score

from medjudge.chat_api.prices import Price
from medjudge.scale import USABLE_FROM
from medjudge.statistics.conformal import fit_conformal, usable_sets

ERROR_RATES = (0.05, 0.1, 0.15, 0.2, 0.3)
PROMPT_TOKENS, REPLY_TOKENS = 400, 200
"""Of a judge's prompt around the texts, and of a reply with its reasons."""


class Costs(NamedTuple):
    """What a judgment costs, in USD.

    Attributes:
        price: Of the API judge's tokens.
        minutes: A person's minutes for an answer.
        hour: Of a person.
    """

    price: Price
    minutes: float = 2.0
    hour: float = 40.0

    def api(self, tokens: np.ndarray) -> float:
        """Of answers with these tokens in question, reference and answer, (n,)."""
        return self.price.cost(int(tokens.sum()) + PROMPT_TOKENS * len(tokens), REPLY_TOKENS * len(tokens))

    @property
    def person(self) -> float:
        """Of one answer."""
        return self.minutes / 60 * self.hour


class Path(NamedTuple):
    """Who decided each answer, and what.

    Attributes:
        called: Usable or not, (n,), bool.
        to_api: Answers that the local judge left open, (n,), bool.
        to_people: Those that stayed open, (n,), bool.
    """

    called: np.ndarray
    to_api: np.ndarray
    to_people: np.ndarray


def cascade_table(cells: Cells, costs: Costs, people: int = 3200) -> dict[str, Any]:
    """Agreement against cost for a thousand answers: each judge alone, and the cascade by error rate.

    The local judge learned from both labels and did not see the questions. Its sets are calibrated on the other folds.
    GPT-4 says no more than a level: one in the middle of the scale leaves an answer open, and people decide it.
    """
    material = cells.material
    judged = [cells.probabilities(Cell("questions", "both", people, seed)) for seed in SEEDS]
    everyone, nobody = np.ones(len(material.people), bool), np.zeros(len(material.people), bool)
    local = [Path(found[:, USABLE_FROM - 1 :].sum(axis=1) >= 0.5, nobody, nobody) for found in judged]
    teacher = Path(material.expected >= USABLE_FROM, everyone, nobody)
    table = {
        "local judge alone": _row(material, local, costs),
        "gpt-4 alone": _row(material, [teacher], costs),
        "people alone": _row(material, [Path(material.usable, nobody, everyone)], costs),
    }
    for rate in ERROR_RATES:
        paths = [cascade(material, found, rate, seed) for seed, found in zip(SEEDS, judged, strict=True)]
        table[f"cascade, error rate {rate:g}"] = _row(material, paths, costs)
        ended = [path._replace(to_people=nobody, called=_without_people(material, path)) for path in paths]
        table[f"cascade, error rate {rate:g}, without people"] = _row(material, ended, costs)
    parameters = {
        "price": costs.price.model_dump(mode="json"),
        "minutes of a person": costs.minutes,
        "a person's hour": costs.hour,
        "prompt and reply, tokens": [PROMPT_TOKENS, REPLY_TOKENS],
    }
    return {"costs": parameters, "for a thousand answers": table}


def cascade(material: Material, probabilities: np.ndarray, error_rate: float, seed: int) -> Path:
    """Who decides each answer, with sets from the folds that an answer is not in."""
    fold, settled = folds(material, "questions", seed), np.zeros(len(probabilities), bool)
    for number in range(FOLDS):
        held, others = fold == number, fold != number
        clusters = material.conversation[others].astype(str)
        conformal = fit_conformal(probabilities[others], material.people[others], clusters, error_rate, seed)
        if conformal is not None:
            settled[held] = usable_sets(conformal, probabilities[held]).sum(axis=1) == 1
    local = probabilities[:, USABLE_FROM - 1 :].sum(axis=1) >= 0.5
    unclear = ~settled & (np.abs(material.expected - 3) < 0.5)
    called = np.where(settled, local, np.where(unclear, material.usable, material.expected >= USABLE_FROM))
    return Path(called, ~settled, unclear)


def _without_people(material: Material, path: Path) -> np.ndarray:
    called: np.ndarray = np.where(path.to_people, material.expected >= USABLE_FROM, path.called)
    return called


def _row(material: Material, paths: list[Path], costs: Costs) -> dict[str, float]:
    """Means over seeds."""
    thousand = 1000 / len(material.people)
    rows = [
        (
            (path.called == material.usable).mean(),
            cohen_kappa_score(path.called, material.usable),
            path.to_api.mean(),
            path.to_people.mean(),
            thousand * costs.api(material.tokens[path.to_api]),
            thousand * path.to_people.sum() * costs.person,
        )
        for path in paths
    ]
    names = ("usable_agreement", "cohen_kappa", "share_to_gpt4", "share_to_people", "usd_gpt4", "usd_people")
    return {name: round(float(value), 4) for name, value in zip(names, np.mean(rows, axis=0), strict=True)}
