"""Scores of a run by a judge's verdicts on items (`items/JUDGE.json`), and these verdicts against physicians'."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from typing_extensions import Unpack

from medjudge.item_records import ItemScore
from medjudge.judge.items import item_judgments, item_study_file
from medjudge.judge.study_summary import read_result
from medjudge.records import CONSTRUCTED, AnswerKey, RubricItem, grouped
from medjudge.scale import LEVELS, USABLE_FROM
from medjudge.statistics.alt_test import AltTest, alt_test
from medjudge.statistics.bootstrap import Resampling
from medjudge.statistics.estimates import Estimate, Record, mean_estimate
from medjudge.statistics.item_scores import level_of_items, share_of_points
from medjudge.statistics.labels import met_agreement
from medjudge.store import Run
from medjudge.text.checklist_items import items_of


class ModelItems(Record):
    """A model's answers with verdicts on their items: `share` is their mean share of points, clipped to 0..1.

    `levels` counts those at each level, level 1 first, and `usable` is the share of these at a usable level; both are
    of questions with core items, and `usable` is None where there are none.
    """

    model: str
    answers: int
    share: Estimate
    levels: list[int]
    usable: Estimate | None


class ThemeItems(Record):
    """Items of one theme, or of one importance where they have no theme: how many verdicts, and the share met."""

    theme: str
    verdicts: int
    met: Estimate


class ItemAgreement(Record):
    """Agreement of two sides on the same items of the same answers; see `statistics.labels.met_agreement`."""

    verdicts: int
    answers: int
    agreement: Estimate
    kappa: Estimate
    macro_f1: Estimate


class AgreementOnItem(Record):
    """The verdicts on one item over the answers to its question, and how many differ from the physicians'.

    There is no kappa: all verdicts on an item come from one conversation, which leaves nothing to resample.
    """

    question_id: str
    item: str
    verdicts: int
    disagreements: int


class PhysicianItemStudy(Record):
    """A judge's verdicts on items against that of more than half of the raters; where they tie, the item is left out.

    `constructed` says that the verdicts were written with the answers, by no physician. `by_item` lists the items with
    the most disagreements first. `among` (physicians with each other) and `alt_test` (whether the judge could take a
    physician's place) are None where no item has two raters.
    """

    raters: list[str]
    constructed: bool
    judge: ItemAgreement
    by_theme: dict[str, ItemAgreement]
    by_item: list[AgreementOnItem]
    among: ItemAgreement | None
    alt_test: AltTest | None


class ItemStudy(Record):
    """The scores of a run by items, and the judge against physicians, where they marked items.

    `questions` with `items` have `answers` to be checked, of which `judged` have verdicts; `unjudged` counts the
    reasons for none. The models with the highest share of points come first.
    """

    judge: str
    questions: int
    items: int
    answers: int
    judged: int
    unjudged: dict[str, int]
    models: list[ModelItems]
    themes: list[ThemeItems]
    physicians: PhysicianItemStudy | None = None


def read_item_study(run: Run, judge: str) -> ItemStudy | None:
    """The item scores of a judge that `medjudge eval --items` wrote into a run; None where there are none.

    Raises:
        InputError: The file is no such study.
    """
    return read_result(ItemStudy, item_study_file(run, judge), "medjudge eval --items")


class Verdict(NamedTuple):
    """A judge's verdict on one item of one answer, with its probability of met, and the physicians'."""

    answer: AnswerKey
    item: RubricItem
    group: str
    met: bool
    probability: float
    physicians: dict[str, bool]

    @property
    def consensus(self) -> bool | None:
        """The verdict of more than half of the physicians; None where there is none."""
        met = sum(self.physicians.values())
        return None if 2 * met == len(self.physicians) else 2 * met > len(self.physicians)

    @property
    def disagrees(self) -> bool:
        """True if more than half of the physicians say the opposite."""
        return self.consensus == (not self.met)

    @property
    def theme(self) -> str:
        """The row of a table for an item: its theme, else its importance, else `other`."""
        return self.item.theme or self.item.importance or "other"


def item_study(run: Run, judge: str, scores: Sequence[ItemScore], **how: Unpack[Resampling]) -> ItemStudy:
    """Computes the scores by items, with intervals over conversations.

    Args:
        scores: Physicians' verdicts on items, but for conversations that the judge was trained on.
    """
    items = {question.id: found for question in run.questions() if (found := items_of(question))}
    answers = dict.fromkeys(answer.key for answer in run.answers() if answer.question_id in items)
    judgments = [judgment for judgment in item_judgments(run, judge) if judgment.answer_key in answers]
    verdicts = item_verdicts(run, judge, scores)
    judged = grouped(verdicts, lambda verdict: verdict.answer)
    models = [
        _of_model(model, [of_answer for key, of_answer in judged.items() if key.model == model], how)
        for model in dict.fromkeys(answer.model for answer in answers)
    ]
    return ItemStudy(
        judge=judge,
        questions=len(items),
        items=sum(map(len, items.values())),
        answers=len(answers),
        judged=len(judged),
        unjudged=dict(Counter(judgment.error for judgment in judgments if judgment.error is not None)),
        models=sorted(models, key=lambda row: -(row.share["value"] or 0)),
        themes=[
            ThemeItems(theme=theme, verdicts=len(own), met=_mean([(each.group, each.met) for each in own], True, how))
            for theme, own in grouped(verdicts, lambda verdict: verdict.theme).items()
        ],
        physicians=_against_physicians(verdicts, how),
    )


def item_verdicts(run: Run, judge: str, scores: Sequence[ItemScore]) -> list[Verdict]:
    """A judge's verdicts on answers of a run, with those of physicians; constructed ones where there are no others."""
    questions = {question.id: question for question in run.questions()}
    known = {answer.key for answer in run.answers()}
    people = [score for score in scores if score.rater != CONSTRUCTED] or scores
    by_physicians: dict[tuple[AnswerKey, str], dict[str, bool]] = {}
    for score in people:
        by_physicians.setdefault((score.answer_key, score.item), {})[score.rater] = score.verdict == "met"
    verdicts = []
    for judgment in item_judgments(run, judge):
        key = judgment.answer_key
        if judgment.items is None or key not in known:
            continue
        question, given = questions[key.question_id], {verdict.item: verdict for verdict in judgment.items}
        for item in items_of(question):
            mine, theirs = given[item.text], by_physicians.get((key, item.text), {})
            verdicts.append(Verdict(key, item, question.group, mine.is_met, mine.met, theirs))
    return verdicts


def _of_model(model: str, answers: Sequence[Sequence[Verdict]], how: Resampling) -> ModelItems:
    shares, levels = [], []
    for verdicts in answers:
        items, met = [verdict.item for verdict in verdicts], [verdict.met for verdict in verdicts]
        share = float(share_of_points(np.array([item.points for item in items]), np.array(met)))
        if np.isfinite(share):
            shares.append((verdicts[0].group, share))
        if (level := level_of_items(items, met)) is not None:
            levels.append((verdicts[0].group, level))
    counts = Counter(level for _, level in levels)
    usable = [(group, level >= USABLE_FROM) for group, level in levels]
    return ModelItems(
        model=model,
        answers=len(answers),
        share=_clipped(_mean(shares, False, how)),
        levels=[counts[level] for level in range(1, LEVELS + 1)],
        usable=_mean(usable, True, how) if usable else None,
    )


def _clipped(value: Estimate) -> Estimate:
    """HealthBench clips the mean of a set, and so the ends of its interval, to 0..1."""

    def clip(number: float | None) -> float | None:
        return None if number is None else min(max(number, 0.0), 1.0)

    return {"value": clip(value["value"]), "low": clip(value["low"]), "high": clip(value["high"])}


def _mean(values: Sequence[tuple[str, float]], share: bool, how: Resampling) -> Estimate:
    """The mean of (conversation, value) with its interval."""
    groups, numbers = np.array([group for group, _ in values]), np.array([value for _, value in values], dtype=float)
    return mean_estimate(numbers, groups, share, **how)


def _against_physicians(verdicts: Sequence[Verdict], how: Resampling) -> PhysicianItemStudy | None:
    decided = [verdict for verdict in verdicts if verdict.consensus is not None]
    if not decided:
        return None
    raters = sorted({rater for verdict in verdicts for rater in verdict.physicians})
    several = [verdict for verdict in verdicts if len(verdict.physicians) > 1]
    with_judge = [(verdict, verdict.met, bool(verdict.consensus)) for verdict in decided]
    # Each two raters are counted both ways round, so that no rater is the first.
    pairs = [(verdict, pair) for verdict in several for pair in combinations(verdict.physicians.values(), 2)]
    with_each_other = [(verdict, *sides) for verdict, pair in pairs for sides in (pair, pair[::-1])]
    by_item = [
        AgreementOnItem(
            question_id=question_id,
            item=item,
            verdicts=len(own),
            disagreements=sum(verdict.disagrees for verdict in own),
        )
        for (question_id, item), own in grouped(decided, lambda each: (each.answer.question_id, each.item.text)).items()
    ]
    return PhysicianItemStudy(
        raters=raters,
        constructed=raters == [CONSTRUCTED],
        judge=_agreement(with_judge, how),
        by_theme={theme: _agreement(own, how) for theme, own in grouped(with_judge, lambda row: row[0].theme).items()},
        by_item=sorted(by_item, key=lambda row: -row.disagreements / row.verdicts),
        among=_agreement(with_each_other, how) if several else None,
        alt_test=_alt_test(several, raters) if several else None,
    )


def _agreement(rows: Sequence[tuple[Verdict, bool, bool]], how: Resampling) -> ItemAgreement:
    groups = np.array([verdict.group for verdict, _, _ in rows])
    first, second = np.array([sides for _, *sides in rows]).T
    measured = met_agreement(first, second, groups, **how)
    items = {(verdict.answer, verdict.item.text) for verdict, _, _ in rows}
    return ItemAgreement(verdicts=len(items), answers=len({answer for answer, _ in items}), **measured)


def _alt_test(several: Sequence[Verdict], raters: list[str]) -> AltTest:
    """Could the judge replace one of the physicians on items? A verdict is taken as a usable or an unusable level."""
    level = {True: float(LEVELS), False: 1.0, None: np.nan}
    judge = np.array([level[verdict.met] for verdict in several])
    physicians = np.array([[level[verdict.physicians.get(rater)] for rater in raters] for verdict in several])
    return alt_test(judge, physicians, np.array([verdict.group for verdict in several]), names=raters)
