"""The language of a text, and whether a judge knows it."""

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Any

from medjudge.records import Question

_LEAST_LETTERS = 80
"""Shorter texts are names, doses and codes as often as sentences: only their script is looked at."""
_SURE = 0.95
_SCRIPTS = {"en": "LATIN", "zh": "CJK"}
"""How Unicode's names of a language's letters begin."""
_MOST_OF_ANOTHER_SCRIPT = 0.3


def other_language(question: Question, answer: str, known: Sequence[str]) -> str | None:
    """Why a judge that knows these languages must not score this answer; None where it may.

    The question's language is what its record says. The answer's is told by its script and, from 80 letters on, by
    py3langid (Lui and Baldwin, 2012) where that is sure of it.

    Args:
        known: Codes of languages; only of `en` and `zh` is the answer's script known.
    """
    names = " and ".join(known)
    if question.language not in known:
        return f"this judge knows {names} only, and the question is in {question.language}"
    letters = [letter for letter in answer if letter.isalpha()]
    scripts = tuple({_SCRIPTS.get(language, "") for language in known})  # "" begins every name: any script will do
    expected = sum(unicodedata.name(letter, "").startswith(scripts) for letter in letters)
    if letters and 1 - expected / len(letters) > _MOST_OF_ANOTHER_SCRIPT:
        return f"this judge knows {names} only, and the answer is in another script"
    if len(letters) >= _LEAST_LETTERS:
        found, probability = _identifier().classify(answer)
        if found not in known and probability > _SURE:
            return f"this judge knows {names} only, and the answer is in another language ({found})"
    return None


def language_of(text: str, languages: Sequence[str]) -> str:
    """The language of a text among those of a scheme, recognized by its script.

    Args:
        languages: Codes of languages; the first is returned where no script decides.
    """
    letters = [unicodedata.name(letter, "") for letter in text if letter.isalpha()]
    shares = {
        language: sum(name.startswith(_SCRIPTS[language]) for name in letters)
        for language in languages
        if language in _SCRIPTS
    }
    # Chinese texts hold Latin names and units, and English ones hold no Chinese: a fifth of the letters decides.
    if "zh" in shares and shares["zh"] > 0.2 * len(letters):
        return "zh"
    return max(shares, key=lambda language: shares[language], default=languages[0]) if letters else languages[0]


@cache
def _identifier() -> Any:
    # Here, because its model is unpacked at import; other judges need none of it.
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
