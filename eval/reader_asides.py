"""What the built-in judge takes for an aside: a linear look at the mean state of a sentence, fitted to made answers.

    python eval/reader_asides.py WORK

prints how many asides with phrases of held-out folds are found, and how many sentences about the matter are taken for
asides. WORK is the folder of `eval/built_in.py`, after it has run.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml
from reader_examples import PHRASES, Example
from reader_lessons import Material
from reader_states import StateStore, encoder
from sklearn.linear_model import LogisticRegression

from medjudge.distill.wording import wording_of
from medjudge.judge.asides import SURE, sentence_vector, sentences_of
from medjudge.judge.reader import Reader

ASIDES = yaml.safe_load((Path(__file__).parent / "reader_asides.yaml").read_text(encoding="utf-8"))
"""By language."""
ANSWERS, FILLERS, FOLDS = 1500, 150, 5
"""Made answers of a language, filler sentences of a language, folds of the phrases."""
_LONGEST = 900
"""In characters, of the answers that get asides."""
_PENALTY = 0.2


class Sentences(NamedTuple):
    """Sentences of answers.

    Attributes:
        vectors: Shape (n, width).
        aside: Whether each is one, (n,).
        fold: That of an aside's phrase, -1 for sentences about the matter, (n,).
    """

    vectors: np.ndarray
    aside: np.ndarray
    fold: np.ndarray


def phrases_of(language: str) -> list[str]:
    """What answers say beside the matter, in a fixed random order."""
    texts, draw = wording_of(language).texts, Random(f"asides-{language}")
    fillers = [
        f"{begin}{' ' if language == 'en' else ''}{end}{'.' if language == 'en' else '。'}"
        for group in texts.filler
        for begin in group.begin
        for end in group.end
    ]
    own = [phrase for phrase in PHRASES[language]["frame"] if phrase]
    every = [
        *draw.sample(fillers, FILLERS),
        *own,
        *ASIDES[language],
        *texts.opening,
        *texts.closing,
        *texts.instruction,
    ]
    return draw.sample(every, len(every))


def framed_answers(answers: Sequence[Example], language: str) -> list[tuple[str, dict[str, int]]]:
    """Answers with one to three asides before, behind or within them, and the fold of each of these."""
    draw, phrases = Random(f"framed-{language}"), phrases_of(language)
    fitting = [
        example.answer for example in answers if example.language == language and len(example.answer) <= _LONGEST
    ]
    made = []
    for text in draw.sample(fitting, min(ANSWERS, len(fitting))):
        numbers = draw.sample(range(len(phrases)), draw.randint(1, 3))
        parts = [text]
        for number in numbers:
            parts.insert(draw.choice((0, len(parts))), phrases[number])
        made.append(("\n".join(parts), {phrases[number]: number % FOLDS for number in numbers}))
    return made


def labelled_sentences(work: Path, material: Material) -> Sentences:
    """The sentences of made answers, and of answers that deny themselves or tell to do something dangerous."""
    alarms = [example for example, _ in material.examples("alarms")]
    good = [example for example, _ in material.examples("parallel") if example.source != "parallel-part"]
    safe = [example for example in alarms if not example.alarm and example.source != "alarms-framed"]
    denied = [example for example in alarms if example.alarm]
    scored = [example for example, _ in material.examples("scored")]
    texts: list[tuple[str, str, dict[str, int]]] = []
    for language in sorted(ASIDES):
        texts += [(language, text, folds) for text, folds in framed_answers([*good, *safe, *scored], language)]
    plain = Random("plain").sample(denied, min(ANSWERS, len(denied)))
    texts += [(example.language, example.answer, {}) for example in plain]
    store = StateStore(work / "states-asides")
    store.add((text for _, text, _ in texts), encoder())
    vectors, fold = [], []
    for language, text, folds in texts:
        for sentence in sentences_of(text, store[text], language):
            words = text[slice(*sentence.span)].strip()
            vectors.append(sentence_vector(store[text], sentence))
            fold.append(next((number for phrase, number in folds.items() if words in phrase), -1))
    return Sentences(np.stack(vectors), np.array(fold) >= 0, np.array(fold))


def fitted(sentences: Sentences, chosen: np.ndarray) -> LogisticRegression:
    """The look, from some of the sentences."""
    look = LogisticRegression(C=_PENALTY, max_iter=2000)
    return look.fit(sentences.vectors[chosen], sentences.aside[chosen])


def with_asides(work: Path, material: Material, reader: Reader) -> Reader:
    """The reader with its look at asides, which WORK keeps, with what `held_out` says of it as asides.json."""
    kept = work / "asides.npz"
    if not kept.exists():
        sentences = labelled_sentences(work, material)
        look = fitted(sentences, np.ones(len(sentences.aside), bool))
        np.savez(kept, weight=look.coef_, bias=look.intercept_)
        (work / "asides.json").write_text(json.dumps(held_out(sentences)))
    arrays = np.load(kept)
    with torch.no_grad():
        reader.aside.weight.copy_(torch.from_numpy(arrays["weight"]))
        reader.aside.bias.copy_(torch.from_numpy(arrays["bias"]))
    return reader


def held_out(sentences: Sentences) -> dict[str, Any]:
    """The share of the asides that is found, by looks that did not learn from their phrases, and of the others."""
    fold = np.where(sentences.fold >= 0, sentences.fold, np.arange(len(sentences.fold)) % FOLDS)
    logits = np.empty(len(fold))
    for number in range(FOLDS):
        logits[fold == number] = fitted(sentences, fold != number).decision_function(sentences.vectors[fold == number])
    return {
        "asides": int(sentences.aside.sum()),
        "asides found": round(float((logits[sentences.aside] >= SURE).mean()), 4),
        "sentences about the matter": int((~sentences.aside).sum()),
        "taken for asides": round(float((logits[~sentences.aside] >= SURE).mean()), 4),
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python eval/reader_asides.py WORK")
    print(json.dumps(held_out(labelled_sentences(Path(sys.argv[1]), Material(Path(sys.argv[1])))), indent=2))
