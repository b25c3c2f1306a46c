"""What can be seen of an answer without any model: numbers, chosen options, yes or no, length, repetition."""

import re
import zlib

import numpy as np

from medjudge.text.answer_keys import AnswerKey, is_no_reference, key_of, stated
from medjudge.text.options import options_of

NUMBERS = re.compile(r"\d+(?:\.\d+)?")
OPTION = re.compile(r"(?<![A-Za-z])([A-F])(?![A-Za-z])")
YES = re.compile(r"正确|是的|对的|^对|^是|^可以|^能|^yes|^true", re.IGNORECASE)
NO = re.compile(r"不正确|错|不是|不对|^否|^不|不能|不可以|^no\b|^false", re.IGNORECASE)
NEGATION = re.compile(r"不|没|无|非|未|\bnot?\b", re.IGNORECASE)
REFUSAL = re.compile(r"抱歉|对不起|作为一个|作为人工智能|我无法|我不能|sorry|as an ai", re.IGNORECASE)
BULLET = re.compile(r"^\s*(?:\d+[.、)]|[-*•·])", re.MULTILINE)
HAN = re.compile(r"[\u4e00-\u9fff]")

_SHORT = 12
"""The most characters of a reference that is only a final result."""


def wording(question: str, reference: str | None, answer: str) -> dict[str, float]:
    """Numbers from the texts alone; what a missing reference leaves open is 0."""
    reference = reference or ""
    return {
        **of_answer(question, answer),
        **against_reference(question, reference, answer),
        **against_key(question, reference, answer),
    }


def of_answer(question: str, answer: str) -> dict[str, float]:
    """Length, form and language."""
    length = max(len(answer), 1)
    pairs = [answer[at : at + 2] for at in range(len(answer) - 1)]
    packed = len(zlib.compress(answer.encode())) / max(len(answer.encode()), 20)
    return {
        "log answer": float(np.log(length)),
        "log question": float(np.log(max(len(question), 1))),
        "very short answer": float(length < 15),
        "distinct pairs": len(set(pairs)) / max(len(pairs), 1),
        "packed": packed,
        "bullets": float(np.log1p(len(BULLET.findall(answer)))),
        "lines": float(np.log1p(answer.count("\n"))),
        "refusal": float(bool(REFUSAL.search(answer))),
        "unfinished": float(answer.rstrip()[-1:].isalnum()),
        "han": len(HAN.findall(answer)) / length,
        "other language": abs(_han(question) - _han(answer)),
        "formula": float(np.log1p(sum(answer.count(sign) for sign in "=\\^"))),
        "question numbers": float(np.log1p(len(NUMBERS.findall(question)))),
        "question has options": float(bool(options_of(question))),
    }


def _han(text: str) -> float:
    return len(HAN.findall(text)) / max(len(text), 1)


def against_reference(question: str, reference: str, answer: str) -> dict[str, float]:
    """What of the reference the answer repeats or contradicts."""
    wanted, given = NUMBERS.findall(reference), NUMBERS.findall(answer)
    new = set(wanted) - set(NUMBERS.findall(question))
    options = set(OPTION.findall(reference)) if len(reference) < 4 * _SHORT else set()
    chosen = set(OPTION.findall(answer))
    grams, seen = _grams(reference) - _grams(question), _grams(answer)
    return {
        "log reference": float(np.log1p(len(reference))),
        "short reference": float(0 < len(reference) <= _SHORT),
        "no reference": float(is_no_reference(reference)),
        "verbatim": float(bool(reference) and reference in answer),
        "numbers met": _share(set(wanted), set(given)),
        "new numbers met": _share(new, set(given)),
        "last number": float(bool(wanted and given and wanted[-1] == given[-1])),
        "numbers missing": float(np.log1p(len(set(wanted) - set(given)))),
        "options met": _share(options, chosen),
        "options beyond": float(bool(options)) * min(len(chosen - options), 4),
        "first option": float(bool(options) and next(iter(OPTION.findall(answer)), "") in options),
        "same side": _side(reference) * _side(answer[:80]) if len(reference) < 4 * _SHORT else 0.0,
        "negations": len(NEGATION.findall(answer)) / (len(answer) + 30) - len(NEGATION.findall(reference)) / 30,
        "pairs met": _share(grams, seen),
        "pairs beyond": _share(seen, grams),
    }


def against_key(question: str, reference: str, answer: str) -> dict[str, float]:
    """What kind of key the reference is, and whether the answer states it."""
    key, said = key_of(question, reference) or AnswerKey(), stated(question, reference, answer)
    return {
        "key of options": float(bool(key.options)),
        "key of truth": float(key.truth is not None),
        "key of terms": float(bool(key.terms)),
        "key stated": float(said in ("right", "term")) - float(said == "wrong"),
        "right option or truth": float(said == "right"),
        "wrong option or truth": float(said == "wrong"),
    }


def _grams(text: str) -> set[str]:
    plain = re.sub(r"\s+", "", text.lower())
    return {plain[at : at + 2] for at in range(len(plain) - 1)}


def _share(wanted: set[str], seen: set[str]) -> float:
    return len(wanted & seen) / len(wanted) if wanted else 0.0


def _side(text: str) -> float:
    """1 for yes, -1 for no, 0 for neither."""
    if NO.search(text.strip()):
        return -1.0
    return float(bool(YES.search(text.strip())))
