"""Scores of a run by a judge's verdicts on items, and these verdicts against physicians'."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from medjudge.item_records import ItemJudgment, ItemScore
from medjudge.judge.alt_test_study import AltTestResult
from medjudge.judge.item_study import (
    AgreementOnItem,
    ItemAgreement,
    ItemStudy,
    ModelItems,
    PhysicianItemStudy,
    ThemeItems,
)
from medjudge.records import CONSTRUCTED, Answer, AnswerKey, Question, RubricItem
from medjudge.scale import LEVELS, USABLE_FROM
from medjudge.statistics.alt_test import alt_test
from medjudge.statistics.bootstrap import RESAMPLES, Interval, Sums, bootstrap, dense_tally
from medjudge.statistics.estimates import Estimate, estimate
from medjudge.statistics.item_agreement import met_agreement
from medjudge.statistics.item_scores import level_of_items, share_of_points
from medjudge.statistics.measures import divided
from medjudge.text.checklist_items import items_of
from medjudge.validation.physicians import EPSILON, alt_test_result


class ItemMaterial(NamedTuple):
    """The records behind a study.

    Attributes:
        questions: Of the run.
        answers: Of the run.
        judgments: The judge's verdicts on items.
        scores: Physicians' verdicts on items, but for conversations that the judge was trained on.
    """

    questions: Sequence[Question]
    answers: Sequence[Answer]
    judgments: Sequence[ItemJudgment]
    scores: Sequence[ItemScore]


class Verdict(NamedTuple):
    """A judge's verdict on one item of one answer, with its probability of met, and the physicians'."""

    answer: AnswerKey
    item: RubricItem
    group: str
    met: bool
    probability: float
    physicians: dict[str, bool]

    @property
    def disagrees(self) -> bool:
        """Whether more than half of the physicians say the opposite."""
        return consensus_on_item(self.physicians) == (not self.met)


def item_study(judge: str, material: ItemMaterial, resamples: int = RESAMPLES, seed: int = 0) -> ItemStudy:
    """Computes the scores by items, with intervals over conversations.

    Args:
        judge: The judge's name.
        material: The records; judgments of answers that are not in the run are left out.
    """
    items = {question.id: found for question in material.questions if (found := items_of(question))}
    group_of = {question.id: question.group for question in material.questions}
    answers = [answer for answer in material.answers if answer.question_id in items]
    known = {answer.key for answer in answers}
    judgments = [judgment for judgment in material.judgments if judgment.answer_key in known]
    judged = {
        judgment.answer_key: {verdict.item: verdict.is_met for verdict in judgment.items}
        for judgment in judgments
        if judgment.items is not None
    }
    models = [
        _of_model(model, {key: met for key, met in judged.items() if key.model == model}, items, group_of, seed)
        for model in dict.fromkeys(answer.model for answer in answers)
    ]
    verdicts = item_verdicts(material)
    return ItemStudy(
        judge=judge,
        questions=len(items),
        items=sum(map(len, items.values())),
        answers=len(answers),
        judged=len(judged),
        unjudged=dict(Counter(judgment.error for judgment in judgments if judgment.error is not None)),
        models=sorted(models, key=lambda row: -(row.share["value"] or 0)),
        themes=_themes(verdicts, resamples, seed),
        physicians=_against_physicians(verdicts, resamples, seed),
    )


def theme_of(item: RubricItem) -> str:
    """What an item is tabulated under: its theme, else its importance, else `other`."""
    return item.theme or item.importance or "other"


def scores_of_answer(items: Sequence[RubricItem], met: Mapping[str, bool]) -> tuple[float, int | None]:
    """The share of points of an answer, NaN where no item has positive points, and its level.

    Args:
        met: Whether each item is met, by its text.
    """
    verdicts = [met[item.text] for item in items]
    share = share_of_points(np.array([item.points for item in items]), np.array(verdicts, dtype=float))
    return float(share), level_of_items(items, verdicts)


def _of_model(
    model: str,
    judged: Mapping[AnswerKey, Mapping[str, bool]],
    items: Mapping[str, Sequence[RubricItem]],
    group_of: Mapping[str, str],
    seed: int,
) -> ModelItems:
    scores = [(key, *scores_of_answer(items[key.question_id], met)) for key, met in judged.items()]
    shares = [(group_of[key.question_id], share) for key, share, _ in scores if np.isfinite(share)]
    levels = [(group_of[key.question_id], level) for key, _, level in scores if level is not None]
    counts = Counter(level for _, level in levels)
    usable = [(group, float(level >= USABLE_FROM)) for group, level in levels]
    return ModelItems(
        model=model,
        answers=len(judged),
        share=_clipped(_mean(shares, seed)),
        levels=[counts[level] for level in range(1, LEVELS + 1)],
        usable=_mean(usable, seed, share=True) if usable else None,
    )


def _mean(values: Sequence[tuple[str, float]], seed: int, resamples: int = RESAMPLES, share: bool = False) -> Estimate:
    """The mean of (conversation, value) with its interval."""
    if not values:
        return estimate(Interval(np.nan, np.nan, np.nan))
    cluster = np.array([group for group, _ in values])

    def mean(sums: Sums) -> dict[str, np.ndarray]:
        return {"mean": divided(sums["values"][0], sums["values"][1])}

    table = np.array([[value, 1.0] for _, value in values])
    interval = bootstrap({"values": dense_tally(table)}, cluster, mean, resamples, seed)["mean"]
    return estimate(interval, len(np.unique(cluster)) if share else None)


def _clipped(value: Estimate) -> Estimate:
    """HealthBench clips the mean of a set, and so the ends of its interval, to 0..1."""

    def clip(number: float | None) -> float | None:
        return None if number is None else min(max(number, 0.0), 1.0)

    return {"value": clip(value["value"]), "low": clip(value["low"]), "high": clip(value["high"])}


def item_verdicts(material: ItemMaterial) -> list[Verdict]:
    """The judge's verdicts, with those of physicians; constructed ones count where there are no others."""
    items = {question.id: items_of(question) for question in material.questions}
    group_of = {question.id: question.group for question in material.questions}
    known = {answer.key for answer in material.answers}
    people = [score for score in material.scores if score.rater != CONSTRUCTED] or list(material.scores)
    by_physicians: dict[tuple[AnswerKey, str], dict[str, bool]] = {}
    for score in people:
        by_physicians.setdefault((score.answer_key, score.item), {})[score.rater] = score.verdict == "met"
    verdicts = []
    for judgment in material.judgments:
        key = judgment.answer_key
        if judgment.items is None or key not in known:
            continue
        given = {verdict.item: verdict for verdict in judgment.items}
        verdicts += [
            Verdict(
                key,
                item,
                group_of[key.question_id],
                given[item.text].is_met,
                given[item.text].met,
                by_physicians.get((key, item.text), {}),
            )
            for item in items[key.question_id]
        ]
    return verdicts


def _themes(verdicts: Sequence[Verdict], resamples: int, seed: int) -> list[ThemeItems]:
    rows = []
    for theme in dict.fromkeys(theme_of(verdict.item) for verdict in verdicts):
        own = [(verdict.group, float(verdict.met)) for verdict in verdicts if theme_of(verdict.item) == theme]
        rows.append(ThemeItems(theme=theme, verdicts=len(own), met=_mean(own, seed, resamples, share=True)))
    return rows


def consensus_on_item(physicians: Mapping[str, bool]) -> bool | None:
    """The verdict of more than half of the raters; None where there is none."""
    met = sum(physicians.values())
    return None if 2 * met == len(physicians) else 2 * met > len(physicians)


def _against_physicians(verdicts: Sequence[Verdict], resamples: int, seed: int) -> PhysicianItemStudy | None:
    decided = [verdict for verdict in verdicts if consensus_on_item(verdict.physicians) is not None]
    if not decided:
        return None
    raters = sorted({rater for verdict in verdicts for rater in verdict.physicians})
    themes = dict.fromkeys(theme_of(verdict.item) for verdict in decided)
    by_theme = {
        theme: _agreement([verdict for verdict in decided if theme_of(verdict.item) == theme], resamples, seed)
        for theme in themes
    }
    several = [verdict for verdict in verdicts if len(verdict.physicians) > 1]
    return PhysicianItemStudy(
        raters=raters,
        constructed=raters == [CONSTRUCTED],
        judge=_agreement(decided, resamples, seed),
        by_theme=by_theme,
        by_item=_by_item(decided),
        among=_among(several, resamples, seed) if several else None,
        alt_test=_alt_test(several, raters) if several else None,
    )


def _agreement(decided: Sequence[Verdict], resamples: int, seed: int) -> ItemAgreement:
    judge = np.array([verdict.met for verdict in decided])
    physicians = np.array([consensus_on_item(verdict.physicians) for verdict in decided], dtype=bool)
    cluster = np.array([verdict.group for verdict in decided])
    measured = met_agreement(judge, physicians, cluster, resamples, seed)
    answers = len({verdict.answer for verdict in decided})
    return ItemAgreement(verdicts=len(decided), answers=answers, **measured._asdict())


def _by_item(decided: Sequence[Verdict]) -> list[AgreementOnItem]:
    by_item: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in decided:
        by_item.setdefault((verdict.answer.question_id, verdict.item.text), []).append(verdict)
    rows = []
    for (question_id, text), own in by_item.items():
        judge = np.array([verdict.met for verdict in own])
        physicians = np.array([consensus_on_item(verdict.physicians) for verdict in own], dtype=bool)
        measured = met_agreement(judge, physicians, np.zeros(len(own)), resamples=1)
        rows.append(
            AgreementOnItem(
                question_id=question_id,
                item=text,
                theme=theme_of(own[0].item),
                importance=own[0].item.importance,
                verdicts=len(own),
                disagreements=int((judge != physicians).sum()),
                kappa=measured.kappa["value"],
                macro_f1=measured.macro_f1["value"],
            )
        )
    return sorted(rows, key=lambda row: -row.disagreements / row.verdicts)


def _among(several: Sequence[Verdict], resamples: int, seed: int) -> ItemAgreement:
    """Each two raters of an item, counted both ways round, so that no rater is the first."""
    rows = [
        (verdict, one, other)
        for verdict in several
        for pair in combinations(verdict.physicians.values(), 2)
        for one, other in (pair, pair[::-1])
    ]
    first, second = np.array([one for _, one, _ in rows]), np.array([other for _, _, other in rows])
    cluster = np.array([verdict.group for verdict, _, _ in rows])
    measured = met_agreement(first, second, cluster, resamples, seed)
    answers = len({verdict.answer for verdict in several})
    return ItemAgreement(verdicts=len(several), answers=answers, **measured._asdict())


def _alt_test(several: Sequence[Verdict], raters: list[str]) -> AltTestResult:
    """Could the judge replace one of the physicians on items? A verdict is taken as a usable or an unusable level."""

    def level(met: bool | None) -> float:
        return np.nan if met is None else float(LEVELS if met else 1)

    judge = np.array([level(verdict.met) for verdict in several])
    physicians = np.array([[level(verdict.physicians.get(rater)) for rater in raters] for verdict in several])
    cluster = np.array([verdict.group for verdict in several])
    return alt_test_result(alt_test(judge, physicians, cluster, EPSILON), raters)
