"""`medjudge answer`: models answer a benchmark's questions."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.answer.conversation import answer_questions as answered_by
from medjudge.answer.conversation import cut_off, unanswered
from medjudge.answer.openai_engine import OpenAIEngine
from medjudge.answer.thinking import ThinkingOptions
from medjudge.answer.transformers_engine import RayEngine, TransformersEngine, require_chat_model
from medjudge.answer.vllm_engine import Asked, VllmEngine, VllmMemory, require_vllm
from medjudge.chat_api.client import Server, check_server
from medjudge.chat_api.spending import Limit, Spending
from medjudge.chat_api.transport import server_address, server_model
from medjudge.errors import InputError
from medjudge.models.hardware import choose_device, report_peak_memory
from medjudge.models.loading import commit, model_name
from medjudge.parallel.ray_pool import require_ray
from medjudge.records import Answer, Question
from medjudge.screen import say_on_terminal, stop_explained
from medjudge.store import Run
from medjudge.workflows.run_folder import Choice, chosen, open_benchmark, record_spending, start_run


class AnswerOptions(NamedTuple):
    """The settings by which models answer.

    Attributes:
        samples: Answers per question and model.
        seed: With question and sample it determines each answer's own seed.
        max_new_tokens: The most tokens of an answer.
        temperature: 0 for greedy decoding.
        device: `auto`, `cpu` or `cuda`.
        engine: `transformers`, `vllm` or `ray`, for models of folders and the hub.
        server: Where `openai:` models are, and how patiently they are asked.
        limit: What the run may cost.
        thinking: Whether models think before they answer, and how long.
        system: The system message that every conversation begins with.
        vllm: How the engine `vllm` uses the GPUs.
    """

    samples: int = 3
    seed: int = 0
    max_new_tokens: int = 1024
    temperature: float = 0.7
    device: str = "auto"
    engine: str = "transformers"
    server: Server = Server()
    limit: Limit = Limit()
    thinking: ThinkingOptions = ThinkingOptions()
    system: str | None = None
    vllm: VllmMemory = VllmMemory()

    @property
    def recorded(self) -> dict[str, Any]:
        """The settings that answers depend on, for `run.json`."""
        return {
            "seed": self.seed,
            "temperature": self.temperature,
            "max_new_tokens": self.max_new_tokens,
            "thinking": self.thinking.mode,
            "thinking_tokens": self.thinking.tokens,
            "system": self.system,
        }


@dataclass(frozen=True)
class AnsweredRun:
    """A run folder after its questions were answered.

    Attributes:
        run: The run folder.
        answers: Its answers, of all models.
    """

    run: Run
    answers: tuple[Answer, ...]

    @property
    def empty(self) -> int:
        """The number of answers without text."""
        return sum(not answer.text.strip() for answer in self.answers)

    @property
    def cut_off(self) -> int:
        """The number of incomplete answers: they reached the token limit, or their server broke off."""
        return sum(map(cut_off, self.answers))

    def __repr__(self) -> str:
        cut = f", {self.cut_off} of them cut off" if self.cut_off else ""
        return f"{len(self.answers)} answers in {self.run.answers_file}, {self.empty} of them empty{cut}"


Answerer = Callable[[Sequence[Question], int, int, Sequence[Answer]], Iterator[Answer]]
"""A loaded model: questions, samples, seed and existing answers in, new answers out."""


def answer_questions(
    benchmark: str | None = None,
    *,
    scheme: str | None = None,
    models: Sequence[str],
    run: Path | str | None = None,
    limit: int | None = None,
    options: AnswerOptions = AnswerOptions(),
    offline: bool = False,
    choice: Choice = Choice(),
) -> AnsweredRun:
    """Answers a benchmark's questions with one or several models.

    What the run folder holds already is not answered again.

    Args:
        benchmark: `sample`, LLMEval-Med's `dataset.json`, or a `.jsonl` file of questions; unless given, that of an
            existing run folder, else `sample`.
        scheme: What the questions belong to: a scheme's name, folder or file; unless given, the one that the run or the
            questions' folder has a copy of, else LLMEval-Med's.
        models: Folders, hub ids or `openai:MODEL`.
        run: The run folder; `runs/BENCHMARK` unless given.
        limit: Only the first so many questions.
        offline: Refuses `openai:` models of a server that is not this machine.
        choice: Which questions.

    Raises:
        InputError: The benchmark, a model or an option is wrong; nothing was written.
        UnfinishedError: A server did not answer, or the limit on costs is reached; the same call goes on.
    """
    check_answering(models, options, offline)
    folder, opened = open_benchmark(benchmark, scheme, run, choice, limit)
    answered = {answer.question_id for answer in folder.answers()} if choice.answered_only else set()
    opened = opened._replace(questions=chosen(opened.questions, choice, answered, limit))
    loaded = load_before_writing(folder, models, options, opened.questions)
    command = {"benchmark": opened.source, "models": list(models), "samples": options.samples, **options.recorded}
    with folder.lock():
        start_run(folder, opened.questions, opened.scheme, opened.source, command)
        answer_with_all(folder, models, options, loaded)
    return AnsweredRun(folder, tuple(folder.answers()))


def answering_name(model: str) -> str:
    """The name in the records of a model that `--model` names."""
    return server_model(model, "--model") or model_name(model)


def check_engine(engine: str, device: str) -> None:
    """Finds out before any work whether this machine has an engine and a device.

    Args:
        engine: `transformers`, `vllm` or `ray`.
        device: `auto`, `cpu` or `cuda`; with Ray, of the workers, where this machine may have none.

    Raises:
        InputError: It has not, or `accelerate launch` started several processes.
    """
    if "LOCAL_RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("accelerate launch: this command runs in one process; --engine ray shares its work over GPUs")
    if engine != "ray" or device != "cuda":
        choose_device(device)
    if engine == "vllm":
        require_vllm()
    elif engine == "ray":
        require_ray()
    elif engine != "transformers":
        raise InputError(f"--engine {engine}: unknown; use transformers, vllm or ray")


def check_answering(models: Sequence[str], options: AnswerOptions, offline: bool) -> None:
    """Finds out before anything is written whether all models can answer.

    Raises:
        InputError: One of them cannot.
    """
    check_engine(options.engine, options.device)
    for name in models:
        if model := server_model(name, "--model"):
            check_server(f"--model {name}", model, options.server.base_url, offline, options.limit)
        else:
            require_chat_model(name)


def load_before_writing(
    run: Run, models: Sequence[str], options: AnswerOptions, questions: Sequence[Question]
) -> Answerer | None:
    """Loads the models before their run folder is made: one that cannot be loaded leaves no folder behind.

    Returns:
        The model where there is only one; several do not fit into memory together. None where the run exists.
    """
    if run.path.exists():
        return None
    loaded = None
    for name in models:
        if server_model(name, "--model") is None:
            loaded = None  # its memory is needed
            loaded = _load(run, name, options, questions)
    return loaded if len(models) == 1 else None


def answer_with_all(run: Run, models: Sequence[str], options: AnswerOptions, loaded: Answerer | None = None) -> None:
    """Answers with one model after the other: each is out of memory before the next one is loaded.

    Args:
        loaded: The only model, where it is in memory already.
    """
    for name in models:
        on_this_machine = options.engine == "transformers" and server_model(name, "--model") is None
        with report_peak_memory(f"answering with {name}", options.device if on_this_machine else None):
            answer_with(run, name, options, loaded)


def answer_with(run: Run, model: str, options: AnswerOptions, loaded: Answerer | None = None) -> None:
    """Answers what a model has not answered yet; every answer is on disk before the next one is made.

    Args:
        loaded: The model, where it is in memory already.

    Raises:
        InputError: The run holds answers of this model made with other settings.
    """
    address = server_address(options.server.base_url)
    if name := server_model(model, "--model"):
        source, revision = f"{model} at {address}" if address else model, None
    else:
        name, revision = model_name(model), commit(model)
        source = str(Path(model).resolve()) if Path(model).is_dir() else model
    models = run.manifest().get("models", {})
    existing = run.answers()
    # vLLM draws other answers from the same seeds; Ray's workers draw those of one process.
    settings = {"source": source, **options.recorded, "vllm": options.engine == "vllm"}
    entry = models.setdefault(name, {**settings, "revision": revision, "answers": 0, "seconds": 0.0})
    for setting, value in settings.items():
        if entry.get(setting, value) != value:
            raise InputError(
                f"{run.path}: holds answers of {name} with {setting} {entry[setting]}, and now it is {value}; "
                "choose another --run"
            )
    # Before the first answer, so that a run that was killed still knows whose answers it holds.
    entry["answers"] = sum(answer.model == name for answer in existing)
    run.update_manifest(models=models)
    start = time.monotonic()
    questions = unanswered(run.questions(), name, options.samples, existing)
    if not questions:
        return
    answer_to = loaded or _load(run, model, options, questions)
    made = 0

    def kept() -> str:
        return f"{len(existing) + made} answers are kept in {run.path}, {made} of them new by {name}"

    try:
        with stop_explained(kept):
            for answer in answer_to(questions, options.samples, options.seed, existing):
                run.append(run.answers_file, answer.model_dump_json())
                made += 1
    finally:
        entry["answers"] = sum(answer.model == name for answer in run.answers())
        entry["seconds"] = round(entry.get("seconds", 0.0) + time.monotonic() - start, 1)
        run.update_manifest(models=models)
        record_spending(run, options.limit.prices)


def _load(run: Run, model: str, options: AnswerOptions, questions: Sequence[Question]) -> Answerer:
    tokens, temperature = options.max_new_tokens, options.temperature
    thinking, system = options.thinking, options.system
    how: dict[str, Any] = {"max_new_tokens": tokens, "temperature": temperature, "thinking": thinking}
    if name := server_model(model, "--model"):
        api = OpenAIEngine(name, options.server, Spending(run, options.limit), tokens, temperature, thinking)
        return partial(answered_by, api, system=system)
    name = model_name(model)
    say_on_terminal(f"loading model {name} ...")
    if options.engine == "ray":
        source = str(Path(model).resolve()) if Path(model).is_dir() else model
        return RayEngine(name, source, options.device, tokens, temperature, thinking, system).answer_questions
    if options.engine == "vllm":
        vllm = VllmEngine(model, asked=Asked(questions, system), memory=options.vllm, **how)
        return partial(answered_by, vllm, system=system)
    return partial(answered_by, TransformersEngine(model, device=options.device, **how), system=system)
