"""The same judgments of a generative judge from any batch size, restart or number of processes.

    python eval/speed/reproducible.py DATA [--prompts 2000]

DATA is LLMEval-Med's dataset.json. A Qwen3 of 0.7 million parameters learns to score how much of an answer is a stock
phrase, from noisy levels, on real prompts. It then judges other questions in several ways: all answers at once; one row
a batch; and as three processes after a restart, each with its share in another order. In float32 a fifth of the
prompts are judged, in bfloat16 all. The result is eval/results/reproducible.json.
"""

import argparse
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import cohen_kappa_score
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from eval.lib.study import record
from eval.speed.tree_packing import WINDOW, trainer_of, write_base
from medjudge.benchmark.llmeval_med import read_llmeval_med
from medjudge.judge.generative import GenerativeJudge, GenerativeSettings
from medjudge.judge.protocol import Assignment
from medjudge.models.loading import load_tokenizer
from medjudge.records import Answer, Judgment, Question, TrainingLine
from medjudge.train.generative import GenerativeTrainer, readable

ANSWERS = 39
SHAPE = {"hidden_size": 96, "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 2}
SHAPE |= {"num_key_value_heads": 1, "head_dim": 48}
STEPS = 160
PHRASE = "这一点需要结合临床情况判断。"
Key = tuple[str, str]


def lines_of(questions: Sequence[Question], most: int, draw: random.Random) -> list[TrainingLine]:
    """Up to `most` lines, 39 answers to each question: parts of other references, and the phrase in their place."""
    texts = [question.reference or "" for question in questions]
    lines = []
    for question in questions:
        for model, text in enumerate(draw.choices(texts, k=ANSWERS)):
            parts = [part for part in text[:300].replace("\n", "。").split("。") if part] or ["-"]
            wanted = draw.random()
            replaced = [draw.random() < wanted for _ in parts]
            kept = [PHRASE if gone else part for gone, part in zip(replaced, parts, strict=True)]
            level = int(np.clip(round(1 + 4 * np.mean(replaced) + draw.gauss(0, 0.5)), 1, 5))
            soft = [0.7 * (level == number) + 0.06 for number in range(1, 6)]
            answer = Answer(
                question_id=question.id, model=f"m{model}", text="。".join(kept) or "-", finish_reason="stop"
            )
            fields: dict[str, Any] = {"question": question, "earlier": [], "answer": answer, "level": level}
            lines.append(TrainingLine(**fields, probabilities=soft, source="physician", scored_by=["rule"]))
    return lines[:most]


def trained(base: Path, lines: list[TrainingLine], folder: Path) -> PreTrainedModel:
    """The model after training all its weights on packs of the lines."""
    trainer: GenerativeTrainer = trainer_of(base, lines, folder, {"packing": True, "share_prefixes": True})
    model = trainer.model.requires_grad_(True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)
    packs, draw = list(trainer.train_dataset), random.Random(0)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(1, (step + 1) / 10, (STEPS - step) / (STEPS / 2))
        loss = trainer.compute_loss(model, trainer.data_collator([draw.choice(packs)]))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    plain: PreTrainedModel = readable(model).eval()
    return plain


def ways(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, work: Sequence[Assignment]
) -> dict[str, dict[Key, Judgment]]:
    """The judgments of each way."""

    def judged(part: Sequence[Assignment], batch_tokens: int) -> dict[Key, Judgment]:
        judge = GenerativeJudge("tiny", model, tokenizer, GenerativeSettings(WINDOW, batch_tokens=batch_tokens))
        return {(each.question_id, each.model): each for each in judge.judge(list(part))}

    shuffled = random.Random(1).sample(list(work), len(work))
    shares: dict[Key, Judgment] = {}
    for process in range(3):
        shares |= judged(shuffled[process::3], 4096)
    return {"all at once": judged(work, 8192), "one row a batch": judged(work, 1), "three shares, shuffled": shares}


def differences(judged: dict[str, dict[Key, Judgment]]) -> dict[str, Any]:
    """The distance of each way from the first."""
    first, *others = judged.values()
    rows: dict[str, Any] = {}
    for name, other in zip(list(judged)[1:], others, strict=True):
        pairs = [(one, other[key]) for key, one in first.items() if one.score is not None]
        expected = [abs((one.expected or 0) - (two.expected or 0)) for one, two in pairs]
        levels = sum(one.score != two.score for one, two in pairs)
        rows[name] = {
            "judged": len(pairs),
            "other_levels": levels,
            "share_of_other_levels": levels / len(pairs),
            "expected_level_differs_by_at_most": max(expected),
        }
    return rows


def main() -> None:
    """Trains, judges in each way and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--prompts", type=int, default=2000)
    arguments = parser.parse_args()
    transformers_logging.set_verbosity_error()
    everything = [question for question in read_llmeval_med(arguments.data).questions if question.round == 1]
    questions = [question for question in everything if question.reference and len(question.reference) < 600]
    draw = random.Random(0)
    draw.shuffle(questions)
    learnt, unseen = questions[:20], questions[20:]
    with tempfile.TemporaryDirectory() as folder:
        base = write_base(Path(folder) / "base", questions, 6000, **SHAPE)
        model = trained(base, lines_of(learnt, len(learnt) * ANSWERS, draw), Path(folder) / "out")
        tokenizer = load_tokenizer(str(base))
    lines = lines_of(unseen, arguments.prompts, draw)
    work = [Assignment(line.question, (), line.answer) for line in lines]
    levels = {(line.question.id, line.answer.model): line.level for line in lines}
    single = ways(model, tokenizer, work[: len(work) // 5])
    scores = {key: each.score for key, each in single["all at once"].items() if each.score is not None}
    kappa = cohen_kappa_score(list(scores.values()), [levels[key] for key in scores], weights="quadratic")
    print(f"kappa {kappa:.2f}", differences(single), flush=True)
    half = ways(model.to(torch.bfloat16), tokenizer, work)
    result = {
        "command": f"python eval/speed/reproducible.py DATA --prompts {arguments.prompts}",
        "quadratic_kappa_on_unseen_questions": round(float(kappa), 3),
        "levels_given": {str(level): list(scores.values()).count(level) for level in range(1, 6)},
        "float32": differences(single),
        "bfloat16": differences(half),
    }
    record("reproducible", result)
    print(result)


if __name__ == "__main__":
    main()
