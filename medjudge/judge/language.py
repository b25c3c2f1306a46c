"""Recognizes the language of a text, and checks whether a judge knows it."""

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Any

from medjudge.records import Question

_MIN_LETTERS = 80
"""Shorter texts are often names, doses or codes; only their script is checked."""
_MIN_CONFIDENCE = 0.95
_SCRIPTS = {"en": "LATIN", "zh": "CJK"}
"""The first word of the Unicode names of a language's letters."""
_MAX_FOREIGN_SHARE = 0.3


def other_language(question: Question, answer: str, known: Sequence[str]) -> str | None:
    """Says why a judge that knows these languages must not score an answer; None if it may.

    The question's language is the one in its record. The answer's language is detected from its script and, from 80
    letters on, by py3langid (Lui and Baldwin, 2012) if its confidence is high.

    Args:
        known: Language codes. The script is checked for `en` and `zh` only.
    """
    names = " and ".join(known)
    if question.language not in known:
        return f"this judge knows {names} only, and the question is in {question.language}"
    letters = [letter for letter in answer if letter.isalpha()]
    scripts = tuple({_SCRIPTS.get(code, "") for code in known})  # every name starts with "": any script
    expected = sum(unicodedata.name(letter, "").startswith(scripts) for letter in letters)
    if letters and 1 - expected / len(letters) > _MAX_FOREIGN_SHARE:
        return f"this judge knows {names} only, and the answer is in another script"
    if len(letters) >= _MIN_LETTERS:
        language, probability = _identifier().classify(answer)
        if language not in known and probability > _MIN_CONFIDENCE:
            return f"this judge knows {names} only, and the answer is in another language ({language})"
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
    # Imported here because the import unpacks its model, which other judges do not need.
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
