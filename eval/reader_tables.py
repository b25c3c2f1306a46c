"""The table of the built-in judge: agreement with experts on questions it did not see, and verdicts on claims."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from built_in_data import folds, read_sets
from built_in_folds import SEEDS
from built_in_table import FOLDS
from reader_claims import shared, tokens
from reader_examples import VERDICTS, Example, fold_of, level_of
from reader_features import Seen
from reader_heads import Usable, fitted_shift, head_of, levels_by, shifted_without, usable_of
from reader_lessons import Material
from reader_measures import auc_interval, interval, mean_nearness
from reader_verdicts import (
    folds_of_healthver,
    for_weights,
    logits_of,
    mean_met,
    of_layers,
    pieces_of,
    scored_pieces,
    verdicts_of,
    words_pieces,
)
from reader_words import authors_of, is_in_company
from scipy.stats import spearmanr
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import cohen_kappa_score, f1_score

from medjudge.judge.alarms import QUIET, SURE
from medjudge.judge.comparison import Reading
from medjudge.judge.evidence import Evidence
from medjudge.judge.level_head import LevelHead
from medjudge.judge.ordinal import probabilities
from medjudge.judge.point_reader import PointReader
from medjudge.judge.reader import Reader, collate
from medjudge.judge.reader_judge import has_points
from medjudge.judge.sure_verdicts import CONTRADICTED, MET, sure_verdicts, with_sure
from medjudge.scale import USABLE_FROM, median_level

_BATCH = 128


def agreement(seen: Seen, *cumulative: np.ndarray) -> dict[str, Any]:
    """Agreement of median levels with the experts', with intervals over questions, and the untrained baseline.

    Args:
        seen: The answers, n of them.
        cumulative: What one or several judges say of them, (n, 4) each; every figure is the mean over the judges.
    """
    rows = [probabilities(torch.from_numpy(each)).numpy() for each in cumulative]
    level, groups = np.array([level_of(each) for each in seen.examples]), [each.group for each in seen.examples]
    judged = np.array([[median_level(row) for row in each] for each in rows])
    expected = np.array([each @ np.arange(1, 6) for each in rows])
    usable, called = level >= USABLE_FROM, judged >= USABLE_FROM
    return {
        "answers": len(level),
        "usable_agreement": interval(groups, lambda at: (usable == called)[:, at].mean()),
        "cohen_kappa": interval(
            groups, lambda at: float(np.mean([cohen_kappa_score(usable[at], each[at]) for each in called]))
        ),
        "spearman": interval(
            groups, lambda at: float(np.mean([spearmanr(each[at], level[at])[0] for each in expected]))
        ),
        "bias": interval(groups, lambda at: (judged - level)[:, at].mean()),
        "spearman, untrained": interval(groups, lambda at: spearmanr(seen.untrained[at], level[at])[0]),
    }


def held_out(seen: dict[str, Seen], material: Material, name: str = "scored-alone", second: bool = True) -> np.ndarray:
    """What the head of each answer's fold says of it, (n, 4): none of them saw its question.

    Args:
        name: `scored`, with LiveQA's references, or `scored-alone`.
        second: Whether second opinions are heard.
    """
    examples = seen[name].examples
    of_group = folds(read_sets(material.work).scored, FOLDS, seed=0)
    fold = np.array([of_group[each.group] for each in examples])
    cumulative = np.zeros((len(examples), 4))
    for number in range(FOLDS):
        head = head_of(seen, fold != number)
        cumulative[fold == number] = levels_by(head, seen[name].chosen(fold == number), second)
    return cumulative


def measured_of(examples: Sequence[Example], material: Material, source: str) -> np.ndarray:
    """Which answers of a source count, (n,): those that no other fold holds word for word."""
    of_group = folds(read_sets(material.work).scored, FOLDS, seed=0)
    held_in: dict[str, set[int]] = {}
    for each in examples:
        held_in.setdefault(_words(each.answer), set()).add(of_group[each.group])
    return np.array([each.source == source and len(held_in[_words(each.answer)]) == 1 for each in examples])


def _words(text: str) -> str:
    return " ".join(text.casefold().split())


def folds_table(seen: dict[str, Seen], material: Material) -> dict[str, Any]:
    """MEDIQA's and LiveQA's answers by the head of their fold; where no name says otherwise, the mean of all seeds."""
    alone = seen["scored-alone"]
    some = {source: measured_of(alone.examples, material, source) for source in ("mediqa", "liveqa")}
    seeds = [of_seed(seen, number) for number in range(len(SEEDS))]
    heard = {
        "": [held_out(each, material) for each in seeds],
        " without alarms": [held_out(quiet(each), material) for each in seeds],
        ", mean opinion of the seeds": [held_out(seen, material)],
        " without second opinion": [held_out(seen, material, second=False)],
    }
    table = {
        f"{source} folds{name}": agreement(alone.chosen(rows), *(each[rows] for each in cumulative))
        for name, cumulative in heard.items()
        for source, rows in some.items()
    }
    with_references = [held_out(each, material, "scored")[some["liveqa"]] for each in seeds]
    table["liveqa folds with references"] = agreement(seen["scored"].chosen(some["liveqa"]), *with_references)
    mediqa = alone.chosen(some["mediqa"])
    opinions = [np.repeat(np.nan_to_num(own)[:, None], 4, axis=1) for own in mediqa.by_seed.T]
    table["mediqa folds, second opinion only"] = agreement(mediqa, *opinions)
    table["mediqa, sure alarms"] = alarms_table(mediqa)
    return table


def alarms_table(seen: Seen) -> dict[str, int]:
    """How many usable and other answers there are, and in how many of them an alarm is sure."""
    usable = np.array([level_of(each) >= USABLE_FROM for each in seen.examples])
    sure = seen.alarms >= SURE
    return {
        "usable": int(usable.sum()),
        "usable with an alarm": int((usable & sure).sum()),
        "unusable": int((~usable).sum()),
        "unusable with an alarm": int((~usable & sure).sum()),
    }


def of_seed(seen: dict[str, Seen], number: int) -> dict[str, Seen]:
    """The same with the second opinions of one of `SEEDS` of the scored answers."""
    return seen | {name: seen[name].with_seed(number) for name in ("scored", "scored-alone")}


def validation_table(head: LevelHead, seen: dict[str, Seen], material: Material) -> dict[str, Any]:
    """MEDIQA's validation file by a head without shifts, with second opinions.

    A shift says nothing of the answers that it was fitted on: each question takes that of the others.
    """
    validation = seen["validation"]
    cumulative = levels_by(head, validation)
    usable = usable_training_answers(seen, material, second=True)
    return agreement(validation, shifted_without(validation, cumulative, usable))


def usable_training_answers(seen: dict[str, Seen], material: Material, second: bool) -> Usable:
    """MEDIQA's training answers, as the head of each one's fold sees them."""
    alone = seen["scored-alone"]
    some = measured_of(alone.examples, material, "mediqa")
    return usable_of(alone.chosen(some), held_out(seen, material, second=second)[some])


def usable_answers_with_references(seen: dict[str, Seen], material: Material) -> Usable:
    """LiveQA's answers of systems with their references, as the head of each one's fold sees them."""
    scored = seen["scored"]
    some = has_points(scored.features) & np.array([each.source == "liveqa" for each in scored.examples])
    return usable_of(scored.chosen(some), held_out(seen, material, "scored")[some])


def usable_auxiliary_answers(head: LevelHead, seen: dict[str, Seen], second: bool) -> list[Usable]:
    """The parallel and the graded answers with points, with a second opinion or without."""
    sets = []
    for source in ("parallel", "graded"):
        rows = has_points(seen[source].features) & (np.isnan(seen[source].opinions) != second)
        heard = seen[source].chosen(rows)
        sets.append(usable_of(heard, levels_by(head, heard, second)))
    return sets


def with_references_table(head: LevelHead, seen: dict[str, Seen], material: Material) -> dict[str, Any]:
    """LiveQA's answers with their references, each fold's with a threshold that follows the others'.

    Args:
        head: Of all answers, without shifts.
    """
    scored, of_group = seen["scored"], folds(read_sets(material.work).scored, FOLDS, seed=0)
    some = has_points(scored.features) & measured_of(scored.examples, material, "liveqa")
    answers, others = scored.chosen(some), usable_auxiliary_answers(head, seen, second=True)
    fold = np.array([of_group[each.group] for each in answers.examples])
    by_seed = []
    for seed in range(len(SEEDS)):
        cumulative = held_out(of_seed(seen, seed), material, "scored")[some]
        usable = usable_of(answers, cumulative)
        for number in range(FOLDS):
            unseen = Usable(usable.logit[fold != number], usable.usable[fold != number])
            cumulative[fold == number] += fitted_shift([*others, unseen], [1.0] * (len(others) + 1), balanced=True)
        by_seed.append(cumulative)
    return agreement(answers, *by_seed)


def records_table(seen: dict[str, Seen]) -> dict[str, Any]:
    """Clinical documents of each author by a head that learned from the other authors', and by one without any.

    Returns:
        By language, the share of answers that are rightly called usable or not: documents about the same patient, and
        about another one.
    """
    records, everyone = seen["records"], np.ones(len(seen["scored"].examples), bool)
    author = np.array([int(example.group.split("-")[1]) for example in records.examples])
    none = head_of(seen | {"records": records.chosen(np.zeros(len(author), bool))}, everyone)
    called = {"": np.zeros(len(author), bool), ", without records": levels_by(none, records)[:, USABLE_FROM - 2] >= 0}
    for number in np.unique(author):
        own = author == number
        head = head_of(seen | {"records": records.chosen(~own)}, everyone)
        called[""][own] = levels_by(head, records.chosen(own))[:, USABLE_FROM - 2] >= 0
    table: dict[str, Any] = {}
    language = np.array([example.language for example in records.examples])
    source = np.array([example.source for example in records.examples])
    for ending, usable in called.items():
        for name, good in (("same patient", True), ("another patient", False)):
            for each in ("en", "zh"):
                rows = np.flatnonzero((language == each) & (source == f"records-{name.split()[0]}-patient"))
                groups = [records.examples[at].group for at in rows]
                table[f"{each}, {name}{ending}"] = interval(groups, _mean_of(usable[rows] == good))
    return table


def _mean_of(values: np.ndarray) -> Callable[[np.ndarray], float]:
    return lambda rows: float(values[rows].mean())


def quiet(seen: dict[str, Seen]) -> dict[str, Seen]:
    """The same without alarms."""
    return {name: each._replace(alarms=np.full(len(each.examples), QUIET)) for name, each in seen.items()}


def claims_table(reader: Reader, points: PointReader, material: Material) -> dict[str, Any]:
    """The held-out claims made by rule: the area under the curve of supported against the rest, by kind of change.

    Those that the verdicts' weights come from are left out.
    """
    pieces = pieces_of(points, material, "claims-held", "claims-held")
    measured = ~for_weights(pieces.examples)
    pairs = [pair for pair, taken in zip(material.examples("claims-held"), measured, strict=True) if taken]
    examples, readings = [example for example, _ in pairs], _readings(pairs, material, "claims-held")
    verdicts = verdicts_of(points, pieces)[measured]
    scores = {
        "auc": with_rules(verdicts, examples, readings)[:, 0],
        "auc without rules": verdicts[:, 0],
        "auc of the layers alone": of_layers(pieces)[measured, 0],
        "auc of the reader of frozen states, without rules": by_reader(reader, readings, lambda met: met[0]),
        "auc of the untrained nearness": mean_nearness(readings),
        "auc of the token overlap": _overlaps(examples),
    }
    supported = np.array([example.verdict == 0 for example in examples])
    kinds = np.array([example.source.split("/")[1] for example in examples])
    groups = np.array([example.group for example in examples])

    def row(chosen: np.ndarray) -> dict[str, Any]:
        areas = {
            name: auc_interval(score[chosen], supported[chosen], list(groups[chosen])) for name, score in scores.items()
        }
        return {"claims": int((chosen & ~supported).sum()), **areas}

    table = {"all": row(np.ones(len(kinds), bool))}
    for language in ("en", "zh"):
        table[language] = row(np.array([example.language == language for example in examples]))
    for kind in sorted(set(kinds) - {"none"}):
        table[kind] = row((kinds == kind) | supported)
    return table


def healthver_table(without_fold: Mapping[int, PointReader], material: Material) -> dict[str, Any]:
    """HealthVer's claims by readers of points that did not learn from their fold.

    Args:
        without_fold: By the fold that each left out.
    """
    fold_of_pair = folds_of_healthver(material)
    examples: list[Example] = []
    chances, alone, near = [], [], []
    for fold, points in without_fold.items():
        mine = fold_of_pair == fold
        pieces = pieces_of(points, material, "healthver", f"healthver-{fold}", mine)
        pairs = [pair for pair, taken in zip(material.examples("healthver"), mine, strict=True) if taken]
        readings = _readings(pairs, material, "healthver")
        chances.append(with_rules(verdicts_of(points, pieces), pieces.examples, readings))
        alone.append(of_layers(pieces))
        near.append(mean_nearness(readings))
        examples += pieces.examples
    rows, groups = np.concatenate(chances), [example.group for example in examples]
    truth, said = np.array([example.verdict for example in examples]), rows.argmax(axis=1)
    of_alone = np.concatenate(alone).argmax(axis=1)
    supported = truth == VERDICTS["Supports"]
    return {
        "claims": len(set(groups)),
        "pairs": len(truth),
        "macro_f1": interval(groups, lambda at: f1_score(truth[at], said[at], average="macro")),
        "macro_f1 of the layers alone": interval(groups, lambda at: f1_score(truth[at], of_alone[at], average="macro")),
        "auc of supported": auc_interval(rows[:, 0], supported, groups),
        "auc of the untrained nearness": auc_interval(np.concatenate(near), supported, groups),
        "auc of the token overlap": auc_interval(_overlaps(examples), supported, groups),
    }


def words_table(without: Mapping[int, PointReader], material: Material) -> dict[str, Any]:
    """Points in other words, by readers that did not learn from their author: passages alone, and in company.

    Args:
        without: By the number of the author that each left out.
    """
    examples: list[Example] = []
    rows, readings = [], []
    pairs = material.examples("words")
    author = authors_of([example for example, _ in pairs])
    for number, pieces in words_pieces(without, material).items():
        own = [pair for pair, by in zip(pairs, author, strict=True) if by == number]
        some = _readings(own, material, "words")
        rows.append(with_rules(verdicts_of(without[number], pieces), pieces.examples, some))
        readings += some
        examples += pieces.examples
    company = is_in_company(examples)
    judged = _Judged(examples, np.concatenate(rows), mean_nearness(readings), by_passage_alone(examples, company))
    return _by_language(judged, ~company) | {"in company": judged.row(company)}


def contrasts_table(points: PointReader, material: Material) -> dict[str, Any]:
    """Contrasts by held-out authors, beside single passages and beside several.

    The subjects that fit the verdicts' weights are left out.
    """
    pairs = material.examples("contrasts-held")
    examples, readings = [example for example, _ in pairs], _readings(pairs, material, "contrasts-held")
    pieces = pieces_of(points, material, "contrasts-held", "contrasts-held")
    rows = with_rules(verdicts_of(points, pieces), examples, readings)
    company, measured = is_in_company(examples), ~for_weights(examples)
    judged = _Judged(examples, rows, mean_nearness(readings), by_passage_alone(examples, company))
    return _by_language(judged, measured & ~company) | {"in company": _by_language(judged, measured & company)}


class _Judged(NamedTuple):
    """Points with verdicts that are known.

    Attributes:
        examples: Shape (n,).
        rows: The probabilities of met, open and contradicted, (n, 3).
        near: The untrained nearness, (n,).
        passage: What the wording of the passage alone tells of met, (n,).
    """

    examples: list[Example]
    rows: np.ndarray
    near: np.ndarray
    passage: np.ndarray

    def row(self, chosen: np.ndarray) -> dict[str, Any]:
        """The agreement of some verdicts, by a mask, with intervals over groups, beside what other cues tell."""
        examples = [self.examples[at] for at in np.flatnonzero(chosen)]
        groups, rows = [each.group for each in examples], self.rows[chosen]
        truth, said = np.array([each.verdict for each in examples]), rows.argmax(axis=1)
        return {
            "points": len(examples),
            "groups": len(set(groups)),
            "macro_f1": interval(groups, lambda at: f1_score(truth[at], said[at], average="macro")),
            "kappa of met": interval(groups, lambda at: cohen_kappa_score(truth[at] == MET, said[at] == MET)),
            "auc of met": auc_interval(rows[:, MET], truth == MET, groups),
            "auc of contradicted": auc_interval(rows[:, CONTRADICTED], truth == CONTRADICTED, groups),
            "auc of met, untrained nearness": auc_interval(self.near[chosen], truth == MET, groups),
            "auc of met, token overlap": auc_interval(_overlaps(examples), truth == MET, groups),
            "auc of met, passage without its point": auc_interval(self.passage[chosen], truth == MET, groups),
        }


def _by_language(judged: _Judged, chosen: np.ndarray) -> dict[str, Any]:
    language = np.array([example.language for example in judged.examples])
    return {"all": judged.row(chosen)} | {name: judged.row(chosen & (language == name)) for name in ("en", "zh")}


def coverage_table(reader: Reader, points: PointReader, material: Material) -> dict[str, Any]:
    """Whether better answers meet more points: LiveQA's answers of systems, by the mean probability of met.

    The verdicts' weights, 21 numbers, have seen these answers' levels; no layer has.
    """
    pairs = [pair for pair in material.examples("scored") if pair[0].reference and pair[0].source == "liveqa"]
    pieces, readings = scored_pieces(points, material), _readings(pairs, material, "scored")
    met = {
        "spearman": mean_met(logits_of(points, pieces), pieces).numpy(),
        "spearman of the layers alone": mean_met(torch.from_numpy(pieces.numbers[:, :3]), pieces).numpy(),
        "spearman of the reader of frozen states": by_reader(reader, readings, np.mean),
        "spearman of the untrained nearness": mean_nearness(readings),
    }
    level, groups = np.array([level_of(each) for each in pieces.examples]), [each.group for each in pieces.examples]
    return {"answers": len(level)} | {name: _spearman(own, level, groups) for name, own in met.items()}


def _spearman(scores: np.ndarray, level: np.ndarray, groups: Sequence[str]) -> dict[str, float]:
    return interval(groups, lambda at: spearmanr(scores[at], level[at])[0])


def _readings(pairs: Sequence[tuple[Example, list[Evidence]]], material: Material, source: str) -> list[Reading]:
    return [material.lesson(source, *pair).reading for pair in pairs]


def by_passage_alone(examples: Sequence[Example], company: np.ndarray) -> np.ndarray:
    """What the wording of a passage tells of whether it meets its point, (n,).

    A logistic regression on the tokens of passages, learned from the groups of the language's other folds; alone and in
    company apart.

    Args:
        examples: Points with verdicts that are known, of at least two groups in each language.
        company: Which of them stand in company, (n,).
    """
    kinds = np.array([f"{example.language} {own}" for example, own in zip(examples, company, strict=True)])
    of_group = fold_of(examples, FOLDS, 0)
    fold = np.array([of_group[example.group] for example in examples])
    met, found = np.array([example.verdict == MET for example in examples]), np.zeros(len(examples))
    for kind, number in sorted(set(zip(kinds.tolist(), fold.tolist(), strict=True))):
        test, train = (kinds == kind) & (fold == number), (kinds == kind) & (fold != number)
        words = CountVectorizer(analyzer=lambda each: tokens(each.answer, each.language), binary=True)
        model = LogisticRegression(C=0.1, max_iter=500)
        model.fit(words.fit_transform([each for each, taken in zip(examples, train, strict=True) if taken]), met[train])
        unseen = words.transform([each for each, taken in zip(examples, test, strict=True) if taken])
        found[test] = model.decision_function(unseen)
    return found


def _overlaps(examples: Sequence[Example]) -> np.ndarray:
    """The share of each claim's tokens that occur in its passage, (n,)."""
    return np.array([shared(example.reference, example.answer, example.language) for example in examples])


def by_reader(reader: Reader, readings: Sequence[Reading], of_answer: Callable[[np.ndarray], float]) -> np.ndarray:
    """What the reader of frozen states makes of the probabilities of met of each answer's points, (n,)."""
    values: list[float] = []
    for start in range(0, len(readings), _BATCH):
        batch = collate(readings[start : start + _BATCH])
        with torch.inference_mode():
            met = torch.softmax(reader(batch).verdicts, dim=1)[:, 0].numpy()
        owner, point = batch.owner.numpy(), batch.kind.numpy() > 0
        values += [float(of_answer(met[point & (owner == at)])) for at in range(owner.max() + 1)]
    return np.array(values)


def with_rules(verdicts: np.ndarray, examples: Sequence[Example], readings: Sequence[Reading]) -> np.ndarray:
    """Verdicts, (n, 3), with those of rules where they are sure."""
    sure = [sure_verdicts(example.texts, reading)[0] for example, reading in zip(examples, readings, strict=True)]
    return with_sure(verdicts, np.array(sure))
