"""Whether a judge behind a flaky server can run for an hour: memory flat, nothing lost, nothing twice.

    python eval/soak.py WORK [MINUTES]

WORK is an empty folder; MINUTES is 60 unless given. A server on loopback answers at the limit of concurrency and fails
in every way: rate limits, errors, pages, hang-ups, cut and empty replies. The judge judges batch after batch of answers
in one process, each in a run folder of its own. After each batch every answer must have one judgment, and none two. The
result goes to eval/results/robustness.json. The exit status is 1 if a judgment is missing or made twice, or if memory
grows by more than 64 MiB after the first tenth of the time.
"""

import json
import os
import random
import sys
import time
from collections import Counter
from datetime import date
from pathlib import Path

import psutil
from study import REPOSITORY, RESULTS

from medjudge.chat_api.client import Server
from medjudge.files import read_json, write_json
from medjudge.judge.open import JudgeRef
from medjudge.models.hardware import describe
from medjudge.records import Answer, Question
from medjudge.scheme import LLMEVAL_MED
from medjudge.store import Run
from medjudge.workflows.judge import JudgeOptions, judge_answers

sys.path.append(str(REPOSITORY / "tests"))
from chat_server import Act, ChatServer, completion, failure  # type: ignore[import-not-found]

ANSWERS, CONCURRENCY, SEED = 400, 32, 17
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
    VERDICT._replace(wait=2.0),
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
    options = JudgeOptions(server=Server(server.url, CONCURRENCY, first_wait=0.02, timeout=1.0))
    with run.lock():
        run.write_questions(questions, LLMEVAL_MED)
        for question in questions:
            answer = Answer(question_id=question.id, model="m", text=f"An answer to {question.id}.")
            run.append(run.answers_file, answer.model_dump_json())
        judgments = judge_answers(run, JudgeRef("gpt", api_model="gpt"), options)
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
    server = ChatServer(lambda body: chance.choice(FAULTS) if chance.random() < 0.2 else VERDICT._replace(wait=0.02))
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
    file = RESULTS / "robustness.json"
    result = {
        "command": f"python eval/soak.py WORK {minutes:g}",
        "date": date.today().isoformat(),
        "machine": describe(),
        "seed": SEED,
        "concurrency": CONCURRENCY,
        "most_at_once": server.most_at_once,
        "runs": len(memory),
        "seconds": round(time.monotonic() - start),
        **{name: counts[name] for name in ("answers", "judgments", "scored", "lost", "twice")},
        "mib_after_a_tenth": settled >> 20,
        "mib_growth_at_most": growth >> 20,
    }
    write_json(file, {**(read_json(file) if file.exists() else {}), "soak": result})
    sys.exit(bool(counts["lost"] or counts["twice"] or growth > MOST_GROWTH))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python eval/soak.py WORK [MINUTES]")
    main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) == 3 else 60)
