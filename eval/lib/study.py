"""Parts that studies share: they run the commands that a user would type, and record results and machine."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Collection
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from medjudge.models.hardware import describe
from medjudge.records import Answer, Question, grouped
from medjudge.store import Run, write_records

REPOSITORY = Path(__file__).parents[2]
RESULTS = REPOSITORY / "eval" / "results"


class Study:
    """Runs commands in a folder and keeps their text and wall time.

    A command without JSON output that succeeded there before is not run again, so an interrupted study can continue.

    Args:
        folder: Where they run; `$NAME` in a command is the path passed under that name.
        places: Names that the written commands use instead of this machine's paths.
    """

    def __init__(self, folder: Path, **places: Path) -> None:
        self.folder = folder
        self.places = places
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "commands.json"
        self.done = {entry["command"]: entry for entry in json.loads(self.log.read_text())} if self.log.exists() else {}
        self.commands: list[dict[str, Any]] = []

    def run(self, command: str, json_output: bool = False, allowed: tuple[int, ...] = (0,)) -> Any:
        """Runs one command offline and without a key; returns its JSON if requested, and stops where it fails."""
        print(f"$ {command}", file=sys.stderr, flush=True)
        if command in self.done and not json_output:
            self.commands.append(self.done[command])
            return None
        # The commands find this Python's medjudge, whether or not its environment is activated.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        environment = {name: str(place) for name, place in self.places.items()} | {"PATH": path}
        hidden = {name: value for name, value in os.environ.items() if name not in ("OPENAI_API_KEY", "MEDJUDGE_JUDGE")}
        start = time.monotonic()
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env=hidden | environment | {"HF_HUB_OFFLINE": "1"},
            stdout=subprocess.PIPE if json_output else sys.stderr,
            text=True,
        )
        if done.returncode not in allowed:
            sys.exit(f"exit {done.returncode}: {command}")
        entry = {"command": command, "seconds": round(time.monotonic() - start, 1), "exit": done.returncode}
        self.commands.append(entry)
        self.done[command] = entry
        self.log.write_text(json.dumps(list(self.done.values()), indent=2))
        return json.loads(done.stdout) if json_output else None

    def write(self, name: str, results: dict[str, Any]) -> None:
        """Writes `eval/results/NAME.json`, including the commands."""
        record(name, {"commands": self.commands, **results})


def record(name: str, results: dict[str, Any]) -> None:
    """Writes `eval/results/NAME.json` with date, machine and versions."""
    _write(name, {**circumstances(), **results})


def record_entry(name: str, entry: str, results: dict[str, Any]) -> None:
    """Writes one entry of `eval/results/NAME.json`; the others stay as they are.

    Args:
        results: Date, machine and versions are added where they are not among them.
    """
    path = RESULTS / f"{name}.json"
    entries = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    _write(name, {**entries, entry: {**circumstances(), **results}})


def circumstances() -> dict[str, Any]:
    """Date, machine and versions."""
    versions = {package: version(package) for package in ("medjudge", "torch", "transformers", "peft", "trl", "numpy")}
    return {"date": date.today().isoformat(), "machine": describe(), "versions": versions}


def _write(name: str, everything: dict[str, Any]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(everything, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    print(f"written: {path}", file=sys.stderr)


SEED = 0
MEASURED = 300
"""Answers, whole questions, of each set without a split of its own on which judges are measured."""


def write_part(source: Run, target: Run, questions: list[Question], answers: list[Answer], people: int | None) -> None:
    """Writes questions with some answers, their judgments, and so many of people's scores (all of them if None)."""
    keys = {answer.key for answer in answers}
    scores = [score for score in source.physician_scores() if score.answer_key in keys]
    if people is not None:
        scores = [scores[at] for at in sorted(np.random.default_rng(SEED).permutation(len(scores))[:people])]
    target.path.mkdir(parents=True)
    write_records(target.answers_file, answers)
    write_records(target.physicians_file, scores)
    for judge in source.judges():
        judged = [judgment for judgment in source.judgments(judge) if judgment.answer_key in keys]
        write_records(target.judgments_file(judge), judged)
    target.write_questions(questions, source.scheme())


def drawn_part(source: Run, target: Run, answers: int | None, without: Collection[str] = ()) -> Run:
    """Writes, once, a run with whole questions in a random order until it has so many answers (all of them if None).

    Args:
        source: The run to draw from.
        target: The run to write; it is left as it is where it exists.
        answers: The number of answers from which on no further question is added.
        without: Ids of questions that are not drawn.
    """
    if target.path.exists():
        return target
    questions = source.questions()
    by_question = grouped(source.answers(), lambda answer: answer.question_id)
    chosen: list[Answer] = []
    for at in np.random.default_rng(SEED).permutation(len(questions)):
        if questions[at].id not in without and (answers is None or len(chosen) < answers):
            chosen += by_question.get(questions[at].id, [])
    asked = {answer.question_id for answer in chosen}
    write_part(source, target, [question for question in questions if question.id in asked], chosen, None)
    return target
