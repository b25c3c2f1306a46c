"""How long the prompts of a generative judge will be, before a tokenizer is chosen."""

import re
from collections.abc import Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from medjudge.records import TrainingLine
from medjudge.rubrics.render import render
from medjudge.scheme import Scheme

WINDOW = 10_240
"""`max_length` of the shipped configs of generative judges."""
_FEWEST_ANSWER_TOKENS = 32
_CHINESE = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]")
_PER_CHINESE, _PER_OTHER = 0.66, 0.64
"""Tokens per character: least squares over the prompts of LLMEval-Med with Qwen's vocabulary."""


class PromptReport(TypedDict):
    """Estimated tokens of prompts without their answers, and the questions of those that leave no room for one."""

    window: int
    median: int
    p90: int
    most: int
    no_room: list[str]


class PromptLengths(NamedTuple):
    """The report, and warnings for the user."""

    report: PromptReport
    warnings: list[str]


def prompt_lengths(lines: Sequence[TrainingLine], scheme: Scheme) -> PromptLengths:
    """Estimates the tokens of rubric, question, reference and checklist of each training line, at least one."""
    lengths: dict[str, int] = {}
    for line in lines:
        if line.question.id not in lengths:
            prompt = render(line.question, line.earlier, "", "score-first", scheme=scheme)
            lengths[line.question.id] = estimated_tokens(prompt.system + prompt.user)
    no_room = sorted(name for name, length in lengths.items() if length + _FEWEST_ANSWER_TOKENS > WINDOW)
    median, p90, most = (round(float(np.percentile(list(lengths.values()), share))) for share in (50, 90, 100))
    report: PromptReport = {"window": WINDOW, "median": median, "p90": p90, "most": most, "no_room": no_room}
    if not no_room:
        return PromptLengths(report, [])
    dropped = sum(line.question.id in set(no_room) for line in lines)
    warning = (
        f"{dropped} lines of {len(no_room)} questions ({', '.join(no_room)}) probably leave no room for the answer in "
        f"{WINDOW:,} tokens, max_length of the generative configs; their training drops these lines"
    )
    return PromptLengths(report, [warning])


def estimated_tokens(text: str) -> int:
    """The tokens of a text with Qwen's vocabulary, from its characters."""
    chinese = len(_CHINESE.findall(text))
    return round(_PER_CHINESE * chinese + _PER_OTHER * (len(text) - chinese))
