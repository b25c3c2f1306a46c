"""The table of the built-in judge: agreement with experts on questions it did not see, and verdicts on claims."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from built_in_data import folds, read_sets
from built_in_table import FOLDS
from reader_examples import VERDICTS, Example, fold_of, level_of
from reader_heads import Seen, features_of, head_of, levels_by
from reader_lessons import Material
from reader_measures import auc_interval, interval
from scipy.stats import spearmanr
from sklearn.metrics import cohen_kappa_score, f1_score

from medjudge.judge.ordinal import probabilities
from medjudge.judge.reader import Reader
from medjudge.scale import USABLE_FROM, median_level


def agreement(seen: Seen, cumulative: np.ndarray) -> dict[str, Any]:
    """Agreement of median levels with the experts', with intervals over questions, and the untrained baseline."""
    rows = probabilities(torch.from_numpy(cumulative)).numpy()
    level, groups = np.array([level_of(each) for each in seen.examples]), [each.group for each in seen.examples]
    judged = np.array([median_level(row) for row in rows])
    expected = rows @ np.arange(1, 6)
    usable, called = level >= USABLE_FROM, judged >= USABLE_FROM
    return {
        "answers": len(level),
        "usable_agreement": interval(groups, lambda at: (usable == called)[at].mean()),
        "cohen_kappa": interval(groups, lambda at: cohen_kappa_score(usable[at], called[at])),
        "spearman": interval(groups, lambda at: spearmanr(expected[at], level[at])[0]),
        "bias": interval(groups, lambda at: (judged - level)[at].mean()),
        "spearman of the untrained cosine": interval(groups, lambda at: spearmanr(seen.cosine[at], level[at])[0]),
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
    """MEDIQA's and LiveQA's answers by the head of their fold."""
    alone, examples = seen["scored-alone"], seen["scored-alone"].examples
    cumulative = {
        "": held_out(seen, material),
        " without second opinion": held_out(seen, material, second=False),
    }
    table = {}
    for name, rows in cumulative.items():
        for source in ("mediqa", "liveqa"):
            some = measured_of(examples, material, source)
            table[f"{source} folds{name}"] = agreement(alone.chosen(some), rows[some])
    some = measured_of(examples, material, "liveqa")
    with_references = held_out(seen, material, "scored")
    table["liveqa folds with references"] = agreement(seen["scored"].chosen(some), with_references[some])
    second = np.repeat(np.nan_to_num(alone.opinions)[:, None], 4, axis=1)
    some = measured_of(examples, material, "mediqa")
    table["mediqa folds, second opinion only"] = agreement(alone.chosen(some), second[some])
    return table


def claims_table(reader: Reader, material: Material) -> dict[str, Any]:
    """The held-out claims made by rule: the area under the curve of supported against the rest, by kind of change."""
    seen = features_of(reader, material, "claims-held")
    supported = np.array([example.verdict == 0 for example in seen.examples])
    kinds = np.array([example.source.split("/")[1] for example in seen.examples])
    groups = np.array([example.group for example in seen.examples])

    def row(chosen: np.ndarray) -> dict[str, Any]:
        return {
            "claims": int((chosen & ~supported).sum()),
            "auc": auc_interval(seen.verdicts[chosen, 0], supported[chosen], list(groups[chosen])),
            "auc of the untrained nearness": auc_interval(
                seen.nearness[chosen], supported[chosen], list(groups[chosen])
            ),
        }

    table = {"all": row(np.ones(len(kinds), bool))}
    for language in ("en", "zh"):
        table[language] = row(np.array([example.language == language for example in seen.examples]))
    for kind in sorted(set(kinds) - {"none"}):
        table[kind] = row((kinds == kind) | supported)
    return table


def healthver_table(readers: dict[int, Reader], material: Material) -> dict[str, Any]:
    """HealthVer's claims by readers that did not learn from their fold.

    Args:
        readers: By the fold that each left out.
    """
    pairs = material.examples("healthver")
    of_claim = fold_of([example for example, _ in pairs], FOLDS, 0)
    rows, groups, verdicts, baseline = [], [], [], []
    for fold, reader in readers.items():
        seen = features_of(reader, material, "healthver", name=f"healthver-{fold}")
        mine = np.array([of_claim[example.group] == fold for example in seen.examples])
        some = seen.chosen(mine)
        rows.append(some.verdicts)
        groups += [example.group for example in some.examples]
        verdicts += [example.verdict for example in some.examples]
        baseline.append(some.nearness)
    chances, truth, near = np.concatenate(rows), np.array(verdicts), np.concatenate(baseline)
    said, supported = chances.argmax(axis=1), truth == VERDICTS["Supports"]
    return {
        "claims": len(set(groups)),
        "pairs": len(truth),
        "folds": sorted(readers),
        "macro_f1": interval(groups, lambda at: f1_score(truth[at], said[at], average="macro")),
        "auc of supported": auc_interval(chances[:, 0], supported, groups),
        "auc of the untrained nearness": auc_interval(near, supported, groups),
    }
