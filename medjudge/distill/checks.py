"""Checks of a training set before a judge is trained on it: duplicates across the split, balance, length."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.stats import spearmanr

from medjudge.errors import InputError
from medjudge.records import Question, TrainingLine
from medjudge.scale import LEVELS, USABLE_FROM

FEWEST_LINES = 8
"""Training lines below which there is not one batch."""
NEARLY_SAME = 0.8
"""Jaccard similarity of two texts' five-character pieces from which they count as nearly the same."""
LENGTH_LIMIT = 0.3
"""Rank correlation of length and level, up or down, from which a judge may learn length."""

_FEWEST_FOR_LENGTH = 30
_PIECE = 5
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
        "balance": {"train": _balance(train), "validation": _balance(validation)},
        "length": _lengths([*train, *validation]),
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
    if report["balance"]["validation"]["largest_share"] == 1:
        yield f"validation has level {validation[0].level} only: kappa cannot choose a checkpoint"
    for group, lengths in (*report["length"]["by_language"].items(), *report["length"]["by_source"].items()):
        correlation = lengths["spearman"]
        if correlation is not None and abs(correlation) >= LENGTH_LIMIT:
            yield (
                f"{group}: {'longer' if correlation > 0 else 'shorter'} answers have higher levels (Spearman "
                f"{correlation:.2f}, limit {LENGTH_LIMIT}): the judge may learn length"
            )


def questions_to_keep_out(questions: Sequence[Question], ids: Collection[str], prompts: Collection[str]) -> set[str]:
    """The ids of questions that no line may be made of, for the sake of an expert-scored set.

    Args:
        ids: Question ids of that set.
        prompts: Texts of its questions, where they are known: the same question can go by another id.

    Returns:
        Those questions, the same texts, and the other turns of their conversations.
    """
    texts = {_plain(prompt) for prompt in prompts}
    groups = {question.group for question in questions if question.id in ids or _plain(question.prompt) in texts}
    return {question.id for question in questions if question.group in groups}


def near_duplicates(texts: Sequence[str], others: Sequence[str], at_least: float = NEARLY_SAME) -> list[NearDuplicate]:
    """The texts that are nearly the same as one of the others, each with its closest.

    Similarity is Jaccard's, of the sets of five-character pieces (Broder, 1997). Candidates come from sketches, the 96
    smallest hashes of a set, which share about 96 times the similarity; a pair just above the limit can be missed.

    Args:
        texts: Any number, such as 26,000 answers of 1,300 characters: about 10 s.
        at_least: 0 to 1.
    """
    first, second = ([_pieces(_plain(text)) for text in side] for side in (texts, others))
    left, right = _sketches(first, second)
    duplicates = []
    for start in range(0, len(texts), _ROWS_AT_ONCE):
        shared = (left[start : start + _ROWS_AT_ONCE] @ right.T).tocsr()
        for row in range(shared.shape[0]):
            counts = shared.data[shared.indptr[row] : shared.indptr[row + 1]]
            text = start + row
            if len(counts) == 0 or counts.max() < 0.7 * at_least * min(_SKETCH, len(first[text])):
                continue
            other = int(shared.indices[shared.indptr[row] + int(np.argmax(counts))])
            both = len(np.intersect1d(first[text], second[other], assume_unique=True))
            similarity = both / (len(first[text]) + len(second[other]) - both)
            if similarity >= at_least:
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
    return {"near": len(found), "same": sum(duplicate.similarity == 1 for duplicate in found), "pairs": pairs}


def _balance(lines: Sequence[TrainingLine]) -> dict[str, Any]:
    shares = {
        str(level): round(sum(line.level == level for line in lines) / len(lines), 3) for level in range(1, LEVELS + 1)
    }
    usable = round(sum(line.level >= USABLE_FROM for line in lines) / len(lines), 3)
    return {"levels": shares, "largest_share": max(shares.values()), "usable": usable}


def _lengths(lines: Sequence[TrainingLine]) -> dict[str, Any]:
    """The prediction of an answer's level by its length alone: by language, and by source."""
    by_language: dict[str, list[TrainingLine]] = {}
    by_source: dict[str, list[TrainingLine]] = {}
    for line in lines:
        by_language.setdefault(line.question.language, []).append(line)
        by_source.setdefault(line.source, []).append(line)
    return {
        "limit": LENGTH_LIMIT,
        "by_language": {name: _length_report(own) for name, own in sorted(by_language.items())},
        "by_source": {name: _length_report(own) for name, own in sorted(by_source.items())},
    }


def _length_report(lines: Sequence[TrainingLine]) -> dict[str, Any]:
    length = np.array([len(line.answer.text) for line in lines])
    level = np.array([line.level for line in lines])
    usable = (level >= USABLE_FROM)[np.argsort(length, kind="stable")]
    # Right where all up to a cut are called unusable and all after it usable; or the other way round. A cut lies
    # between two lengths, never between two answers of one length.
    right = np.concatenate([[0], np.cumsum(~usable)]) + usable.sum() - np.concatenate([[0], np.cumsum(usable)])
    cut = np.concatenate([[True], np.diff(np.sort(length)) > 0, [True]])
    best = max(right[cut].max(), (len(lines) - right[cut]).max()) / len(lines)
    defined = len(lines) >= _FEWEST_FOR_LENGTH and len(set(length)) > 1 and len(set(level)) > 1
    return {
        "answers": len(lines),
        "spearman": round(float(spearmanr(length, level).statistic), 3) if defined else None,
        "usable_by_length": round(float(best), 3),
        "usable_by_majority": round(float(max(usable.mean(), 1 - usable.mean())), 3),
    }


def _plain(text: str) -> str:
    """The text without case and punctuation; Chinese also without spaces."""
    return _BETWEEN_CHINESE.sub("", " ".join(re.findall(r"\w+", text.casefold())))


def _content(line: TrainingLine) -> tuple[str, ...]:
    """Question and answer without case and kind of space; punctuation stays, for "< 4 g" is not "> 4 g"."""
    return tuple(" ".join(text.casefold().split()) for text in (line.question.prompt, line.answer.text))


def _pieces(text: str) -> np.ndarray:
    """The hashes of all runs of five characters, sorted and once each, uint64."""
    codes = np.frombuffer(text.ljust(_PIECE).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
    hashes = np.zeros(len(codes) - _PIECE + 1, dtype=np.uint64)
    for offset in range(_PIECE):
        # The multipliers of splitmix64 (Steele, Lea and Flood, 2014): which of these hashes are small is arbitrary.
        hashes = (hashes ^ codes[offset : len(codes) - _PIECE + 1 + offset]) * np.uint64(0xBF58476D1CE4E5B9)
        hashes ^= hashes >> np.uint64(27)
        hashes *= np.uint64(0x94D049BB133111EB)
        hashes ^= hashes >> np.uint64(31)
    return np.unique(hashes)


def _sketches(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> tuple[csr_array, csr_array]:
    """The smallest hashes of each text, shapes (texts, hashes)."""
    smallest = [pieces[:_SKETCH] for pieces in (*first, *second)]
    hashes, column = np.unique(np.concatenate(smallest), return_inverse=True)
    starts = np.concatenate([[0], np.cumsum([len(hashes_of_text) for hashes_of_text in smallest])])
    ones = np.ones(len(column), dtype=np.int32)
    table = csr_array((ones, column, starts), shape=(len(smallest), len(hashes)))
    return table[: len(first)], table[len(first) :]
