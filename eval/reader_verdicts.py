"""How a verdict weighs what the point reader's layers say against nearness.

Claims made by rule teach the layers what a change of a fact is; they lie equally near whatever their verdict. Of real
answers nobody knows which points they meet, but experts said how good they are, and an answer that meets more points
should be better. The weights, 21 numbers, are fitted to such answers and to held-out claims and contrasts; those of the
readers for HealthVer's folds to claims, HealthVer's claims and points in other words.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from reader_examples import Example, fold_of
from reader_lessons import FOLDS, Material
from reader_points import finished, load, second_stage
from reader_words import authors_of, is_in_company
from safetensors.torch import load_file, save_file
from torch.nn import functional

from medjudge.judge.point_reader import POINTS_FILE, PointReader
from medjudge.judge.reader import collate
from medjudge.models.hardware import fast_autocast

HELD_FOR_WEIGHTS = 5
"""One in so many held-out documents and subjects fits the weights; the others are measured."""
LEVELS_WEIGHT = 3.0
"""Of a set of answers with a level, relative to a set with verdicts. A higher one favours nearness, a lower one the
layers. For 1, 2, 3 and 5: Spearman correlation with LiveQA's levels 0.49, 0.52, 0.53, 0.54; AUC on claims 0.92, 0.91,
0.91, 0.90; AUC on contrasts beside other passages 0.76, 0.75, 0.75, 0.74."""
_BATCH, _STEPS, _RATE, _DECAY = 96, 400, 0.05, 1e-3


class Pieces(NamedTuple):
    """The pieces of points of some examples.

    Attributes:
        examples: Shape (n,).
        owner: The index of the example of each piece, (pieces,).
        numbers: What a verdict weighs, (pieces, 6).
    """

    examples: list[Example]
    owner: np.ndarray
    numbers: np.ndarray

    def chosen(self, rows: np.ndarray) -> "Pieces":
        """Those of some examples, by a mask, (n,)."""
        numbers = np.cumsum(rows) - 1
        some = rows[self.owner]
        return Pieces(
            [each for each, taken in zip(self.examples, rows, strict=True) if taken],
            numbers[self.owner[some]],
            self.numbers[some],
        )


class Weights(NamedTuple):
    """Weights, (3, 6), and biases, (3,), of what a verdict weighs."""

    weights: np.ndarray
    biases: np.ndarray


def weighted(work: Path, material: Material) -> PointReader:
    """The finished reader of points with its weights.

    They come from held-out claims and contrasts, and from what experts said of whole answers.
    """
    points = load(finished(work, material))
    claims, contrasts = (
        pieces.chosen(for_weights(pieces.examples))
        for pieces in (pieces_of(points, material, source, source) for source in ("claims-held", "contrasts-held"))
    )
    company = is_in_company(contrasts.examples)
    known = [claims, contrasts.chosen(~company), contrasts.chosen(company)]
    set_weights(points, fit(known, levels(points, material)))
    return points


def without_folds(work: Path, material: Material) -> dict[int, PointReader]:
    """Readers that did not learn from a fold of HealthVer's claims, with their weights; none learned from contrasts.

    The reader without fold k did not learn from author k of points in other words either. Its weights come from both
    sets as readers judge them that have not seen them; from points in other words as they stand in company, because
    alone nearness misleads more than in answers.
    """
    without = {fold: load(second_stage(work, material, fold)) for fold in range(FOLDS)}
    fold_of_pair = folds_of_healthver(material)
    claims = {
        fold: pieces_of(reader, material, "healthver", f"healthver-{fold}", fold_of_pair == fold)
        for fold, reader in without.items()
    }
    words = {number: own.chosen(is_in_company(own.examples)) for number, own in words_pieces(without, material).items()}
    second = load(second_stage(work, material))
    held = pieces_of(second, material, "claims-held", "second-claims-held")
    held, answers = held.chosen(for_weights(held.examples)), levels(second, material, "second-")
    for fold, reader in without.items():
        unseen = [some for sets in (claims, words) for other, some in sets.items() if other != fold]
        set_weights(reader, fit([held, *unseen], answers))
    return without


def levels(points: PointReader, material: Material, prefix: str = "") -> list[Pieces]:
    """Answers with a level: those of LiveQA, and parallel ones.

    Args:
        prefix: Of the names of the files that keep what the reader says of them.
    """
    parallel = pieces_of(points, material, "parallel", f"{prefix}parallel")
    return [scored_pieces(points, material, f"{prefix}scored"), parallel]


def words_pieces(without: Mapping[int, PointReader], material: Material) -> dict[int, Pieces]:
    """Points in other words by author, as the reader judges them that has not seen the author.

    Args:
        without: By the number of the author, and of the fold, that each left out.
    """
    author = authors_of([example for example, _ in material.examples("words")])
    return {
        int(number): pieces_of(without[int(number)], material, "words", f"words-{number}", author == number)
        for number in np.unique(author)
    }


def scored_pieces(points: PointReader, material: Material, name: str = "scored") -> Pieces:
    """Those of LiveQA's answers to questions with a reference, which experts scored; the references are left out."""
    systems = [bool(example.reference) and example.source == "liveqa" for example, _ in material.examples("scored")]
    return pieces_of(points, material, "scored", name, np.array(systems))


def set_weights(points: PointReader, weights: Weights) -> None:
    """Puts the weights into a reader."""
    with torch.no_grad():
        points.weigh.weight.copy_(torch.from_numpy(weights.weights))
        points.weigh.bias.copy_(torch.from_numpy(weights.biases))


def write(source: Path, points: PointReader, out: Path) -> None:
    """Writes `points.safetensors` of a folder into another one, with the weights of a reader."""
    tensors = load_file(source / POINTS_FILE)
    own = {f"weigh.{name}": value.half() for name, value in points.weigh.state_dict().items()}
    save_file(tensors | own, out / POINTS_FILE)


def pieces_of(
    points: PointReader, material: Material, source: str, name: str, rows: np.ndarray | None = None
) -> Pieces:
    """The pieces of a source's examples; WORK keeps them.

    Args:
        name: Of the file that keeps them.
        rows: Which examples, a mask; all if omitted.
    """
    pairs = material.examples(source)
    pairs = pairs if rows is None else [pair for pair, taken in zip(pairs, rows, strict=True) if taken]
    kept = material.work / f"pieces-{name}.npz"
    if not kept.exists():
        owners, numbers = [], []
        for start in range(0, len(pairs), _BATCH):
            batch = collate([material.lesson(source, *pair).reading for pair in pairs[start : start + _BATCH]])
            with torch.inference_mode(), fast_autocast(torch.device("cpu")):
                some = points.numbers(batch).float().numpy()
            is_point = batch.kind.numpy() > 0
            owners.append(batch.owner.numpy()[is_point] + start)
            numbers.append(some[is_point])
        np.savez(kept, owner=np.concatenate(owners), numbers=np.concatenate(numbers))
    arrays = np.load(kept)
    if len(np.unique(arrays["owner"])) != len(pairs):
        raise ValueError(f"{kept} is of other examples; delete it")
    return Pieces([example for example, _ in pairs], arrays["owner"], arrays["numbers"])


def folds_of_healthver(material: Material) -> np.ndarray:
    """The fold of each of HealthVer's pairs, (n,)."""
    examples = [example for example, _ in material.examples("healthver")]
    of_claim = fold_of(examples, FOLDS, 0)
    return np.array([of_claim[example.group] for example in examples])


def for_weights(examples: Sequence[Example]) -> np.ndarray:
    """Which held-out examples fit the weights, (n,). Pass a source whole: the folds depend on all its groups."""
    of_group = fold_of(examples, HELD_FOR_WEIGHTS, 0)
    return np.array([of_group[example.group] == 0 for example in examples])


def fit(known: Sequence[Pieces], scored: Sequence[Pieces]) -> Weights:
    """The weights of the verdicts.

    Args:
        known: Examples with a verdict; those of each set weigh together as much as those of any other.
        scored: Answers with a level, which the mean probability of met of their points should order; each set of them
            weighs `LEVELS_WEIGHT` times as much as one of `known`.
    """
    weight, bias = torch.eye(3, 6).requires_grad_(), torch.zeros(3, requires_grad=True)
    levels = [torch.tensor([2.0, -1.0, 0.0, 1.0, 2.0]).requires_grad_() for _ in scored]
    optimizer = torch.optim.Adam([weight, bias, *levels], lr=_RATE)
    tables = [torch.from_numpy(each.numbers).float() for each in (*known, *scored)]
    verdicts = [torch.tensor([each.examples[at].verdict for at in each.owner]) for each in known]
    at_least = [torch.tensor([example.label for example in each.examples]).flip(1).cumsum(1).flip(1) for each in scored]
    for _ in range(_STEPS):
        logits = [table @ weight.T + bias for table in tables]
        loss = _DECAY * ((weight - torch.eye(3, 6)) ** 2).sum()
        for own, told in zip(logits, verdicts, strict=False):
            loss = loss + functional.cross_entropy(own, told)
        for each, own, above, level in zip(scored, logits[len(known) :], at_least, levels, strict=True):
            cumulative = level[0].exp() * mean_met(own, each)[:, None] - level[1:]
            lost = functional.binary_cross_entropy_with_logits(cumulative, above[:, 1:].clamp(0, 1))
            loss = loss + LEVELS_WEIGHT * lost
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return Weights(weight.detach().numpy(), bias.detach().numpy())


def logits_of(points: PointReader, pieces: Pieces) -> torch.Tensor:
    """The logits of the verdicts on pieces, (pieces, 3)."""
    with torch.inference_mode():
        logits: torch.Tensor = points.weigh(torch.from_numpy(pieces.numbers).float())
    return logits


def verdicts_of(points: PointReader, pieces: Pieces) -> np.ndarray:
    """The probabilities of met, open and contradicted of the first piece of each example, (n, 3)."""
    first = np.unique(pieces.owner, return_index=True)[1]
    rows: np.ndarray = torch.softmax(logits_of(points, pieces), dim=1).numpy()[first]
    return rows


def of_layers(pieces: Pieces) -> np.ndarray:
    """The same by the layers alone, without nearness, (n, 3)."""
    first = np.unique(pieces.owner, return_index=True)[1]
    rows: np.ndarray = torch.softmax(torch.from_numpy(pieces.numbers[first, :3]), dim=1).numpy()
    return rows


def mean_met(logits: torch.Tensor, pieces: Pieces) -> torch.Tensor:
    """The mean probability of met of the points of each example, (n,)."""
    owner, count = torch.from_numpy(pieces.owner), len(pieces.examples)
    total = logits.new_zeros(count).index_add(0, owner, torch.softmax(logits, dim=1)[:, 0])
    return total / torch.bincount(owner, minlength=count).clamp_min(1)
