"""Every reader of files and replies, and what must hold for each: a typed value, or an error written for the user."""

import csv
import io
import json
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from openpyxl import Workbook
from pydantic import BaseModel
from safetensors.numpy import save_file

import medjudge
from eval.lib.study import REPOSITORY
from medjudge.annotate.plan import plan_file, read_plan
from medjudge.annotate.scores import parse_label_map, read_physician_scores
from medjudge.annotate.workbook import read_workbook
from medjudge.benchmark.expert_sets import read_liveqa_med, read_mediqa2019
from medjudge.benchmark.files import check_file, read_benchmark
from medjudge.benchmark.llmeval_med import read_llmeval_scores
from medjudge.benchmark.own_files import read_own_answers, read_own_questions
from medjudge.chat_api.batch_jobs import read_batch_jobs, state_file
from medjudge.chat_api.replies import ReplyError, parse_reply
from medjudge.chat_api.spending import read_prices
from medjudge.errors import InputError
from medjudge.languages.texts import languages_of
from medjudge.probes.texts import probe_texts
from medjudge.records import Answer, Judgment, Question
from medjudge.rubrics.render import neutralise, render
from medjudge.rubrics.verdict import read_verdict
from medjudge.scheme import LLMEVAL_MED, open_scheme, read_scheme
from medjudge.store import Run, read_questions, read_records
from medjudge.validation.gate import read_gate
from medjudge.validation.records import read_study
from medjudge.workflows.project import read_project

sys.path.append(str(REPOSITORY / "tests"))
from example_study import example_study  # type: ignore[import-not-found]

MOST_SECONDS = 10.0
"""Processor time for one input of at most some hundred kilobytes; what takes longer grows faster than its input."""


class Reader(NamedTuple):
    """A reader of one kind of file, or of texts that come from a model or a server.

    Attributes:
        name: Its name in the results.
        file: The path of the file below an empty folder.
        valid: Files that it accepts.
        kind: How they are changed: `json`, `lines` (of JSON), `yaml`, `csv`, `xlsx`, `xml`, `text` or `reply`.
        read: Reads the file; gets its path.
        refuses: The error that it documents, if any.
    """

    name: str
    file: str
    valid: tuple[bytes, ...]
    kind: str
    read: Callable[[Path], Any]
    refuses: type[Exception] | None = InputError


class Outcome(NamedTuple):
    """The outcome of a reader: `read` or `refused`; or `problem`, which breaks the property, in one line."""

    read: bool
    problem: str | None = None


def outcome(reader: Reader, data: bytes) -> Outcome:
    """Writes a file into an empty folder, has it read, and says whether the property holds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / reader.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        try:
            with _most_seconds(MOST_SECONDS):
                _write_again(reader.read(path))
        except TimeoutError:
            return Outcome(False, f"more than {MOST_SECONDS:g} s of processor time")
        except Exception as error:
            if reader.refuses is None or not isinstance(error, reader.refuses):
                return Outcome(False, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
            return Outcome(False, None if str(error).strip() else "an error without a message")
    return Outcome(True)


@contextmanager
def _most_seconds(seconds: float) -> Iterator[None]:
    """Raises TimeoutError after so much processor time of the process; only in its main thread."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _write_again(value: Any) -> None:
    """Check that what was read can be written: a lone surrogate, say, would break the run that it was read into."""
    for item in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(item, BaseModel):
            item.model_dump_json()
        elif isinstance(item, str):
            item.encode()
        elif isinstance(item, (list, tuple)):
            _write_again(item)


_QUESTION: dict[str, Any] = {"id": "q1", "category": "MK", "group": "q1", "prompt": "What is normal?", "language": "en"}
_QUESTION |= {"reference": "4 g a day.", "checklist": "Core requirements: 1. Dose", "round": 1, "difficulty": "easy"}
_ANSWER = {"question_id": "q1", "model": "m", "sample": 0, "text": "At most 4 g.", "finish_reason": "stop"}
_JUDGMENT = {"question_id": "q1", "model": "m", "judge": "j", "round": 1, "score": 4, "expected": 3.9}
_JUDGMENT |= {"probabilities": [0, 0.1, 0.1, 0.6, 0.2], "rationale": "Right."}
_SCORE = {"question_id": "q1", "model": "m", "sample": 0, "rater": "dr", "score": 4, "comment": "fine"}
_MTG_POINTS = {"correctness": 5, "instruction_following": 4, "effectiveness": 3, "readability": 3, "safety": 1}
_LINE = {"question": _QUESTION, "earlier": [], "answer": _ANSWER, "level": 4, "probabilities": [0, 0, 0, 1, 0]}
_LINE |= {"source": "physician", "scored_by": ["dr"]}
_PACKAGE = Path(medjudge.__file__).parent
_PROJECT = "benchmark: sample\njudges: [built-in]\nraters: [dr-a]\ngate: {cohen_kappa: 0.6}\neval: {samples: 3}\n"
_SCHEME_YAML = """name: own
title: Own
languages: [en]
extends: llmeval-med
categories:
  - {id: MK, title: {en: Knowledge}}
"""
_GATE = "usable_agreement: {MK: 0.8}\ncohen_kappa: 0.6\ncoverage: 0.95\nprobe_flips_of: {homoglyphs: 0.1}\n"
_PRICES = "gpt: {input: 1.25, output: 5.0, batch: 0.5, date: 2026-01-02, source: list}\n"
_MEDIQA = """<?xml version="1.0"?>
<MEDIQA2019-Task3-QA-Alexa><Question QID="1"><QuestionText>How?</QuestionText><AnswerList>
<Answer AID="1_1" SystemRank="1" ReferenceRank="1" ReferenceScore="4"><AnswerText>So.</AnswerText></Answer>
</AnswerList></Question></MEDIQA2019-Task3-QA-Alexa>"""
_LIVEQA = """<?xml version="1.0"?><LiveQA><NLM-QUESTION qid="TQ1"><Original-Question><SUBJECT>Dose</SUBJECT>
<MESSAGE>How much?</MESSAGE></Original-Question><ReferenceAnswers><ReferenceAnswer><ANSWER>4 g.</ANSWER>
</ReferenceAnswer></ReferenceAnswers></NLM-QUESTION></LiveQA>"""
_LLMEVAL = {
    "医疗知识": [
        {"problem": "问题？", "groupCode": 1, "round": 1, "sanswer": "答案", "checklist": "核心需求：1. 剂量"}
        | {"difficulty": "低", "second_level": "基础", "model_answer": "回答", "model_answer_score": 4}
        | {"model_answer_judgement": "得分：4"}
    ]
}


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _lines(*values: Any) -> bytes:
    return b"".join(_json(value) + b"\n" for value in values)


def _workbook(*sheets: tuple[str, Sequence[Sequence[object]]]) -> bytes:
    workbook = Workbook()
    workbook.remove(workbook.active)
    for name, rows in sheets:
        sheet = workbook.create_sheet(name)
        for row in rows:
            sheet.append(row)
    file = io.BytesIO()
    workbook.save(file)
    return file.getvalue()


_HEADINGS = ["question_id", "model", "sample", "rater", "score", "comment"]
_ROW = ["q1", "m", 0, "dr", 4, "fine"]


def table(rows: Sequence[Sequence[object]], separator: str = ",") -> bytes:
    """A file of separated values; half a character stays what it is."""
    file = io.StringIO()
    csv.writer(file, delimiter=separator).writerows(rows)
    return file.getvalue().encode("utf-8", "surrogatepass")


def _in_run(read: Callable[[Run], Any], depth: int = 1) -> Callable[[Path], Any]:
    return lambda path: read(Run(path.parents[depth - 1]))


def _manifest(run: Run) -> Any:
    manifest = run.manifest()
    if not isinstance(manifest, dict):
        raise AssertionError(f"the manifest is a {type(manifest).__name__}")
    return manifest


def _training_lines(path: Path) -> Any:
    from medjudge.train.features import read_training_lines  # late, because it loads torch

    return read_training_lines(path)


def _card(path: Path) -> Any:
    from medjudge.judge.folder import read_card  # late, because it loads torch

    for name in ("head.safetensors", "tokenizer_config.json", "tokenizer.json"):
        (path.parent / name).write_bytes(b"{}")
    adapter = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["query"]}
    (path.parent / "adapter_config.json").write_text(json.dumps(adapter))
    save_file({"query.lora_A.weight": np.zeros((4, 8))}, path.parent / "adapter_model.safetensors")
    return read_card(path.parent)


def _liveqa_references(path: Path) -> Any:
    (path.parent / "judged.txt").write_text("1 4 At most 4 g.\n")
    return read_liveqa_med(path, path.parent / "judged.txt")


def _liveqa_judged(path: Path) -> Any:
    (path.parent / "references.xml").write_text(_LIVEQA)
    return read_liveqa_med(path.parent / "references.xml", path)


def _probe_texts(path: Path) -> Any:
    # A scheme's folder holds the files of its languages as they are.
    texts = {"fr": {"probes.yaml": path.read_text(encoding="utf-8", errors="replace")}}
    return probe_texts("fr", languages_of(LLMEVAL_MED.model_copy(update={"texts": texts})))


def _records() -> tuple[Reader, ...]:
    three = (_lines(_QUESTION), _lines(_ANSWER), _lines(_SCORE))
    return (
        Reader("questions", "q.jsonl", (_lines(_QUESTION),), "lines", read_questions),
        Reader("answers", "a.jsonl", (_lines(_ANSWER),), "lines", lambda path: read_records(path, Answer)),
        Reader("judgments", "j.jsonl", (_lines(_JUDGMENT),), "lines", lambda path: read_records(path, Judgment, True)),
        Reader("physicians' records", "p.jsonl", (_lines(_SCORE),), "lines", read_physician_scores),
        Reader("data check", "x.jsonl", three, "lines", check_file),
    )


def _json_files() -> tuple[Reader, ...]:
    jobs = [{"name": "b", "requests": 1, "most_in": 9, "most_out": 9, "batch_id": "x", "status": "done"}]
    item = {"id": "a1", "question_id": "q1", "model": "m", "sample": 0}
    plan = {"seed": 0, "which": "random", "items": [item], "by_rater": {"dr": ["a1"]}}
    here = Run(Path())
    of_plan, of_jobs = str(plan_file(here)), str(state_file(here, "j"))
    scored = (_json(_LLMEVAL),)
    study = example_study(overall={"cohen_kappa": {"value": 0.5, "low": 0.4, "high": 0.6}}).model_dump_json().encode()
    return (
        Reader("scheme.json", "scheme.json", (LLMEVAL_MED.model_dump_json().encode(),), "json", read_scheme),
        Reader("run.json", "run.json", (_json({"run_id": "x", "judges": {}}),), "json", _in_run(_manifest)),
        Reader("study", "agreement/j.json", (study,), "json", _in_run(lambda run: read_study(run, "j"), 2)),
        Reader("plan", of_plan, (_json(plan),), "json", _in_run(read_plan, 2)),
        Reader("batch jobs", of_jobs, (_json(jobs),), "json", _in_run(lambda run: read_batch_jobs(run, "j"), 2)),
        Reader("LLMEval-Med", "dataset.json", scored, "json", lambda path: read_benchmark(str(path))),
        Reader("LLMEval-Med scores", "s.json", scored, "json", lambda path: read_llmeval_scores([path], "m", "j")),
    )


def _yaml_files() -> tuple[Reader, ...]:
    probes = (_PACKAGE / "languages" / "en" / "probes.yaml").read_bytes()
    return (
        Reader("scheme.yaml", "scheme.yaml", (_SCHEME_YAML.encode(),), "yaml", lambda path: open_scheme(str(path))),
        Reader("gate", "gate.yaml", (_GATE.encode(),), "yaml", read_gate),
        Reader("prices", "prices.yaml", (_PRICES.encode(),), "yaml", read_prices),
        Reader("project", "medjudge.yaml", (_PROJECT.encode(),), "yaml", read_project),
        Reader("texts of a language", "probes.yaml", (probes,), "yaml", _probe_texts),
    )


def _tables() -> tuple[Reader, ...]:
    wide = table([["question_id", "model", "dr_a", "dr_b"], ["q1", "m", 4, 5]], "\t")
    dimensions = table([["question_id", "model", "rater", *_MTG_POINTS], ["q1", "m", "dr", *_MTG_POINTS.values()]])
    labelled = table([_HEADINGS, ["q1", "m", 0, "dr", "good", ""]])
    long = (table([_HEADINGS, _ROW]), table([_HEADINGS, _ROW], ";"), dimensions)
    book = _workbook(("S", [_HEADINGS, _ROW]))
    form = _workbook(
        ("Start", [["Rater 评分人", "dr"]]), ("MK", [["ID", "Answer 回答", "Score 评分"], ["a1", "At most 4 g.", 4]])
    )
    own = [["id", "category", "prompt", "reference"], ["q1", "MK", "How much?", "4 g"]]
    answers = table([["问题编号", "模型", "回答"], ["q1", "m", "At most 4 g."]])
    return (
        Reader("own questions", "q.csv", (table(own),), "csv", lambda path: read_own_questions(path, LLMEVAL_MED)),
        Reader("own workbook", "q.xlsx", (_workbook(("S", own)),), "xlsx", lambda path: check_file(path)),
        Reader("own answers", "a.tsv", (answers,), "csv", read_own_answers),
        Reader("long table", "t.csv", long, "csv", read_physician_scores),
        Reader(
            "labelled table", "t.csv", (labelled,), "csv", lambda path: read_physician_scores(path, (), {"good": 5})
        ),
        Reader("wide table", "t.tsv", (wide,), "csv", lambda path: read_physician_scores(path, ["dr_a", "dr_b"])),
        Reader("workbook table", "t.xlsx", (book,), "xlsx", read_physician_scores),
        Reader("workbook form", "f.xlsx", (form,), "xlsx", read_workbook),
    )


def _expert_sets() -> tuple[Reader, ...]:
    judged = b"1 4 At most 4 g.\n1 -2 ...\n"
    return (
        Reader("MEDIQA", "m.xml", (_MEDIQA.encode(),), "xml", lambda path: read_mediqa2019([path])),
        Reader("LiveQA references", "references.xml", (_LIVEQA.encode(),), "xml", _liveqa_references),
        Reader("LiveQA judged", "judged.txt", (judged,), "text", _liveqa_judged),
    )


def _torch_readers() -> tuple[Reader, ...]:
    card = (_PACKAGE / "data" / "similarity" / "judge.json").read_bytes()
    return (
        Reader("judge.json", "judge.json", (card,), "json", _card),
        Reader("training lines", "train.jsonl", (_lines(_LINE),), "lines", _training_lines),
    )


_REPLY = {"choices": [{"message": {"content": "Score: 4"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 9}}


def _renders(text: str) -> str:
    question = Question.model_validate({**_QUESTION, "prompt": f"Q {text}", "reference": text or None})
    user = render(question, [text], text, "reason-first").user
    taken_apart = neutralise(text)
    if neutralise(taken_apart) != taken_apart:
        raise AssertionError("a control token is left after they were taken apart")
    return user.encode("utf-8", "replace").decode()


def _of_text(
    name: str, valid: tuple[str, ...], read: Callable[[str], Any], refuses: type[Exception] | None = None
) -> Reader:
    encoded = tuple(text.encode() for text in valid)
    return Reader(name, "reply.txt", encoded, "reply", lambda path: read(path.read_bytes().decode()), refuses)


def _replies() -> tuple[Reader, ...]:
    verdicts = ("Score: 4", "得分：4", '{"rationale": "a", "score": 4}', "Right.\n**Score:** 4/5")
    return (
        _of_text("verdict", verdicts, read_verdict),
        _of_text("server's reply", (json.dumps(_REPLY),), parse_reply, ReplyError),
        _of_text("judge's prompt", ("<|im_end|>", "<<<END x>>>", "[INST]"), _renders),
        _of_text("label map, text", ("good=5,bad=1",), parse_label_map, InputError),
    )


READERS = (*_replies(), *_records(), *_json_files(), *_yaml_files(), *_tables(), *_expert_sets(), *_torch_readers())
"""Every reader of replies and files."""
