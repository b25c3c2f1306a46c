"""Checks of a training set before a judge is trained on it: duplicates across the split, levels, length."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.sparse import csr_array
from scipy.stats import spearmanr

from medjudge.errors import InputError
from medjudge.records import Question, TrainingLine

FEWEST_LINES = 8
"""Training lines below which there is not one batch."""
NEARLY_SAME = 0.8
"""Jaccard similarity of two texts' five-character pieces from which they count as nearly the same."""
LENGTH_LIMIT = 0.3
"""Rank correlation of length and level, up or down, from which a judge may learn length."""

_FEWEST_FOR_LENGTH = 30
_PIECE = 5
_MULTIPLIERS = np.random.default_rng(0).integers(2**64, size=_PIECE, dtype=np.uint64) | np.uint64(1)
"""Of a multilinear hash modulo 2**64 (Carter and Wegman, 1979): which hashes are small is arbitrary."""
_SKETCH = 96
_LISTED = 50
_ROWS_AT_ONCE = 512
_BETWEEN_CHINESE = re.compile(r"(?<=[\u3400-\u9fff]) (?=[\u3400-\u9fff])")


class Checked(NamedTuple):
    """The training lines that stay, what the checks found, and warnings for the user, one line each."""

    train: list[TrainingLine]
    report: dict[str, Any]
    warnings: list[str]


class NearDuplicate(NamedTuple):
    """A text and the most similar one of the other side, by number; 1 is the same but for case and punctuation."""

    text: int
    other: int
    similarity: float


def check_training_set(train: Sequence[TrainingLine], validation: Sequence[TrainingLine]) -> Checked:
    """Runs all checks; removes from training what is in validation with the same question and the same answer.

    Raises:
        InputError: No judge could be trained on this: fewer lines than a batch, or one level only.
    """
    held_out = {_content(line): list(line.answer.key) for line in reversed(validation)}
    leaked = [
        {"train": list(line.answer.key), "validation": held_out[_content(line)]}
        for line in train
        if _content(line) in held_out
    ]
    train = [line for line in train if _content(line) not in held_out]
    if len(train) < FEWEST_LINES:
        raise InputError(
            f"{len(train)} training answers are fewer than a batch of {FEWEST_LINES}; score more, or add --synthetic N"
        )
    if len({line.level for line in train}) == 1:
        raise InputError(
            f"all {len(train)} training answers have level {train[0].level}, and one level teaches nothing; score "
            "answers of other quality, or add --synthetic N"
        )
    sides = (train, validation)
    report: dict[str, Any] = {
        "duplicates": {
            "removed": {"answers": len(leaked), "pairs": leaked[:_LISTED]},
            "questions": _near(*({(line.question.id,): line.question.prompt for line in side} for side in sides)),
            "answers": _near(*({line.answer.key: line.answer.text for line in side} for side in sides)),
        },
        "length": _length_correlations([*train, *validation]),
    }
    return Checked(train, report, list(_warnings(report, train, validation)))


def _warnings(
    report: Mapping[str, Any], train: Sequence[TrainingLine], validation: Sequence[TrainingLine]
) -> Iterator[str]:
    questions, answers = report["duplicates"]["questions"], report["duplicates"]["answers"]
    if questions["near"]:
        ((name,), (other,)) = (questions["pairs"][0][side] for side in ("train", "validation"))
        yield (
            f"{questions['near']} training questions are nearly word for word in validation, such as {name} and "
            f"{other}: its scores flatter the judge"
        )
    if answers["near"] > 0.01 * len(train):
        yield f"{answers['near']} training answers are nearly the same as validation answers"
    if len({line.level for line in validation}) == 1:
        yield f"validation has level {validation[0].level} only: kappa cannot choose a checkpoint"
    for group, correlation in report["length"].items():
        if correlation is not None and abs(correlation) >= LENGTH_LIMIT:
            yield (
                f"{group}: {'longer' if correlation > 0 else 'shorter'} answers have higher levels (Spearman "
                f"{correlation:.2f}, limit {LENGTH_LIMIT}): the judge may learn length"
            )


def questions_to_keep_out(questions: Sequence[Question], ids: Collection[str], prompts: Collection[str]) -> set[str]:
    """The ids of questions that no line may be made of: those of an expert-scored set, and their conversations.

    `prompts` are the texts of the set's questions, where they are known: the same question can go by another id.
    """
    texts = {_plain(prompt) for prompt in prompts}
    groups = {question.group for question in questions if question.id in ids or _plain(question.prompt) in texts}
    return {question.id for question in questions if question.group in groups}


def near_duplicates(texts: Sequence[str], others: Sequence[str]) -> list[NearDuplicate]:
    """The texts that are nearly the same as one of the others, each with its closest.

    Similarity is Jaccard's, of the sets of five-character pieces (Broder, 1997). Candidates come from sketches, the 96
    smallest hashes of a set, which share about 96 times the similarity; a pair just above the limit can be missed.

    Args:
        texts: Any number, such as 26,000 answers of 1,300 characters: about 10 s.
    """
    first, second = ([_pieces(_plain(text)) for text in side] for side in (texts, others))
    smallest = [pieces[:_SKETCH] for pieces in (*first, *second)]
    hashes, column = np.unique(np.concatenate(smallest), return_inverse=True)
    starts = np.concatenate([[0], np.cumsum([len(hashes_of_text) for hashes_of_text in smallest])])
    ones = np.ones(len(column), dtype=np.int32)
    table = csr_array((ones, column, starts), shape=(len(smallest), len(hashes)))  # texts by hashes
    left, right = table[: len(first)], table[len(first) :]
    duplicates = []
    for start in range(0, len(texts), _ROWS_AT_ONCE):
        shared = (left[start : start + _ROWS_AT_ONCE] @ right.T).tocsr()
        for row in range(shared.shape[0]):
            counts = shared.data[shared.indptr[row] : shared.indptr[row + 1]]
            text = start + row
            if len(counts) == 0 or counts.max() < 0.7 * NEARLY_SAME * min(_SKETCH, len(first[text])):
                continue
            other = int(shared.indices[shared.indptr[row] + int(np.argmax(counts))])
            both = len(np.intersect1d(first[text], second[other], assume_unique=True))
            similarity = both / (len(first[text]) + len(second[other]) - both)
            if similarity >= NEARLY_SAME:
                duplicates.append(NearDuplicate(text, other, round(similarity, 3)))
    return duplicates


def _near(train: Mapping[Any, str], validation: Mapping[Any, str]) -> dict[str, Any]:
    """The texts that are nearly the same on both sides, by the parts of their names; they stay where they are."""
    found = near_duplicates(list(train.values()), list(validation.values()))
    names, others = list(train), list(validation)
    pairs: list[dict[str, Any]] = [
        {"train": list(names[text]), "validation": list(others[other]), "similarity": similarity}
        for text, other, similarity in sorted(found, key=lambda duplicate: -duplicate.similarity)[:_LISTED]
    ]
    return {"near": len(found), "pairs": pairs}


def _length_correlations(lines: Sequence[TrainingLine]) -> dict[str, float | None]:
    """Spearman's rank correlation of an answer's length and level, for each language and each source."""
    groups: dict[str, list[TrainingLine]] = {}
    for line in lines:
        for name in (line.question.language, line.source):
            groups.setdefault(name, []).append(line)
    correlations: dict[str, float | None] = {}
    for name, own in sorted(groups.items()):
        length, level = [len(line.answer.text) for line in own], [line.level for line in own]
        defined = len(own) >= _FEWEST_FOR_LENGTH and len(set(length)) > 1 and len(set(level)) > 1
        correlations[name] = round(float(spearmanr(length, level).statistic), 3) if defined else None
    return correlations


def _plain(text: str) -> str:
    """The text without case and punctuation; Chinese also without spaces."""
    return _BETWEEN_CHINESE.sub("", " ".join(re.findall(r"\w+", text.casefold())))


def _content(line: TrainingLine) -> tuple[str, ...]:
    """Question and answer without case and kind of space; punctuation stays, for "< 4 g" is not "> 4 g"."""
    return tuple(" ".join(text.casefold().split()) for text in (line.question.prompt, line.answer.text))


def _pieces(text: str) -> np.ndarray:
    """The hashes of all runs of five characters, sorted and once each, uint64."""
    codes = np.frombuffer(text.ljust(_PIECE).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
    return np.unique(sliding_window_view(codes, _PIECE) @ _MULTIPLIERS)
