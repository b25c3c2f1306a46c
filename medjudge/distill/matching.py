"""Question-answer matching for intermediate training: which answer belongs to which question.

A corpus of questions with their answers says, without any score, what an answer to the point looks like: a question's
own answer deserves 5, one on the same subject to another kind of question 2 (related), one on another subject 1. Some
of the questions are put into a message, as people write them: an encoder that has seen short questions only is too
strict with long ones.
"""

import gzip
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from medjudge.benchmark.expert_sets import CATEGORY, LANGUAGE
from medjudge.errors import InputError
from medjudge.files import parse_json
from medjudge.languages.texts import PACKAGED, Texts
from medjudge.records import Answer, Question, TrainingLine

OWN, RELATED, OTHER = 5, 2, 1
_LEAST_CHARACTERS = 60
_MOST_CHARACTERS = 6000
_SAME_KIND = 0.7
"""The share of the answers on another subject that answer the same kind of question: only the subject is wrong then."""
_MESSAGES = 0.5
"""The share of the questions that become messages."""


class Pair(NamedTuple):
    """A question with its answer; `focus` is its subject and `kind` what is asked of it, empty where unknown."""

    name: str
    question: str
    answer: str
    focus: str
    kind: str


class _MessageTexts(Texts):
    """Sentences around a question in a message (`messages.yaml`); `{focus}` is its subject."""

    openings: list[str]
    context: list[str]
    aside: list[str]
    asking: list[str]
    closings: list[str]


def read_pairs(path: Path) -> list[Pair]:
    """Reads JSON lines (plain or .gz) with `question`, `answer` and, where known, `focus` and `qtype`.

    Pairs whose answer has fewer than 60 characters are left out.

    Raises:
        InputError: The file cannot be read, or a line has no question.
    """
    pairs = []
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            for number, text in enumerate(file, start=1):
                if not text.strip():
                    continue
                fields = parse_json(text)
                if not isinstance(fields, dict) or not str(fields.get("question") or "").strip():
                    raise InputError(f"{path}, line {number}: no question; each line needs question and answer")
                answer = str(fields.get("answer") or "").strip()
                if len(answer) >= _LEAST_CHARACTERS:
                    focus, kind = str(fields.get("focus") or ""), str(fields.get("qtype") or "")
                    question = str(fields["question"]).strip()
                    pairs.append(Pair(f"pair-{number}", question, answer[:_MOST_CHARACTERS], focus.lower(), kind))
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({error}); check the path") from None
    except ValueError as error:
        raise InputError(f"{path}, line {number}: not JSON ({error}); one object per line is expected") from None
    return pairs


def without_questions(pairs: Sequence[Pair], prompts: Iterable[str]) -> list[Pair]:
    """The pairs whose question is none of these, whatever its capitals and spaces: a judge is measured on those."""
    measured = {_words(prompt) for prompt in prompts}
    return [pair for pair in pairs if _words(pair.question) not in measured]


def _words(text: str) -> str:
    return " ".join(text.casefold().split())


class Split(NamedTuple):
    """Pairs to train on, and pairs held out; no subject is on both sides."""

    train: list[Pair]
    held_out: list[Pair]


def apart(pairs: Sequence[Pair], share: float, seed: int) -> Split:
    """Splits pairs by subject; a share of the subjects, at least two, is held out."""
    subjects = sorted({pair.focus or pair.name for pair in pairs})
    drawn = np.random.default_rng(seed).permutation(len(subjects))[: max(2, round(share * len(subjects)))]
    held = {subjects[index] for index in drawn}
    return Split(
        [pair for pair in pairs if (pair.focus or pair.name) not in held],
        [pair for pair in pairs if (pair.focus or pair.name) in held],
    )


def matching_lines(pairs: Sequence[Pair], questions: int, seed: int) -> list[TrainingLine]:
    """Up to three training lines per question: its own answer, a related one if there is any, and another one.

    Args:
        pairs: At least two subjects among them.
        questions: How many questions to draw; all if there are fewer.
        seed: Fixes the draw.

    Raises:
        InputError: All pairs are on one subject.
    """
    by_focus: dict[str, list[int]] = defaultdict(list)
    by_kind: dict[str, list[int]] = defaultdict(list)
    for index, pair in enumerate(pairs):
        by_focus[pair.focus].append(index)
        by_kind[pair.kind].append(index)
    if len(by_focus) < 2:
        raise InputError(f"{len(pairs)} pairs on one subject: matching needs answers on others; give them a focus")
    generator = np.random.default_rng(seed)
    everything = list(range(len(pairs)))
    lines = []
    for index in generator.permutation(len(pairs))[:questions]:
        pair = pairs[index]
        prompt = message(pair, generator) if generator.random() < _MESSAGES else pair.question
        lines.append(_line(pair, pair, OWN, prompt))
        related = [other for other in by_focus[pair.focus] if pair.focus and pairs[other].kind != pair.kind]
        if related:
            lines.append(_line(pair, pairs[generator.choice(related)], RELATED, prompt))
        pool = by_kind[pair.kind] if generator.random() < _SAME_KIND else everything
        other = pairs[pool[generator.integers(len(pool))]]
        if other.focus != pair.focus:
            lines.append(_line(pair, other, OTHER, prompt))
    return lines


def message(pair: Pair, generator: np.random.Generator) -> str:
    """The question of a pair inside a message: an opening, what it is about, perhaps an aside, the question, thanks."""
    texts = PACKAGED.load("en", "messages.yaml", _MessageTexts)

    def drawn(sentences: list[str], chance: float) -> list[str]:
        return [str(generator.choice(sentences))] if generator.random() < chance else []

    before = [*drawn(texts.openings, 0.5), *(drawn(texts.context, 0.8) if pair.focus else []), *drawn(texts.aside, 0.5)]
    sentences = [*before, *drawn(texts.asking, 1.0), *drawn(texts.aside, 0.2), *drawn(texts.closings, 0.5)]
    return " ".join(sentences).replace("{focus}", pair.focus).replace("{question}", pair.question)


def _line(pair: Pair, answered: Pair, level: int, prompt: str) -> TrainingLine:
    question = Question(
        id=pair.name,
        category=CATEGORY,
        subcategory=pair.kind,
        group=pair.focus or pair.name,
        prompt=prompt,
        language=LANGUAGE,
    )
    how = {OWN: "own answer", RELATED: "same subject", OTHER: "other subject"}[level]
    return TrainingLine(
        question=question,
        earlier=[],
        answer=Answer(question_id=pair.name, model=how.replace(" ", "-"), text=answered.answer),
        level=level,
        probabilities=[float(level == each) for each in range(1, 6)],
        source="matching",
        scored_by=[f"matching: {how}"],
        made_from=[] if answered == pair else [answered.name],
    )
