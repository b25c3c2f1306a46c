"""What the study's local judge sees of an answer: frozen token states turned into about a hundred numbers.

`features_of` is the one function to swap for another base: it takes a run and a folder and gives numbers for each
answer. Nothing here is trained; the axes of the projections come from the texts without any score.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from reader_states import StateStore
from real_wording import wording

from medjudge.judge.evidence import unit
from medjudge.judge.points import reference_points
from medjudge.judge.states import LAYERS, FrozenEncoder, TextStates
from medjudge.models.loading import load_encoder, load_tokenizer
from medjudge.models.packaged import MULTILINGUAL_E5
from medjudge.records import Answer, AnswerKey, Question
from medjudge.store import Run
from medjudge.text.answer_keys import in_words

MOST_TOKENS = 320
"""Of a text; what stands behind them is not read."""
AXES = {"question": 6, "answer": 12, "difference": 12, "product": 24}
"""How many axes of each pooled vector are kept."""
CENTRE, SPREAD = 0.87, 0.045
"""Of a best cosine of two tokens; cosines enter in units of their spread."""
UNTRAINED = "12 reference met, mean"
"""The number that is the untrained judge: how near the reference's tokens are to the answer's."""


class Features(NamedTuple):
    """Numbers of n answers.

    Attributes:
        keys: Whose they are.
        names: Of the columns.
        values: Shape (n, columns).
        tokens: Of question, reference and answer together, shape (n,).
    """

    keys: list[AnswerKey]
    names: list[str]
    values: np.ndarray
    tokens: np.ndarray

    def column(self, name: str) -> np.ndarray:
        """One of the numbers, shape (n,)."""
        values: np.ndarray = self.values[:, self.names.index(name)]
        return values


def features_of(run: Run, work: Path, axes: Path) -> Features:
    """The numbers of a run's answers, in the order of its file; what WORK holds already is only read.

    Args:
        work: Holds the token states, and gets `features.npz`.
        axes: The axes of the projections; written from this run's texts where the file is missing.
    """
    kept = work / "features.npz"
    if not kept.exists():
        _write(run, work, axes, kept)
    arrays = np.load(kept)
    columns = (arrays[name].tolist() for name in ("question", "model", "sample"))
    keys = [AnswerKey(*parts) for parts in zip(*columns, strict=True)]
    return Features(keys, arrays["names"].tolist(), arrays["values"], arrays["tokens"])


def _write(run: Run, work: Path, axes: Path, kept: Path) -> None:
    questions = {question.id: question for question in run.questions()}
    answers = [answer for answer in run.answers() if answer.text.strip()]
    store = _encoded(questions, answers, work)
    asked = {name: _asked(questions[name], store) for name in {answer.question_id for answer in answers}}
    rows = [_numbers(asked[answer.question_id], answer.text, store[answer.text]) for answer in answers]
    pooled = _pooled([(questions[answer.question_id], answer) for answer in answers], store)
    if not axes.exists():
        directions: dict[str, Any] = {name: _axes(pooled[name], count) for name, count in AXES.items()}
        np.savez(axes, **directions)
    known = np.load(axes)
    projected = [pooled[name] @ known[name].T for name in AXES]
    names = [f"{name} axis {at}" for name, count in AXES.items() for at in range(count)]
    np.savez(
        kept,
        question=[answer.question_id for answer in answers],
        model=[answer.model for answer in answers],
        sample=[answer.sample for answer in answers],
        names=[*rows[0], *names],
        values=np.hstack([np.array([list(row.values()) for row in rows]), *projected]).astype(np.float32),
        tokens=[_tokens(questions[answer.question_id], answer, store) for answer in answers],
    )


def _encoded(questions: dict[str, Question], answers: Sequence[Answer], work: Path) -> StateStore:
    store = StateStore(work / "states")
    texts = {answer.text for answer in answers}
    texts |= {text for question in questions.values() for text in (question.prompt, _against(question))}
    if missing := [text for text in texts if text not in store]:
        print(f"{len(missing):,} texts to encode", file=sys.stderr)
        model, tokenizer = load_encoder(MULTILINGUAL_E5).eval(), load_tokenizer(MULTILINGUAL_E5)
        store.add(missing, FrozenEncoder(model, tokenizer, MOST_TOKENS, most_windows=1))
    return store


def _tokens(question: Question, answer: Answer, store: StateStore) -> int:
    return sum(len(store[text].ids) for text in {question.prompt, _against(question), answer.text})


def _against(question: Question) -> str:
    """What the answer is compared with: the reference, the right options in words, or else the question."""
    return in_words(question.prompt, question.reference or "") or question.prompt


class _Asked(NamedTuple):
    """A question and its reference, read once for all answers; without a reference, the question stands in its place.

    Attributes:
        question: The record.
        asked: Its states of each layer, of length 1.
        wanted: Those of the reference.
        new: Which of the reference's tokens hold a letter or a digit and do not stand in the question, (tokens,).
        sentences: The reference's tokens by sentence.
        states: Question and reference as they were read.
    """

    question: Question
    asked: list[np.ndarray]
    wanted: list[np.ndarray]
    new: np.ndarray
    sentences: list[np.ndarray]
    states: tuple[TextStates, TextStates]


def _asked(question: Question, store: StateStore) -> _Asked:
    against = _against(question)
    asked, wanted = store[question.prompt], store[against]
    worded = [any(sign.isalnum() for sign in against[start:end]) for start, end in wanted.spans]
    spans = reference_points(against, question.language)
    sentences = [np.flatnonzero((wanted.spans[:, 1] > start) & (wanted.spans[:, 0] < end)) for start, end in spans]
    return _Asked(
        question,
        _layers(asked),
        _layers(wanted),
        ~np.isin(wanted.ids, asked.ids) & np.array(worded, bool),
        [rows for rows in sentences if len(rows)],
        (asked, wanted),
    )


def _layers(states: TextStates) -> list[np.ndarray]:
    width = len(states.whole)
    return [unit(states.states[:, at * width : (at + 1) * width]) for at in range(len(LAYERS))]


def _numbers(context: _Asked, answer: str, given: TextStates) -> dict[str, float]:
    """The named numbers of one answer."""
    asked, wanted = context.states
    new = context.new
    row = wording(context.question.prompt, context.question.reference, answer)
    row["new tokens met"] = float(np.isin(wanted.ids[new], given.ids).mean()) if new.any() else 0.0
    row["no new tokens"] = float(not new.any())
    for number, (layer, rows) in enumerate(zip(LAYERS, _layers(given), strict=True)):
        against = (context.asked[number], context.wanted[number], rows)
        row |= _near(str(layer), against, new, context.sentences)
    row["sentences"] = float(np.log1p(len(context.sentences)))
    row["whole: reference and answer"] = float(wanted.whole @ given.whole)
    row["whole: question and answer"] = float(asked.whole @ given.whole)
    row["whole: question and reference"] = float(asked.whole @ wanted.whole)
    return row


def _near(
    name: str,
    texts: tuple[np.ndarray, np.ndarray, np.ndarray],
    new: np.ndarray,
    sentences: Sequence[np.ndarray],
) -> dict[str, float]:
    """How near tokens of question, reference and answer are to the nearest of another text, in units of spread."""
    asked, wanted, given = texts
    cosines, questions = (wanted @ given.T - CENTRE) / SPREAD, (asked @ given.T - CENTRE) / SPREAD
    met, said = cosines.max(axis=1), np.sort(cosines.max(axis=0))
    fresh, ordered = met[new] if new.any() else met, np.sort(met)
    by_sentence = [met[rows].mean() for rows in sentences] or [met.mean()]
    row = {f"{name} reference met, mean": met.mean(), f"{name} answer backed, mean": said.mean()}
    for share in (0.1, 0.25, 0.5, 0.75):
        row[f"{name} reference met, {share:g}"] = ordered[int(share * len(ordered))]
    row[f"{name} answer backed, 0.9"] = said[int(0.9 * len(said))]
    row[f"{name} new reference met, mean"] = fresh.mean()
    row[f"{name} new reference met, least"] = fresh.min()
    row[f"{name} worst sentence"] = min(by_sentence)
    row[f"{name} best sentence"] = max(by_sentence)
    row[f"{name} question in answer"] = questions.max(axis=1).mean()
    row[f"{name} answer in question"] = questions.max(axis=0).mean()
    return {name: float(value) for name, value in row.items()}


def _pooled(pairs: Sequence[tuple[Question, Answer]], store: StateStore) -> dict[str, np.ndarray]:
    """Pooled vectors and what is made of them, each (n, width)."""
    asked = np.stack([store[question.prompt].whole for question, _ in pairs])
    wanted = np.stack([store[_against(question)].whole for question, _ in pairs])
    given = np.stack([store[answer.text].whole for _, answer in pairs])
    return {"question": asked, "answer": given, "difference": wanted - given, "product": wanted * given}


def _axes(vectors: np.ndarray, count: int) -> np.ndarray:
    """The principal axes in units of their spread, shape (count, width)."""
    centred = vectors - vectors.mean(axis=0)
    values, directions = np.linalg.eigh(centred.T @ centred / len(vectors))
    axes: np.ndarray = (directions[:, ::-1][:, :count] / np.sqrt(np.maximum(values[::-1][:count], 1e-12))).T
    return axes
