"""The task of pairs: two answers to one question, and which of them is better."""

import json
import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medjudge.chat_api.client import ChatRequest
from medjudge.judge.protocol import MAX_TOKENS
from medjudge.languages.texts import languages_of
from medjudge.pair_records import PairJudgment, PairKey, PhysicianPair, Preferred
from medjudge.records import Answer, Question
from medjudge.rubrics.render import JudgePrompt, Style, filled, standard, user_message
from medjudge.rubrics.verdict import Replies, UnreadableError, after_thought, lone_object, reasoned_schema
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.statistics.labels import likeliest
from medjudge.store import Run

PREFERRED: dict[int, Preferred] = {1: "first", 0: "tie", -1: "second"}
"""Verdicts as numbers, and as the records have them."""
VERDICTS: dict[Preferred, int] = {name: number for number, name in PREFERRED.items()}

PAIR_SCHEMA = reasoned_schema(verdict={"type": "string", "enum": ["A", "B", "tie"]})
"""The reply of a reason-first judge of pairs, for servers that can hold a model to a schema."""
PAIR_LABELS = ("A", "C", "B")
"""The answer shown first, a tie, the answer shown second."""
_FRAME, _MATERIAL, _REPLIES = "pair_frame.md", "pair_material.md", "pair_replies.yaml"
_STATEMENT = re.compile(
    r"[ \t*_#>`-]{0,8}(?:final[ \t]+)?(?:verdict|结论|判定)[ \t*_`\"'“”]{0,8}[:：][ \t*_`\"'“”\[]{0,8}"
    r"(?P<verdict>A|B|C|tie|平局)[\]*_`\"'“”\s.。!！]{0,8}",
    re.IGNORECASE,
)
"""A line of its own that states the verdict. Every part is bounded: the time is linear in the line."""
_BEGINS = re.compile(r"[ \t*_#>`-]{0,8}(?:final[ \t]+)?(?:verdict|结论|判定)[ \t*_`]{0,8}[:：]", re.IGNORECASE)
_LONGEST_LINE = 120
_MEANING: dict[str, Preferred] = {"a": "first", "b": "second", "c": "tie", "tie": "tie", "平局": "tie"}


class PairAssignment(NamedTuple):
    """Two answers to compare in one order: `first` is shown first, as A."""

    question: Question
    earlier: tuple[str, ...]
    first: Answer
    second: Answer
    scheme: Scheme = LLMEVAL_MED

    @property
    def answers(self) -> tuple[Answer, ...]:
        return (self.first, self.second)

    @property
    def key(self) -> PairKey:
        models = sorted((self.first.model, self.second.model))
        return PairKey(self.question.id, (models[0], models[1]), self.first.sample)

    def swapped(self) -> "PairAssignment":
        """The same pair in the other order."""
        return self._replace(first=self.second, second=self.first)

    def judgment(self, judge_name: str, **fields: Any) -> PairJudgment:
        shown = {"first": self.first.model, "second": self.second.model, "sample": self.first.sample}
        return PairJudgment(
            **{"question_id": self.question.id, **shown, "judge": judge_name, "preferred": None, **fields}
        )

    def prompt(self, texts: Sequence[str], style: Style, control_tokens: Iterable[str] = ()) -> JudgePrompt:
        languages, language = languages_of(self.scheme), self.question.language
        title, levels = standard(self.question.category, language, self.scheme)
        system = filled(languages.text(language, _FRAME), title=title, standard=levels, style=style)
        template = languages.text(language, _MATERIAL)
        return JudgePrompt(system, user_message(template, self.question, self.earlier, texts, control_tokens))

    def lines(self, control_tokens: Iterable[str]) -> list[str]:
        """The text between prompt and verdict of a local model: none."""
        return [""]

    def of_labels(self, judge_name: str, probabilities: np.ndarray, answer_tokens_cut: int) -> PairJudgment:
        """The likeliest verdict from the probabilities of first, tie and second, shape (1, 3)."""
        exact = np.asarray(probabilities[0], dtype=np.float64)
        exact = exact / exact.sum()
        return self.judgment(
            judge_name,
            preferred=PREFERRED[int(likeliest(exact))],
            probabilities=[round(float(value), 6) for value in exact],
            answer_tokens_cut=answer_tokens_cut,
        )

    def request(self) -> ChatRequest:
        messages = self.prompt([self.first.text, self.second.text], "reason-first").messages
        return ChatRequest(messages, 0, MAX_TOKENS, schema=PAIR_SCHEMA)

    def reminder(self, problem: str) -> str:
        return languages_of(self.scheme).load(self.question.language, _REPLIES, Replies).reminder

    def read(self, reply: str, judge_name: str) -> PairJudgment:
        verdict = read_pair_reply(reply)
        return self.judgment(judge_name, preferred=verdict.preferred, rationale=verdict.rationale or None, raw=reply)


def verdict_on(pair: PairJudgment | PhysicianPair) -> int:
    """The verdict on the model that the pair's key names first, as a number.

    Args:
        pair: Has a verdict.
    """
    assert pair.preferred is not None
    verdict = VERDICTS[pair.preferred]
    return verdict if pair.first == pair.pair_key.models[0] else -verdict


def pair_prompts_sha256(style: Style, scheme: Scheme) -> str:
    """The sha256 of everything that a judge of pairs is told in a scheme, except for questions and answers."""
    languages = languages_of(scheme)
    texts = [style, json.dumps(PAIR_SCHEMA)]
    for language in scheme.languages:
        texts += [languages.text(language, _FRAME), languages.text(language, _MATERIAL)]
        texts.append(languages.load(language, _REPLIES, Replies).reminder)
        texts += [
            f"{title}\n{levels}" for title, levels in (standard(id, language, scheme) for id in scheme.category_ids)
        ]
    return sha256("\x1f".join(texts).encode()).hexdigest()


class PairVerdict(NamedTuple):
    """The preference that a reply states, and its reason."""

    preferred: Preferred
    rationale: str


def read_pair_reply(reply: str) -> PairVerdict:
    """Reads the verdict that a reply states: an object as of `PAIR_SCHEMA`, or a line of its own ("Verdict: A").

    Where two statements differ, the reply is unreadable: none is preferred to the other.

    Raises:
        UnreadableError: No verdict is stated, or two.
    """
    text = after_thought(reply)
    fields = lone_object(text)
    if fields is not None:
        verdict, rationale = fields.get("verdict"), fields.get("rationale", fields.get("reason"))
        meaning = _MEANING.get(verdict.strip().lower()) if isinstance(verdict, str) else None
        if meaning is None:
            raise UnreadableError(f"verdict is {json.dumps(verdict)[:40]}, not A, B or tie")
        # An escaped lone surrogate could not be written.
        words = rationale.strip().encode("utf-8", "replace").decode() if isinstance(rationale, str) else ""
        return PairVerdict(meaning, words)
    lines = text.splitlines()
    stated = [
        _MEANING[match["verdict"].lower()]
        for line in lines
        if len(line) <= _LONGEST_LINE and (match := _STATEMENT.fullmatch(line))
    ]
    if not stated:
        raise UnreadableError("no verdict is stated in the reply")
    if len(set(stated)) > 1:
        raise UnreadableError("the reply states two verdicts")
    before = next(number for number, line in enumerate(lines) if _BEGINS.match(line))
    return PairVerdict(stated[-1], "\n".join(lines[:before]).strip())


def pairs_file(run: Run, judge: str) -> Path:
    """The run's file of a judge's pairs."""
    return run.path / "pairs" / f"{judge}.jsonl"


def comparison_file(run: Run, judge: str) -> Path:
    """The run's file of the comparison by a judge's pairs."""
    return run.path / "pairs" / f"{judge}.json"


def physician_pairs_file(run: Run) -> Path:
    """The run's file of the pairs that physicians compared."""
    return run.path / "physician_pairs.jsonl"


def pair_judgments(run: Run, judge: str) -> list[PairJudgment]:
    """The pairs of a judge; none where it compared none."""
    return run.made_from_texts(pairs_file(run, judge), PairJudgment)


def physician_pairs(run: Run) -> list[PhysicianPair]:
    """The pairs that physicians compared; none where there are none."""
    return run.made_from_texts(physician_pairs_file(run), PhysicianPair)


def compared_by(run: Run) -> list[str]:
    """The judges with a comparison in the run, sorted."""
    return sorted(file.stem for file in (run.path / "pairs").glob("*.json"))
