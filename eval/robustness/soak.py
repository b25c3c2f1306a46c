"""A judge behind a flaky server for an hour: memory flat, nothing lost, nothing twice.

    python eval/robustness/soak.py WORK [MINUTES]

WORK is an empty folder; MINUTES is 60 unless given. A server on loopback takes as long as a model would, so that the
limit of concurrency is reached while the processor rests. One request in five fails, in every way: rate limits, errors,
pages, hang-ups, cut and empty replies. The judge judges batch after batch of answers in one process, each in a run
folder of its own. After each batch every answer must have one judgment, and none two. The result goes to
eval/results/robustness.json. The exit status is 1 if a judgment is missing or made twice, if the limit of concurrency
was not reached, or if memory grows by more than 64 MiB after the first tenth of the time.
"""

import json
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

import psutil

from eval.lib.study import REPOSITORY, record_entry
from medjudge.chat_api.client import Server
from medjudge.judge.open import ApiRef, JudgeOptions
from medjudge.records import Answer, Question
from medjudge.scheme import LLMEVAL_MED
from medjudge.store import Run
from medjudge.workflows.judge import judge_answers

sys.path.append(str(REPOSITORY / "tests"))
from chat_server import Act, ChatServer, completion, failure  # type: ignore[import-not-found]

ANSWERS, CONCURRENCY, SEED = 400, 32, 17
LATENCY = (1.0, 3.0)
"""The fewest and the most seconds of a good reply."""
TIMEOUT = 6.0
MOST_GROWTH = 64 << 20
VERDICT = completion(json.dumps({"rationale": "It agrees.", "score": 4}), prompt_tokens=900, completion_tokens=40)
FAULTS = (
    failure(429, "slow down", {"Retry-After": "0.05"}),
    failure(500, "internal"),
    failure(503, "overloaded"),
    Act(b"<html><h1>502 Bad Gateway</h1></html>", 502, {"Content-Type": "text/html"}),
    Act(b"", cut=0),
    VERDICT._replace(cut=60),
    Act(VERDICT.data[:90]),
    Act(b"null"),
    VERDICT._replace(wait=1.5 * TIMEOUT),
)


def one_run(folder: Path, server: ChatServer) -> Counter[str]:
    """Judges the answers of a new run.

    Returns:
        How many answers, judgments, scores, answers without a judgment and answers with two.
    """
    run = Run(folder)
    questions = [
        Question(id=f"q{n}", category="MK", group=f"q{n}", prompt=f"What about {n}?", language="en")
        for n in range(ANSWERS)
    ]
    options = JudgeOptions(server=Server(server.url, CONCURRENCY, first_wait=0.1, timeout=TIMEOUT))
    with run.lock():
        run.write_questions(questions, LLMEVAL_MED)
        for question in questions:
            answer = Answer(question_id=question.id, model="m", text=f"An answer to {question.id}.")
            run.append(run.answers_file, answer.model_dump_json())
        judgments = judge_answers(run, ApiRef("gpt"), options)
    lines = Counter(json.loads(line)["question_id"] for line in run.judgments_file("gpt").read_text().splitlines())
    return Counter(
        answers=ANSWERS,
        judgments=len(judgments),
        scored=sum(judgment.score is not None for judgment in judgments),
        lost=sum(question.id not in lines for question in questions),
        twice=sum(count > 1 for count in lines.values()),
    )


def main(work: Path, minutes: float) -> None:
    """Judges until the time is over, and records the counts."""
    os.environ.setdefault("OPENAI_API_KEY", "of no value")
    chance = random.Random(SEED)

    def act(_: object) -> Act:
        if chance.random() < 0.2:
            return chance.choice(FAULTS)
        return VERDICT._replace(wait=chance.uniform(*LATENCY))

    server = ChatServer(act)
    counts: Counter[str] = Counter()
    memory: list[int] = []
    process, start = psutil.Process(), time.monotonic()
    while (elapsed := time.monotonic() - start) < 60 * minutes:
        counts += one_run(work / str(len(memory)), server)
        server.asked.clear()
        memory.append(process.memory_info().rss)
        print(f"{elapsed:.0f} s", dict(counts), f"{memory[-1] >> 20} MiB", file=sys.stderr, flush=True)
    server.close()
    settled = memory[len(memory) // 10]
    growth = max(memory[len(memory) // 10 :]) - settled
    result = {
        "command": f"python eval/robustness/soak.py WORK {minutes:g}",
        "seed": SEED,
        "concurrency": CONCURRENCY,
        # The server still counts a request that the judge has given up on, until it has answered it.
        "most_at_once": server.most_at_once,
        "runs": len(memory),
        "seconds": round(time.monotonic() - start),
        "processor_seconds": round(time.process_time()),
        **{name: counts[name] for name in ("answers", "judgments", "scored", "lost", "twice")},
        "mib_after_a_tenth": settled >> 20,
        "mib_growth_at_most": growth >> 20,
    }
    record_entry("robustness", "soak", result)
    unsaturated = server.most_at_once < CONCURRENCY
    sys.exit(bool(counts["lost"] or counts["twice"] or unsaturated or growth > MOST_GROWTH))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python eval/robustness/soak.py WORK [MINUTES]")
    main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) == 3 else 60)
