"""Looks at a training set before a judge is trained on it: duplicates across the split, balance, length."""

import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.stats import spearmanr

from medjudge.errors import InputError
from medjudge.records import Question, TrainingLine
from medjudge.scale import USABLE_FROM

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
    """The training lines that stay, what the checks found, and what a user should know of it, a line each."""

    train: list[TrainingLine]
    report: dict[str, Any]
    warnings: list[str]


class Near(NamedTuple):
    """A text and the most similar one of the other side; 1 is the same but for case, spaces and punctuation."""

    one: int
    other: int
    similarity: float


def check_training_set(train: Sequence[TrainingLine], validation: Sequence[TrainingLine]) -> Checked:
    """Runs all checks; takes out of training what stands in validation with the same question and the same answer.

    Raises:
        InputError: No judge could be trained on this: fewer lines than a batch, or one level only.
    """
    there = {_content(line): line for line in reversed(validation)}
    twice = [(line, there[_content(line)]) for line in train if _content(line) in there]
    kept = [line for line in train if _content(line) not in there]
    duplicates, warnings = _duplicates(kept, validation)
    if twice:
        of_both = [{"train": _name(one), "validation": _name(other)} for one, other in twice[:_LISTED]]
        duplicates["removed"] = {"answers": len(twice), "pairs": of_both}
    _require_trainable(kept)
    balance = {"train": _balance(kept), "validation": _balance(validation)}
    if balance["validation"]["largest_share"] == 1:
        warnings.append(f"validation holds level {validation[0].level} only: kappa cannot choose a checkpoint")
    length, of_length = _lengths([*kept, *validation])
    report = {"duplicates": duplicates, "balance": balance, "length": length}
    return Checked(kept, report, warnings + of_length)


def kept_out(questions: Sequence[Question], ids: Collection[str], prompts: Collection[str]) -> set[str]:
    """The ids of questions that no line may be made of, for the sake of an expert-scored set.

    Args:
        ids: Question ids of that set.
        prompts: Texts of its questions, where they are known: the same question can go by another id.

    Returns:
        Those questions, the same texts, and the other turns of their conversations.
    """
    texts = {_plain(prompt) for prompt in prompts}
    groups = {one.group for one in questions if one.id in ids or _plain(one.prompt) in texts}
    return {one.id for one in questions if one.group in groups}


def near_duplicates(texts: Sequence[str], others: Sequence[str], at_least: float = NEARLY_SAME) -> list[Near]:
    """The texts that are nearly the same as one of the others, each with its closest.

    Similarity is Jaccard's, of the sets of five-character pieces (Broder, 1997). Candidates come from sketches, the 96
    smallest hashes of a set, which share about 96 times the similarity; a pair just above the limit can be missed.

    Args:
        texts: Any number, such as 26,000 answers of 1,300 characters: about 10 s.
        at_least: 0 to 1.
    """
    first, second = ([_pieces(_plain(text)) for text in side] for side in (texts, others))
    left, right = _sketches(first, second)
    found = []
    for start in range(0, len(texts), _ROWS_AT_ONCE):
        shared = (left[start : start + _ROWS_AT_ONCE] @ right.T).tocsr()
        for row in range(shared.shape[0]):
            counts = shared.data[shared.indptr[row] : shared.indptr[row + 1]]
            one = start + row
            if len(counts) == 0 or counts.max() < 0.7 * at_least * min(_SKETCH, len(first[one])):
                continue
            other = int(shared.indices[shared.indptr[row] + int(np.argmax(counts))])
            both = len(np.intersect1d(first[one], second[other], assume_unique=True))
            similarity = both / (len(first[one]) + len(second[other]) - both)
            if similarity >= at_least:
                found.append(Near(one, other, round(similarity, 3)))
    return found


def _require_trainable(train: Sequence[TrainingLine]) -> None:
    if len(train) < FEWEST_LINES:
        raise InputError(
            f"{len(train)} training answers are fewer than a batch of {FEWEST_LINES}; score more, or add --synthetic N"
        )
    if len({line.level for line in train}) == 1:
        raise InputError(
            f"all {len(train)} training answers have level {train[0].level}, and one level teaches nothing; score "
            "answers of other quality, or add --synthetic N"
        )


def _duplicates(train: Sequence[TrainingLine], validation: Sequence[TrainingLine]) -> tuple[dict[str, Any], list[str]]:
    """Answers, and question texts, that stand on both sides or nearly so; they stay where they are."""
    sides = [{line.question.id: line.question for line in side} for side in (train, validation)]
    asked, held = ([one.prompt for one in side.values()] for side in sides)
    names, held_names = (list(side) for side in sides)
    questions = near_duplicates(asked, held)
    answers = near_duplicates([line.answer.text for line in train], [line.answer.text for line in validation])
    report = {
        "removed": {"answers": 0, "pairs": []},
        "questions": _listed(questions, [[name] for name in names], [[name] for name in held_names]),
        "answers": _listed(answers, [_name(line) for line in train], [_name(line) for line in validation]),
    }
    warnings = []
    if questions:
        one = questions[0]
        warnings.append(
            f"{len(questions)} training questions stand nearly word for word in validation, such as "
            f"{names[one.one]} and {held_names[one.other]}: its scores flatter the judge"
        )
    if len(answers) > 0.01 * len(train):
        warnings.append(f"{len(answers)} training answers are nearly those of validation answers")
    return report, warnings


def _listed(found: Sequence[Near], names: Sequence[list[Any]], others: Sequence[list[Any]]) -> dict[str, Any]:
    worst = sorted(found, key=lambda one: -one.similarity)[:_LISTED]
    pairs = [{"train": names[one], "validation": others[other], "similarity": how} for one, other, how in worst]
    return {"near": len(found), "same": sum(one.similarity == 1 for one in found), "pairs": pairs}


def _balance(lines: Sequence[TrainingLine]) -> dict[str, Any]:
    shares = {str(level): round(sum(line.level == level for line in lines) / len(lines), 3) for level in range(1, 6)}
    usable = round(sum(line.level >= USABLE_FROM for line in lines) / len(lines), 3)
    return {"levels": shares, "largest_share": max(shares.values()), "usable": usable}


def _lengths(lines: Sequence[TrainingLine]) -> tuple[dict[str, Any], list[str]]:
    """How well an answer's length alone predicts its level: by language, and by source."""
    report: dict[str, Any] = {"limit": LENGTH_LIMIT, "by_language": {}, "by_source": {}}
    warnings = []
    kinds: dict[str, list[str]] = {
        "by_language": [line.question.language for line in lines],
        "by_source": [line.source for line in lines],
    }
    for by, names in kinds.items():
        for name in sorted(set(names)):
            found = _length_predicts([line for line, its in zip(lines, names, strict=True) if its == name])
            report[by][name] = found
            if found["spearman"] is not None and abs(found["spearman"]) >= LENGTH_LIMIT:
                warnings.append(
                    f"{name}: {'longer' if found['spearman'] > 0 else 'shorter'} answers have higher levels (Spearman "
                    f"{found['spearman']:.2f}, limit {LENGTH_LIMIT}): the judge may learn length"
                )
    return report, warnings


def _length_predicts(lines: Sequence[TrainingLine]) -> dict[str, Any]:
    """`usable_by_length` is the best agreement at usable of one cut in length; `usable_by_majority` of none."""
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


def _name(line: TrainingLine) -> list[Any]:
    return list(line.answer.key)


def _pieces(text: str) -> np.ndarray:
    """The hashes of all runs of five characters, sorted and once each, uint64."""
    codes = np.frombuffer(text.ljust(_PIECE).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
    hashes = np.zeros(len(codes) - _PIECE + 1, dtype=np.uint64)
    for place in range(_PIECE):
        # The multipliers of splitmix64 (Steele, Lea and Flood, 2014): what is small of these hashes is arbitrary.
        hashes = (hashes ^ codes[place : len(codes) - _PIECE + 1 + place]) * np.uint64(0xBF58476D1CE4E5B9)
        hashes ^= hashes >> np.uint64(27)
        hashes *= np.uint64(0x94D049BB133111EB)
        hashes ^= hashes >> np.uint64(31)
    return np.unique(hashes)


def _sketches(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> tuple[csr_array, csr_array]:
    """Which of the smallest hashes each text has, shapes (texts, hashes)."""
    smallest = [pieces[:_SKETCH] for pieces in (*first, *second)]
    hashes, column = np.unique(np.concatenate(smallest), return_inverse=True)
    starts = np.concatenate([[0], np.cumsum([len(one) for one in smallest])])
    ones = np.ones(len(column), dtype=np.int32)
    table = csr_array((ones, column, starts), shape=(len(smallest), len(hashes)))
    return table[: len(first)], table[len(first) :]
