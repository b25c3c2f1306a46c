"""Checks of a training set before a judge is trained on it: duplicates across the split, balance, length."""

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.stats import spearmanr

from medjudge.errors import InputError
from medjudge.records import Question, TrainingLine
from medjudge.scale import LEVELS, USABLE_FROM

FEWEST_LINES = 8
"""Training lines below which there is not one batch."""
LENGTH_LIMIT = 0.3
"""Rank correlation of length and level, up or down, from which a judge may learn length."""

_FEWEST_FOR_LENGTH = 30
_LISTED = 50
_BETWEEN_CHINESE = re.compile(r"(?<=[\u3400-\u9fff]) (?=[\u3400-\u9fff])")


_Key = TypeVar("_Key")
Name = list[str | int]
"""The identity of a question (its id) or an answer (its key) in a report."""


class Checked(NamedTuple):
    """The training lines that stay, what the checks found, and warnings for the user, one line each."""

    train: list[TrainingLine]
    report: dict[str, Any]
    warnings: list[str]


def check_training_set(train: Sequence[TrainingLine], validation: Sequence[TrainingLine]) -> Checked:
    """Runs all checks; removes from training what is in validation with the same question and the same answer.

    Raises:
        InputError: No judge could be trained on this: fewer lines than a batch, or one level only.
    """
    held_out = {_content(line): line for line in reversed(validation)}
    leaked = [(line, held_out[_content(line)]) for line in train if _content(line) in held_out]
    train = [line for line in train if _content(line) not in held_out]
    removed: dict[str, Any] = {
        "answers": len(leaked),
        "pairs": [{"train": _name(line), "validation": _name(twin)} for line, twin in leaked[:_LISTED]],
    }
    duplicates, warnings = _duplicates(train, validation, removed)
    _require_trainable(train)
    balance = {"train": _balance(train), "validation": _balance(validation)}
    length = _lengths([*train, *validation])
    if balance["validation"]["largest_share"] == 1:
        warnings.append(f"validation has level {validation[0].level} only: kappa cannot choose a checkpoint")
    warnings += _length_warnings(length)
    return Checked(train, {"duplicates": duplicates, "balance": balance, "length": length}, warnings)


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


def _duplicates(
    train: Sequence[TrainingLine], validation: Sequence[TrainingLine], removed: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Answers, and question texts, that are the same on both sides but for case and punctuation; they stay."""
    questions = _same(*({line.question.id: line.question.prompt for line in side} for side in (train, validation)))
    answers = _same(*({line.answer.key: line.answer.text for line in side} for side in (train, validation)))
    warnings = []
    if questions:
        name, other = next(iter(questions.items()))
        warnings.append(
            f"{len(questions)} training questions are word for word in validation, such as {name} and {other}: its "
            "scores flatter the judge"
        )
    if len(answers) > 0.01 * len(train):
        warnings.append(f"{len(answers)} training answers are the same as validation answers")
    report: dict[str, Any] = {
        "removed": removed,
        "questions": {"same": len(questions), "pairs": _pairs((([one], [other]) for one, other in questions.items()))},
        "answers": {"same": len(answers), "pairs": _pairs(answers.items())},
    }
    return report, warnings


def _same(train: dict[_Key, str], validation: dict[_Key, str]) -> dict[_Key, _Key]:
    """The keys of the training side whose text is also on the other side -> the key there."""
    held_out = {_plain(text): key for key, text in reversed(validation.items())}
    return {key: held_out[_plain(text)] for key, text in train.items() if _plain(text) in held_out}


def _pairs(same: Iterable[tuple[Sequence[str | int], Sequence[str | int]]]) -> list[dict[str, Name]]:
    return [{"train": list(one), "validation": list(other)} for one, other in islice(same, _LISTED)]


def _balance(lines: Sequence[TrainingLine]) -> dict[str, Any]:
    shares = {
        str(level): round(sum(line.level == level for line in lines) / len(lines), 3) for level in range(1, LEVELS + 1)
    }
    usable = round(sum(line.level >= USABLE_FROM for line in lines) / len(lines), 3)
    return {"levels": shares, "largest_share": max(shares.values()), "usable": usable}


def _lengths(lines: Sequence[TrainingLine]) -> dict[str, Any]:
    """The prediction of an answer's level by its length alone: by language, and by source."""
    groups: dict[str, dict[str, list[TrainingLine]]] = {"by_language": {}, "by_source": {}}
    for line in lines:
        groups["by_language"].setdefault(line.question.language, []).append(line)
        groups["by_source"].setdefault(line.source, []).append(line)
    reports = {
        name: {group: _length_report(of_group) for group, of_group in sorted(grouped.items())}
        for name, grouped in groups.items()
    }
    return {"limit": LENGTH_LIMIT, **reports}


def _length_warnings(reports: dict[str, Any]) -> list[str]:
    warnings = []
    for group, report in (*reports["by_language"].items(), *reports["by_source"].items()):
        correlation = report["spearman"]
        if correlation is not None and abs(correlation) >= LENGTH_LIMIT:
            warnings.append(
                f"{group}: {'longer' if correlation > 0 else 'shorter'} answers have higher levels (Spearman "
                f"{correlation:.2f}, limit {LENGTH_LIMIT}): the judge may learn length"
            )
    return warnings


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


def _name(line: TrainingLine) -> Name:
    return list(line.answer.key)
