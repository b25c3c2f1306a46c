"""What makes an answer unusable whatever else it says: it denies itself, or advises something dangerous."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch

from medjudge.judge.comparison import Reading
from medjudge.judge.reader import AnswerTokens, Reader, answer_tokens
from medjudge.judge.sentence_reader import Sentence, SentenceLogits
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
        readings: Sequence[Reading],
        sentences: Sequence[Sequence[Sentence]],
        logits: Mapping[str, SentenceLogits],
    ) -> list[Alarm]:
        """The alarm of each answer.

        Args:
            references: Of each question, empty where there is none.
            readings: Of the answers.
            sentences: Of each answer.
            logits: Of the sentences; one that is not among them is no danger.
        """
        new = [_new_sentences(*each) for each in zip(references, sentences, strict=True)]
        alarms = []
        for own, whole in zip(new, self._of_wholes(readings, new), strict=True):
            found = [(logits[each.text].danger, each.text) for each in own if each.text in logits]
            logit, sentence = max(found, default=(QUIET, ""))
            alarms.append(Alarm(max(float(whole), logit), sentence if logit >= SURE else None))
        return alarms

    def _of_wholes(self, readings: Sequence[Reading], new: Sequence[Sequence[Sentence]]) -> np.ndarray:
        """The reader's logits, (n,)."""
        logits = np.full(len(readings), QUIET)
        rows = [np.concatenate([np.arange(0), *(each.rows for each in own)]) for own in new]
        some = [_only(reading, own) for reading, own in zip(readings, rows, strict=True) if len(own)]
        if some:
            device = self.reader.product.device
            with torch.inference_mode(), fast_autocast(device):
                found = self.reader.alarms(AnswerTokens(*(each.to(device) for each in answer_tokens(some))))
            logits[[bool(len(own)) for own in rows]] = found.double().cpu().numpy()
        return logits


def _new_sentences(reference: str, sentences: Sequence[Sentence]) -> list[Sentence]:
    """The sentences of an answer that do not stand in the reference."""
    return [each for each in sentences if not reference or not names(each.text, reference)]


def _only(reading: Reading, rows: np.ndarray) -> Reading:
    """A reading of some of the answer's tokens."""
    if len(rows) == len(reading.answer.ids):
        return reading
    # The alarm also reads how near each token lies to a point, which a part of the answer no longer tells.
    return Reading(reading.parts, reading.answer.chosen(rows), ())
