"""The speed of judging and answering, beside other ways with the same model and the same prompts.

    pip install lm-eval
    python eval/speed/throughput.py DATA [--size 60M] [--device cpu] [--rounds 3] [--questions 2]

DATA is LLMEval-Med's dataset.json. The model is a Qwen3 with random weights (what it says means nothing, and costs as
much), its tokenizer trained on DATA; the answers to a question are references of other questions of its category, 39 to
each, as in the benchmark (13 models, three answers). Every round takes new questions; all ways run in turn in one
process, in bfloat16 where the hardware has it. Ways whose time grows with the number of answers, whatever those share,
are given the first 16 of a round's shuffled answers, or 4 where they take them one at a time. The result is
eval/results/throughput-DEVICE.json and a table. Without lm-eval its row is left out.
"""

import argparse
import logging
import random
import statistics
import tempfile
from collections.abc import Callable, Sequence
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase, pipeline

from eval.lib.model_shapes import SIZES, random_model, save_model, speed_arguments, timed
from eval.lib.study import record
from eval.lib.tiny_models import byte_tokenizer
from medjudge.answer.conversation import Request
from medjudge.answer.transformers_engine import TransformersEngine
from medjudge.benchmark.llmeval_med import read_llmeval_med
from medjudge.judge.generative import LABELS, GenerativeJudge, GenerativeSettings
from medjudge.judge.prompts import encode_prompts
from medjudge.judge.protocol import Assignment
from medjudge.models.hardware import choose_device, fast_dtype
from medjudge.records import Answer, Question

ANSWERS = 39
RATIONALE = 128
ONE_AT_A_TIME = 4
BATCH = 16
WINDOW = 8192
NEW_TOKENS = 64


class Models(NamedTuple):
    """One model, as each of the ways wants it."""

    folder: Path
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


def build(size: str, texts: Sequence[str], folder: Path, device: torch.device) -> Models:
    """A model with random weights of a size, written to a folder and loaded."""
    tokenizer = byte_tokenizer(texts, SIZES["60M"]["vocab_size"])
    model = random_model(size, device)
    save_model(model, tokenizer, folder)
    return Models(folder, model, tokenizer)


def rounds_of(questions: Sequence[Question], rounds: int, each: int) -> list[list[Assignment]]:
    """For each round, `each` questions of one category with 39 answers to each."""
    draw = random.Random(0)
    assignments_by_round = []
    for number in range(rounds):
        category = ("MK", "MR", "MLU", "MSE")[number % 4]
        first_turns = [
            question
            for question in questions
            if question.category == category and question.reference and question.round == 1
        ]
        texts = [question.reference or "" for question in first_turns]
        work = []
        for question in draw.sample(first_turns, each):
            for model, text in enumerate(
                draw.choices([text for text in texts if text != question.reference], k=ANSWERS)
            ):
                answer = Answer(question_id=question.id, model=f"m{model}", sample=0, text=text, finish_reason="stop")
                work.append(Assignment(question, (), answer))
        draw.shuffle(work)
        assignments_by_round.append(work)
    return assignments_by_round


def judging(models: Models, device: torch.device) -> dict[str, tuple[Callable[[list[Assignment]], Any], int | None]]:
    """The ways to judge, each with how many answers of a round it is given (None: all)."""
    judge = GenerativeJudge("ours", models.model, models.tokenizer, GenerativeSettings(WINDOW))
    reasoning = GenerativeSettings(WINDOW, rationale_tokens=RATIONALE)
    # Each prompt by itself, as judges that ask a chat model for a rationale read it.
    reasoner = GenerativeJudge("reasons", deepcopy(models.model), models.tokenizer, reasoning)
    reasoner.model.set_attn_implementation("sdpa")

    def reasons_batched(work: list[Assignment]) -> None:
        for start in range(0, len(work), BATCH):
            list(reasoner.judge(work[start : start + BATCH]))

    return {
        "medjudge, score first": (lambda work: list(judge.judge(work)), None),
        **({} if find_spec("lm_eval") is None else {_HARNESS: (harness(models, device), BATCH)}),
        f"rationale of {RATIONALE} tokens, batches of {BATCH}": (reasons_batched, BATCH),
        f"rationale of {RATIONALE} tokens, one at a time": (
            lambda work: [list(reasoner.judge([assignment])) for assignment in work],
            ONE_AT_A_TIME,
        ),
    }


_HARNESS = f"lm-evaluation-harness, batches of {BATCH}"


def harness(models: Models, device: torch.device) -> Callable[[list[Assignment]], None]:
    """Judging as lm-evaluation-harness does: the likelihood of each of the five scores."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    logging.getLogger("lm-eval").setLevel(logging.ERROR)
    scorer = HFLM(
        pretrained=models.model, tokenizer=models.tokenizer, batch_size=BATCH, max_length=WINDOW, device=str(device)
    )

    def loglikelihood(work: list[Assignment]) -> None:
        requests = []
        for position, assignment in enumerate(work):
            prompt = encode_prompts(models.tokenizer, [assignment], [WINDOW - 1])[0]
            assert prompt is not None
            context = models.tokenizer.decode(prompt.input_ids)
            requests += [
                Instance("loglikelihood", {}, (context, label), position * len(LABELS) + number)
                for number, label in enumerate(LABELS)
            ]
        scorer.loglikelihood(requests, disable_tqdm=True)

    return loglikelihood


def answering(models: Models, device: torch.device) -> dict[str, tuple[Callable[[list[Request]], Any], int | None]]:
    """The ways to answer."""
    engine = TransformersEngine(str(models.folder), device=device.type, max_new_tokens=NEW_TOKENS)
    chat = pipeline("text-generation", model=engine.model, tokenizer=models.tokenizer)
    options = {"max_new_tokens": NEW_TOKENS, "do_sample": True, "pad_token_id": 0}

    def generated(requests: list[Request]) -> None:
        for start in range(0, len(requests), BATCH):
            messages = [request.messages for request in requests[start : start + BATCH]]
            encoded = models.tokenizer.apply_chat_template(
                messages,
                add_generation_prompt=True,
                padding=True,
                padding_side="left",
                return_dict=True,
                return_tensors="pt",
            )
            engine.model.generate(
                **{name: encoded[name].to(device) for name in ("input_ids", "attention_mask")}, **options
            )

    return {
        "medjudge": (lambda requests: list(engine.answer(requests)), None),
        f"plain generate, batches of {BATCH}": (generated, None),
        "text-generation pipeline, one prompt at a time": (
            lambda requests: [chat([request.messages], **options) for request in requests],
            ONE_AT_A_TIME,
        ),
    }


def in_turns(
    ways: dict[str, tuple[Callable[[list[Any]], Any], int | None]], rounds: Sequence[list[Any]], device: torch.device
) -> dict[str, list[float]]:
    """Seconds an item for each way and round; each runs a few items before the first round."""
    for run, _ in ways.values():
        run(rounds[0][:2])
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for work in rounds:
        for name, (run, most) in ways.items():
            part = work[:most]
            seconds[name].append(timed(device, run, part) / len(part))
            print(f"{name}: {1 / seconds[name][-1]:.2f} a second", flush=True)
    return seconds


def table(seconds: dict[str, list[float]]) -> list[dict[str, Any]]:
    """A row for each way: items a second, and how many times as fast the first way is, paired by round."""
    ours = next(iter(seconds.values()))
    return [
        {
            "way": name,
            "per_second": round(statistics.median(1 / each for each in times), 3),
            "rounds_per_second": [round(1 / each, 3) for each in times],
            "medjudge_is_faster_by": round(statistics.median(b / a for a, b in zip(ours, times, strict=True)), 2),
        }
        for name, times in seconds.items()
    ]


def print_table(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Prints the rows as a Markdown table."""
    print(f"| {title} | a second | medjudge is faster by |\n|---|---|---|")
    for row in rows:
        print(f"| {row['way']} | {row['per_second']:.2f} | {row['medjudge_is_faster_by']:.1f} |")


def main() -> None:
    """Measures and writes the result."""
    arguments, words, name = speed_arguments(__doc__ or "", rounds=3, questions=2)
    device = choose_device(arguments.device)
    questions = read_llmeval_med(arguments.data).questions
    texts = [f"{question.prompt} {question.reference or ''}" for question in questions]
    with tempfile.TemporaryDirectory() as folder:
        models = build(arguments.size, texts, Path(folder), device)
        result = all_ways(models, questions, arguments, device)
    record(f"throughput-{name}", {"command": f"python eval/speed/throughput.py DATA {words}", **result})
    print_table("answers judged", result["judging"])
    print_table("questions answered", result["answering"])


def all_ways(
    models: Models, questions: Sequence[Question], arguments: argparse.Namespace, device: torch.device
) -> dict[str, Any]:
    """Every row: answers judged and questions answered."""
    rounds = rounds_of(questions, arguments.rounds, arguments.questions)
    judged = in_turns(judging(models, device), rounds, device)
    requests = [
        [Request([{"role": "user", "content": question.prompt}], seed) for seed, question in enumerate(part)]
        for part in (questions[start :: arguments.rounds][:32] for start in range(arguments.rounds))
    ]
    answered = in_turns(answering(models, device), requests, device)
    return {
        "parameters": sum(weight.numel() for weight in models.model.parameters()),
        "dtype": str(fast_dtype(device)),
        "judging": table(judged),
        "answering": table(answered),
    }


if __name__ == "__main__":
    main()
