"""The task of items: an answer and the items of its question, and whether the answer meets each of them."""

import json
import random
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medjudge.chat_api.client import ChatRequest
from medjudge.item_records import ItemJudgment, ItemVerdict
from medjudge.languages.texts import languages_of
from medjudge.records import Answer, Question, RubricItem, earlier_turns
from medjudge.rubrics.render import JudgePrompt, Style, filled, one_line, user_message
from medjudge.rubrics.verdict import Replies, UnreadableError, after_thought, lone_object
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.store import Run
from medjudge.text.checklist_items import items_of

ITEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "verdicts": {
            "type": "array",
            "items": {
                "type": "object",
                # In this order: a server writes the fields as they are listed here, and the reason comes first.
                "properties": {
                    "number": {"type": "integer", "description": "the number of the criterion"},
                    "reason": {"type": "string", "description": "a few words"},
                    "met": {"type": "boolean"},
                    "certainty": {"type": "integer", "description": "how sure, in percent, from 50 to 100"},
                },
                "required": ["number", "reason", "met", "certainty"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["verdicts"],
    "additionalProperties": False,
}
"""The reply to all criteria at once, for servers that can hold a model to a schema."""
ITEM_LABELS = ("N", "Y")
"""Not met, met."""
_FRAME, _MATERIAL, _REPLIES = "item_frame.md", "item_material.md", "item_replies.yaml"
_TOKENS, _TOKENS_PER_ITEM = 256, 96
"""The most tokens of a reply: a fixed part, and what each item adds."""


class ItemAssignment(NamedTuple):
    """One answer to check against the items of its question; `earlier` are the user's earlier turns, oldest first.

    A chat model gets all items in one request, in an order drawn for each answer. A local model reads each item as the
    first line of a reply, and the next token says whether it is met.
    """

    question: Question
    earlier: tuple[str, ...]
    answer: Answer
    items: tuple[RubricItem, ...]
    scheme: Scheme = LLMEVAL_MED

    @property
    def answers(self) -> tuple[Answer, ...]:
        return (self.answer,)

    def judgment(self, judge_name: str, **fields: Any) -> ItemJudgment:
        return ItemJudgment(**{**self.answer.key._asdict(), "judge": judge_name, "items": None, **fields})

    def met(self, judge_name: str, met: Iterable[float], **fields: Any) -> ItemJudgment:
        """The answer with the probability that it meets each item, in their order."""
        items = [
            ItemVerdict(item=item.text, met=round(float(probability), 6))
            for item, probability in zip(self.items, met, strict=True)
        ]
        return self.judgment(judge_name, items=items, **fields)

    def prompt(self, texts: Sequence[str], style: Style, control_tokens: Iterable[str] = ()) -> JudgePrompt:
        return self._prompt(texts[0], (), control_tokens)

    def lines(self, control_tokens: Iterable[str]) -> list[str]:
        """The text that a local model reads between prompt and verdict."""
        return [f"{one_line(item.text, control_tokens)}\n" for item in self.items]

    def of_labels(self, judge_name: str, probabilities: np.ndarray, answer_tokens_cut: int) -> ItemJudgment:
        """The verdicts from the probabilities of the labels, shape (items, 2)."""
        return self.met(judge_name, probabilities[:, 1], answer_tokens_cut=answer_tokens_cut)

    def order(self) -> list[int]:
        """The places of the items in the order in which a chat model gets them."""
        places = list(range(len(self.items)))
        random.Random("\x1f".join(map(str, (0, *self.answer.key)))).shuffle(places)
        return places

    def request(self) -> ChatRequest:
        shown = [self.items[place].text for place in self.order()]
        messages = self._prompt(self.answer.text, shown).messages
        return ChatRequest(messages, 0, _TOKENS + _TOKENS_PER_ITEM * len(shown), schema=ITEM_SCHEMA)

    def reminder(self, problem: str) -> str:
        texts = languages_of(self.scheme).load(self.question.language, _REPLIES, Replies)
        return texts.reminder.format(problem=problem, count=len(self.items))

    def read(self, reply: str, judge_name: str) -> ItemJudgment:
        met = dict(zip(self.order(), read_item_reply(reply, len(self.items)), strict=True))
        return self.met(judge_name, (met[place] for place in range(len(met))), raw=reply)

    def _prompt(self, answer: str, items: Sequence[str], control_tokens: Iterable[str] = ()) -> JudgePrompt:
        """The prompt of all items, to be judged in one reply; of none, for a reply that begins with a single item."""
        languages, language = languages_of(self.scheme), self.question.language
        system = filled(languages.text(language, _FRAME), criteria="all" if items else "one")
        template = languages.text(language, _MATERIAL)
        return JudgePrompt(system, user_message(template, self.question, self.earlier, [answer], control_tokens, items))


def item_assignments(
    questions: Iterable[Question], answers: Iterable[Answer], scheme: Scheme = LLMEVAL_MED
) -> list[ItemAssignment]:
    """One assignment per answer to a question that has items; see `items_of`."""
    by_id = {question.id: question for question in questions}
    earlier = earlier_turns(list(by_id.values()))
    items = {name: tuple(items_of(question)) for name, question in by_id.items()}
    return [
        ItemAssignment(by_id[name], earlier[name], answer, items[name], scheme)
        for answer in answers
        if items.get(name := answer.question_id)
    ]


def item_prompts_sha256(scheme: Scheme) -> str:
    """The sha256 of everything that a judge of items is told in a scheme, except for questions, items and answers."""
    languages = languages_of(scheme)
    texts = [json.dumps(ITEM_SCHEMA)]
    for language in scheme.languages:
        texts += [languages.text(language, _FRAME), languages.text(language, _MATERIAL)]
        texts.append(languages.load(language, _REPLIES, Replies).reminder)
    return sha256("\x1f".join(texts).encode()).hexdigest()


def read_item_reply(reply: str, count: int) -> list[float]:
    """Reads a reply to `count` criteria: an object of `ITEM_SCHEMA`, in a code fence or not.

    Every criterion needs exactly one verdict; a reply that leaves one out is not read in part.

    Returns:
        The probability that each criterion is met, in the order of the prompt.

    Raises:
        UnreadableError: It is no such reply.
    """
    fields = lone_object(after_thought(reply))
    if fields is None:
        raise UnreadableError("the reply is no JSON object")
    verdicts = fields.get("verdicts")
    if not isinstance(verdicts, list):
        raise UnreadableError("the reply has no list of verdicts")
    met: dict[int, float] = {}
    for place, verdict in enumerate(verdicts, 1):
        given: dict[str, Any] = verdict if isinstance(verdict, dict) else {}
        number, is_met, certainty = _number(given.get("number")), given.get("met"), _number(given.get("certainty"))
        if type(number) is not int or not 1 <= number <= count:
            raise UnreadableError(f"verdict {place} has no number from 1 to {count}")
        if number in met:
            raise UnreadableError(f"criterion {number} has two verdicts")
        if type(is_met) is not bool:
            raise UnreadableError(f"criterion {number}: met is neither true nor false")
        if isinstance(certainty, bool) or not isinstance(certainty, (int, float)) or not 50 <= certainty <= 100:
            raise UnreadableError(f"criterion {number}: certainty is not from 50 to 100")
        met[number] = certainty / 100 if is_met else 1 - certainty / 100
    missing = [str(number) for number in range(1, count + 1) if number not in met]
    if missing:
        raise UnreadableError(f"no verdict on criterion {', '.join(missing[:10])}")
    return [met[number] for number in range(1, count + 1)]


def _number(value: object) -> object:
    """A whole number that was written as a text."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 5 else value


def item_judgments_file(run: Run, judge: str) -> Path:
    """The run's file of a judge's verdicts on items."""
    return run.path / "items" / f"{judge}.jsonl"


def item_study_file(run: Run, judge: str) -> Path:
    """The run's file of the scores by a judge's verdicts on items."""
    return run.path / "items" / f"{judge}.json"


def item_judgments(run: Run, judge: str) -> list[ItemJudgment]:
    """A judge's verdicts on items; none where it gave none."""
    return run.made_from_texts(item_judgments_file(run, judge), ItemJudgment)


def judges_of_items(run: Run) -> list[str]:
    """The judges with verdicts on items in the run, sorted."""
    return sorted(file.stem for file in (run.path / "items").glob("*.jsonl"))
