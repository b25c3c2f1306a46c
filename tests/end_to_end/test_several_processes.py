"""`accelerate launch -m medjudge.cli …`: several processes give what one gives, also after a kill."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from calls import python, worked
from same_judgments import require_same_run

from medjudge.answer import transformers_engine
from medjudge.errors import InputError
from medjudge.parallel.group import Group
from medjudge.records import Answer, Judgment
from medjudge.store import Run, write_records
from medjudge.workflows.processes import check_sharing

TWO = Path(__file__).parent.parent.parent / "configs" / "accelerate" / "two-cpu.yaml"
EXACT = """
import os, resource, signal, torch
from medjudge.answer import transformers_engine
from medjudge.cli.main import main
# In bfloat16 a batch's other rows round a token's chances, and two processes make other batches than one.
transformers_engine.fast_dtype = lambda _: torch.float32
if "MOST_BYTES" in os.environ and os.environ["RANK"] == "1":
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # the kernel writes up to this byte of a file, and kills at the next
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(os.environ["MOST_BYTES"]),) * 2)
main()
"""


@pytest.fixture
def two(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Starts the command in two processes on the CPU, in an empty folder."""
    (tmp_path / "exact.py").write_text(EXACT)

    def launch(program: list[str], *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        words = ["-m", "accelerate.commands.launch", "--config_file", TWO, *program, *arguments]
        return python(*words, cwd=tmp_path, env={**os.environ, **environment})

    return launch


@pytest.mark.slow
def test_two_processes_answer_and_judge_as_one_does(
    two, medjudge, tiny_lm, tiny_similarity, tmp_path, monkeypatch
) -> None:
    """Conversations of up to three turns; the first process alone prints, in the order of the questions."""
    command = ["eval", "--judge", tiny_similarity, "--model", tiny_lm, "--limit", 12, "--samples", 2, "--json"]
    command += ["--max-new-tokens", 6, "--offline", "--run"]
    monkeypatch.setattr(transformers_engine, "fast_dtype", lambda _: torch.float32)
    alone = medjudge(*command, "one")
    both = two(["exact.py"], *command, "two")
    assert json.loads(both.stdout) == json.loads(alone.stdout), both.stderr[-3000:]
    single, several = tmp_path / "one", tmp_path / "two"
    require_same_run(several, single)
    assert {file.name for file in several.iterdir()} == {file.name for file in single.iterdir()}
    manifests = [json.loads((run / "run.json").read_text()) for run in (single, several)]
    for part in ("models", "judges"):
        for manifest in manifests:
            for entry in manifest[part].values():
                entry.pop("seconds")
        assert manifests[0][part] == manifests[1][part]


@pytest.mark.slow
def test_what_a_killed_group_made_is_kept_and_not_made_again(
    two, medjudge, tiny_lm, tiny_similarity, tmp_path, monkeypatch
) -> None:
    """One of two processes is killed within a line; one process goes on, then two more on the judge stage."""
    command = ["answer", "--model", tiny_lm, "--limit", 12, "--samples", 2, "--max-new-tokens", 6, "--offline", "--run"]
    killed = two(["exact.py"], *command, "killed", MOST_BYTES="700")
    assert killed.returncode != 0
    part = Run(tmp_path / "killed").part(1).answers_file.read_bytes()
    whole = part.split(b"\n")[:-1]
    assert len(part) == 700
    assert 0 < len(whole) < 12
    monkeypatch.setattr(transformers_engine, "fast_dtype", lambda _: torch.float32)
    done = worked(medjudge(*command, "killed"))
    assert "the last line was incomplete" in done.stderr
    medjudge(*command, "calm")
    lines = (tmp_path / "killed" / "answers.jsonl").read_bytes().split(b"\n")[:-1]
    assert set(whole) <= set(lines)
    assert sorted(lines) == sorted((tmp_path / "calm" / "answers.jsonl").read_bytes().split(b"\n")[:-1])
    assert not Run(tmp_path / "killed").parts_folder.exists()
    # The sample's own answers are judged, too: 60 to these questions.
    judging = ["eval", "--judge", tiny_similarity, "--limit", 12, "--offline", "--run", "killed"]
    judged = two(["-m", "medjudge.cli"], *judging)
    assert "84 answers judged" in judged.stdout, judged.stderr[-3000:]
    assert judged.stdout.count("Usability rates") == 1


def test_what_several_processes_cannot_share_is_refused() -> None:
    with pytest.raises(InputError, match="--judge openai:gpt-4o: several processes ask a server no faster than one"):
        check_sharing(Group(1, 2), "transformers", ["--judge openai:gpt-4o"])
    with pytest.raises(InputError, match="--engine ray: starts its own workers"):
        check_sharing(Group(1, 2), "ray", [])


def test_parts_are_taken_in_once_whenever_that_is_broken_off(sample_run: Path) -> None:
    """Whoever takes the lock takes them in: in the order of the questions, without what is there or half written."""
    run = Run(sample_run)
    ids = [question.id for question in run.questions()]
    answers = {answer.question_id: answer for answer in run.answers() if answer.model == "model-a"}

    def judgment(place: int) -> Judgment:
        return Judgment(question_id=ids[place], model="model-a", judge="j", score=3)

    def later(place: int) -> Answer:
        return answers[ids[place]].model_copy(update={"sample": 1})

    write_records(run.judgments_file("j"), [judgment(7), judgment(2)])
    write_records(run.part(0).judgments_file("j"), [judgment(5), judgment(1)])
    write_records(run.part(1).judgments_file("j"), [judgment(4), judgment(2), judgment(1)])
    with run.part(1).judgments_file("j").open("a") as file:
        file.write('{"question_id": "')
    write_records(run.part(11).answers_file, [later(3), later(0)])
    before = run.answers()
    with run.lock():
        pass
    assert run.judgments("j") == [judgment(place) for place in (7, 2, 1, 4, 5)]
    assert run.answers() == [*before, later(0), later(3)]
    assert not run.parts_folder.exists()
