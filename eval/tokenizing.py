"""How long prompts of the judge take to tokenise: each whole, and with what they share tokenised once.

    pip install dashscope
    python eval/tokenizing.py DATA [--rounds 5] [--questions 8]

DATA is LLMEval-Med's dataset.json; the vocabulary is Qwen's. Each round draws questions, and 39 references of other
questions as answers to each. The ids of both ways are compared. The result is eval/results/tokenizing.json.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from qwen_tokenizer import qwen_tokenizer, qwen_vocabulary
from study import record
from transformers import PreTrainedTokenizerBase

from medjudge.benchmark.llmeval_med import read_llmeval_med
from medjudge.judge.prompts import encode_prompt, encode_prompts
from medjudge.judge.protocol import Assignment
from medjudge.judge.shared_prefixes import prefix_forest, unique_tokens
from medjudge.records import Answer, Question

ANSWERS = 39
ROOM = 100_000


class Round(NamedTuple):
    """Milliseconds for a prompt, each way, and what the prompts are."""

    whole: float
    shared: float
    prompts: int
    tokens: int
    unique_tokens: int
    differing: int


def work_of(questions: Sequence[Question], each: int, draw: random.Random) -> list[Assignment]:
    """Questions with 39 answers to each."""
    with_reference = [question for question in questions if question.reference and question.round == 1]
    texts = [question.reference or "" for question in with_reference]
    return [
        Assignment(question, (), Answer(question_id=question.id, model=f"m{model}", text=text, finish_reason="stop"))
        for question in draw.sample(with_reference, each)
        for model, text in enumerate(draw.choices(texts, k=ANSWERS))
    ]


def measured(tokenizer: PreTrainedTokenizerBase, work: Sequence[Assignment]) -> Round:
    """One round: rendering and tokenising, both ways."""
    start = time.perf_counter()
    whole = [encode_prompt(tokenizer, item, ROOM) for item in work]
    middle = time.perf_counter()
    shared = encode_prompts(tokenizer, work, [ROOM] * len(work))
    end = time.perf_counter()
    ids = [prompt.input_ids for prompt in whole if prompt is not None]
    return Round(
        whole=round((middle - start) / len(work) * 1000, 3),
        shared=round((end - middle) / len(work) * 1000, 3),
        prompts=len(work),
        tokens=sum(map(len, ids)),
        unique_tokens=unique_tokens(prefix_forest(ids)),
        differing=sum(left != right for left, right in zip(whole, shared, strict=True)),
    )


def main() -> None:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--questions", type=int, default=8)
    arguments = parser.parse_args()
    vocabulary = qwen_vocabulary()
    if vocabulary is None:
        sys.exit("Qwen's vocabulary is not here: pip install dashscope")
    tokenizer = qwen_tokenizer(vocabulary)
    questions = read_llmeval_med(arguments.data).questions
    draw = random.Random(0)
    measured(tokenizer, work_of(questions, 1, draw))
    rounds = [measured(tokenizer, work_of(questions, arguments.questions, draw)) for _ in range(arguments.rounds)]
    faster = [each.whole / each.shared for each in rounds]
    result = {
        "command": f"python eval/tokenizing.py DATA --rounds {arguments.rounds} --questions {arguments.questions}",
        "rounds": [each._asdict() for each in rounds],
        "ms_for_a_prompt_whole": statistics.median(each.whole for each in rounds),
        "ms_for_a_prompt_shared": statistics.median(each.shared for each in rounds),
        "times_as_fast": round(statistics.median(faster), 2),
        "range": [round(min(faster), 2), round(max(faster), 2)],
    }
    record("tokenizing", result)
    print(result)


if __name__ == "__main__":
    main()
