"""Question-answer matching for intermediate training: which answer belongs to which question.

A corpus of questions with their answers says, without any score, what an answer to the point looks like: a question's own
answer deserves 5, one on the same subject to another kind of question 2 (related), one on another subject 1.
"""

import gzip
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from medjudge.distill.training_set import TrainingLine
from medjudge.errors import InputError
from medjudge.records import Answer, Question

OWN, RELATED, OTHER = 5, 2, 1
_LEAST_CHARACTERS = 60
_MOST_CHARACTERS = 6000
_SAME_KIND = 0.7
"""The part of the answers on another subject that answer the same kind of question: only the subject is wrong then."""


class Pair(NamedTuple):
    """A question with its answer; `focus` is its subject and `kind` what is asked of it, empty where unknown."""

    question: str
    answer: str
    focus: str
    kind: str


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
                fields = json.loads(text)
                if not isinstance(fields, dict) or not str(fields.get("question") or "").strip():
                    raise InputError(f"{path}, line {number}: no question; each line needs question and answer")
                answer = str(fields.get("answer") or "").strip()
                if len(answer) >= _LEAST_CHARACTERS:
                    focus, kind = str(fields.get("focus") or ""), str(fields.get("qtype") or "")
                    pairs.append(Pair(str(fields["question"]).strip(), answer[:_MOST_CHARACTERS], focus.lower(), kind))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); check the path") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {number}: not JSON ({error}); one object a line is expected") from None
    return pairs


def matching_lines(pairs: Sequence[Pair], questions: int, seed: int) -> list[TrainingLine]:
    """Up to three training lines a question: its own answer, a related one where there is any, and another one.

    Args:
        pairs: At least two subjects among them.
        questions: How many questions to draw; all where there are fewer.
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
        asked = pairs[index]
        lines.append(_line(pairs, int(index), int(index), OWN))
        related = [one for one in by_focus[asked.focus] if asked.focus and pairs[one].kind != asked.kind]
        if related:
            lines.append(_line(pairs, int(index), int(generator.choice(related)), RELATED))
        pool = by_kind[asked.kind] if generator.random() < _SAME_KIND else everything
        other = int(pool[generator.integers(len(pool))])
        if pairs[other].focus != asked.focus:
            lines.append(_line(pairs, int(index), other, OTHER))
    return lines


def _line(pairs: Sequence[Pair], asked: int, answered: int, level: int) -> TrainingLine:
    name = f"pair-{asked}"
    question = Question(
        id=name,
        category="MK",
        subcategory=pairs[asked].kind,
        group=pairs[asked].focus or name,
        prompt=pairs[asked].question,
        language="en",
    )
    how = {OWN: "own answer", RELATED: "same subject", OTHER: "other subject"}[level]
    return TrainingLine(
        question=question,
        earlier=[],
        answer=Answer(question_id=name, model=how.replace(" ", "-"), text=pairs[answered].answer),
        level=level,
        probabilities=[float(level == one) for one in range(1, 6)],
        source="matching",
        scored_by=[f"matching: {how}"],
        made_from=[] if answered == asked else [f"pair-{answered}"],
    )
