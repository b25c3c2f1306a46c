"""What makes an answer unusable whatever else it says: it denies itself, or advises something dangerous."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch

from medjudge.judge.comparison import Reading
from medjudge.judge.language import language_of
from medjudge.judge.reader import AnswerTokens, Reader, answer_tokens
from medjudge.judge.sentences import Sentence, Signs, sentences_of, words_of
from medjudge.models.hardware import fast_autocast
from medjudge.text.answer_keys import names

LANGUAGES = ("en", "zh")
SURE = 2.0
"""The logit from which an alarm counts. The reader's own reaches it in one of 2,500 answers that experts scored, that
of single sentences in one of 2,000 sentences of real answers."""
QUIET = -50.0
"""The logit of an answer in which there is nothing to raise an alarm."""


class Alarm(NamedTuple):
    """The alarm of one answer: its logit, and the dangerous sentence where the detector is sure of one."""

    logit: float
    sentence: str | None = None


class Alarms:
    """The reader's alarm over whole answers, and dangers in their sentences.

    A sentence that the reference has word for word raises none.

    Args:
        reader: On its device.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def of(
        self,
        references: Sequence[str],
        answers: Sequence[str],
        readings: Sequence[Reading],
        signs: Mapping[str, Signs],
    ) -> list[Alarm]:
        """The alarm of each answer.

        Args:
            references: Empty where there is none.
            answers: As long.
            readings: Of the answers.
            signs: Of their sentences; one that is not among them is no danger.
        """
        new = [_new_sentences(*each) for each in zip(references, answers, readings, strict=True)]
        alarms = []
        for answer, own, whole in zip(answers, new, self._of_wholes(readings, new), strict=True):
            spoken = [words for words in (words_of(answer, each) for each in own) if words in signs]
            logit, sentence = max(((signs[words].danger, words) for words in spoken), default=(QUIET, ""))
            alarms.append(Alarm(max(float(whole), logit), sentence if logit >= SURE else None))
        return alarms

    def _of_wholes(self, readings: Sequence[Reading], new: Sequence[Sequence[Sentence]]) -> np.ndarray:
        """The reader's logits, (n,)."""
        logits = np.full(len(readings), QUIET)
        some = [_only(reading, own) for reading, own in zip(readings, new, strict=True) if own]
        if some:
            device = self.reader.product.device
            with torch.inference_mode(), fast_autocast(device):
                found = self.reader.alarms(AnswerTokens(*(each.to(device) for each in answer_tokens(some))))
            logits[[bool(own) for own in new]] = found.double().cpu().numpy()
        return logits


def answer_sentences(answer: str, reading: Reading) -> list[Sentence]:
    """The sentences of an answer that were read."""
    return sentences_of(answer, reading.answer, language_of(answer, LANGUAGES))


def spoken_in(answer: str, reading: Reading) -> list[str]:
    """The words of these sentences."""
    return [words_of(answer, sentence) for sentence in answer_sentences(answer, reading)]


def _new_sentences(reference: str, answer: str, reading: Reading) -> list[Sentence]:
    """The sentences of an answer that do not stand in the reference."""
    sentences = answer_sentences(answer, reading)
    return [each for each in sentences if not reference or not names(answer[slice(*each.span)], reference)]


def _only(reading: Reading, sentences: Sequence[Sentence]) -> Reading:
    """A reading of some of the answer's sentences."""
    rows = np.concatenate([each.rows for each in sentences])
    if len(rows) == len(reading.answer.ids):
        return reading
    # The alarm also reads how near each token lies to a point, which a part of the answer no longer tells.
    return Reading(reading.parts, reading.answer.chosen(rows), ())
