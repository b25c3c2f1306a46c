"""The cost of verdicts on 30 items against one score of the same answer, by a generative judge.

    python eval/speed/item_cost.py DATA [--size 60M] [--device cpu] [--rounds 9] [--answers 4]

DATA is LLMEval-Med's dataset.json. The model is a Qwen3 with random weights, as in eval/speed/throughput.py. Every
question has one answer, made of references of other questions until both prompts have at least 1,200 tokens; the 30
items are beginnings of further references, of at most 15 tokens. Score and items run in turn in one process, in every
round on new answers: one answer at a time, where nothing is shared between answers, and all answers of the round in one
call, where they share the rubric. The result is eval/results/item-cost-DEVICE.json.
"""

import random
import statistics
from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from eval.lib.model_shapes import SIZES, random_model, speed_arguments, timed
from eval.lib.study import record
from eval.lib.tiny_models import byte_tokenizer
from medjudge.benchmark.llmeval_med import read_llmeval_med
from medjudge.judge.generative import GenerativeJudge, GenerativeSettings
from medjudge.judge.generative_labels import GenerativeLabels
from medjudge.judge.items import ITEM_LABELS, ItemAssignment
from medjudge.judge.prompts import encode_prompts, token_ids
from medjudge.judge.protocol import Assignment
from medjudge.models.hardware import choose_device, fast_dtype
from medjudge.records import Answer, Question, RubricItem

WINDOW = 8192
ITEMS, ITEM_TOKENS, PROMPT_TOKENS = 30, 15, 1200


def items_of_texts(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> tuple[RubricItem, ...]:
    """The beginnings of texts as items of at most `ITEM_TOKENS` tokens; one that would be longer on its own is cut."""
    items = []
    for text in texts:
        line = " ".join(text.split())
        while len(token_ids(tokenizer, line)) > ITEM_TOKENS:
            line = line[: max(1, int(len(line) * 0.9))]
        items.append(RubricItem(text=line, points=1))
    return tuple(items)


def one_answer_each(
    tokenizer: PreTrainedTokenizerBase, questions: Sequence[Question], count: int
) -> list[ItemAssignment]:
    """`count` questions with one answer and 30 items each, with prompts of at least `PROMPT_TOKENS` tokens."""
    draw = random.Random(0)
    asked = [question for question in questions if question.reference and question.round == 1]
    # Only references from whose beginnings items of nearly the full length can be cut.
    texts = [question.reference for question in asked if question.reference and len(question.reference) > 60]
    work = []
    for question in draw.sample(asked, count):
        draw.shuffle(texts)
        items = items_of_texts(tokenizer, texts[:ITEMS])
        answer = Answer(question_id=question.id, model="m", text="-")
        one = ItemAssignment(question, (), answer, items)
        for text in texts[ITEMS:]:
            if min(lengths(tokenizer, one)) >= PROMPT_TOKENS:
                break
            longer = f"{one.answer.text}\n{text[:300]}"
            one = one._replace(answer=answer.model_copy(update={"text": longer}))
        work.append(one)
    return work


def lengths(tokenizer: PreTrainedTokenizerBase, one: ItemAssignment) -> tuple[int, int]:
    """The tokens of the prompt of a score, and of that of items without the items."""
    score = encode_prompts(tokenizer, [to_score(one)], [WINDOW - 1])[0]
    items = encode_prompts(tokenizer, [one], [WINDOW - 1 - ITEM_TOKENS])[0]
    assert score is not None
    assert items is not None
    return len(score.input_ids), len(items.input_ids)


def to_score(one: ItemAssignment) -> Assignment:
    """The same answer, to be scored."""
    return Assignment(one.question, one.earlier, one.answer)


def measured(judge: GenerativeJudge, questions: Sequence[Question], rounds: int, answers: int) -> dict[str, Any]:
    """Seconds an answer for a score and for items, in turns, and their ratio in each round."""
    device, tokenizer = judge.model.device, judge.tokenizer
    checker = GenerativeLabels(judge, ITEM_LABELS)
    work = one_answer_each(tokenizer, questions, rounds * answers)
    ways: dict[str, Any] = {
        "score, one at a time": lambda part: [list(judge.judge([to_score(one)])) for one in part],
        "items, one at a time": lambda part: [list(checker.judge([one])) for one in part],
        "score, in one call": lambda part: list(judge.judge([to_score(one) for one in part])),
        "items, in one call": lambda part: list(checker.judge(part)),
    }
    for run in ways.values():
        run(work[:2])
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        part = work[number * answers : (number + 1) * answers]
        # Each round begins with another way, so that no way always follows the same one.
        names = list(ways)[number % len(ways) :] + list(ways)[: number % len(ways)]
        for name in names:
            seconds[name].append(timed(device, ways[name], part) / len(part))
    score_tokens, item_prompt_tokens = zip(*(lengths(tokenizer, one) for one in work), strict=True)
    item_tokens = [len(token_ids(tokenizer, item.text)) for one in work for item in one.items]
    return {
        "items": ITEMS,
        "item_tokens": {"median": statistics.median(item_tokens), "most": max(item_tokens)},
        "prompt_tokens_of_a_score": {"least": min(score_tokens), "median": statistics.median(score_tokens)},
        "prompt_tokens_of_items": {"least": min(item_prompt_tokens), "median": statistics.median(item_prompt_tokens)},
        "seconds_an_answer": {name: round(statistics.median(times), 4) for name, times in seconds.items()},
        "cost_of_items_in_scores": {
            how: _ratio(seconds[f"items, {how}"], seconds[f"score, {how}"]) for how in ("one at a time", "in one call")
        },
    }


def _ratio(items: Sequence[float], scores: Sequence[float]) -> dict[str, Any]:
    ratios = [item / score for item, score in zip(items, scores, strict=True)]
    return {"median": round(statistics.median(ratios), 3), "rounds": [round(ratio, 3) for ratio in ratios]}


def main() -> None:
    """Measures and writes the result."""
    arguments, words, name = speed_arguments(__doc__ or "", rounds=9, answers=4)
    device = choose_device(arguments.device)
    questions = read_llmeval_med(arguments.data).questions
    texts = [f"{question.prompt} {question.reference or ''}" for question in questions]
    tokenizer = byte_tokenizer(texts, SIZES["60M"]["vocab_size"])
    model = random_model(arguments.size, device)
    judge = GenerativeJudge("ours", model, tokenizer, GenerativeSettings(WINDOW))
    with torch.inference_mode():
        result = measured(judge, questions, arguments.rounds, arguments.answers)
    command = f"python eval/speed/item_cost.py DATA {words}"
    record(f"item-cost-{name}", {"command": command, "dtype": str(fast_dtype(device)), **result})
    print(result["cost_of_items_in_scores"])


if __name__ == "__main__":
    main()
