"""The study for the first machine with a GPU: its steps end to end on the CPU, and what a step may do to the others."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from model_shapes import SIZES, layer_parameters, random_model
from on_gpu import Step, Worker, measure, planned
from on_gpu_judging import in_trees
from on_gpu_plain import packs, plain_steps
from on_gpu_steps import Place, assignments_of
from on_gpu_training import model_folder, pace, sharing, steps, training, training_lines

from medjudge.files import read_yaml

EVAL = Path(__file__).parents[2] / "eval"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(True, torch.device("cpu"), tmp_path_factory.mktemp("on-gpu"))


@pytest.mark.slow
def test_all_steps_run_on_a_cpu(tmp_path: Path) -> None:
    """Each step is done, or skipped for a stated reason, and the file holds what each measured."""
    out = tmp_path / "on-gpu.json"
    command = [sys.executable, str(EVAL / "on_gpu.py"), "--tiny", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=900)
    entries = json.loads(out.read_text())["steps"]
    assert done.returncode == 0, {name: entry for name, entry in entries.items() if entry["status"] == "failed"}
    assert list(entries) == [step.name for step in planned()]
    results = {name: entry["result"] for name, entry in entries.items() if entry["status"] == "done"}
    assert {entry["reason"] for entry in entries.values() if entry["status"] == "skipped"} <= {
        "package not installed: bitsandbytes",
        "continues from a judge that another config trains",
        "no shape is known for google/gemma-3-270m",  # its own weights are at hand, from a package
    }
    assert results["machine"]["vocabulary"] == "sample"
    agreement = results["judging as plain passes"]["pairs"]["shared, float32 | plain, float32"]
    assert agreement["levels_differing"] == 0
    assert agreement["largest_difference_of_expected_level"] < 1e-3
    assert results["judging 8B"]["prompts_per_second"] > 0
    assert results["judging 8B"]["unscored"] == 0
    assert results["out of memory"]["halved"]
    assert "out of memory: one text of" in results["out of memory"]["one_text_too_long"]
    assert results["killed and resumed"]["judged_at_the_end"] == results["killed and resumed"]["answers"]
    assert results["killed and resumed"]["twice"] == 0
    assert results["answering 1.7B"]["static, greedy"]["answers_per_second"] > 0
    assert results["training qwen3-1.7b-lora"]["by"] == "the recipe's trainer"
    assert results["training qwen3-1.7b-lora"]["tokens_per_second"] > 0
    assert results["training qwen3-1.7b-lora, prefixes shared"]["lines_per_second"] > 0
    trees = results["judging in trees 1.7B"]
    assert trees["tree"]["prompts_per_second"] > 0
    assert trees["differences"]["share_differing"] <= 0.2  # in bfloat16 on a CPU that has it


@pytest.mark.slow
def test_lines_that_share_prefixes_are_trained_in_fewer_tokens(place: Place) -> None:
    alone = training(place, "qwen3-1.7b-lora")
    shared = sharing(place, "qwen3-1.7b-lora")
    tokens = [run["tokens_of_a_step"] / run["lines_of_a_step"] for run in (shared, alone)]
    assert tokens[0] < 0.8 * tokens[1]


def test_judging_in_trees_reads_what_the_default_reads(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model_shapes.fast_dtype", lambda device: torch.float32)
    measured = in_trees(place, "1.7B", 2)
    assert measured["differences"]["levels_differing"] == 0
    assert 0 < measured["differences"]["largest_difference_of_logit"] < 1e-4


def test_the_plain_loop_trains_what_a_config_says(place: Place) -> None:
    options = read_yaml(EVAL.parent / "configs" / "judges" / "qwen3-1.7b-lora.yaml")
    measured = plain_steps(place, options, model_folder(place, "1.7B"), training_lines(place), steps(place))
    assert measured["steps"] == 3
    assert measured["tokens_per_second"] > 0
    tiny = SIZES["tiny"]
    wide, narrow = tiny["num_attention_heads"] * tiny["head_dim"], tiny["num_key_value_heads"] * tiny["head_dim"]
    inputs_and_outputs = 2 * (tiny["hidden_size"] + wide) + 2 * (tiny["hidden_size"] + narrow)
    inputs_and_outputs += 3 * (tiny["hidden_size"] + tiny["intermediate_size"])
    assert measured["trainable"] == tiny["num_hidden_layers"] * options["lora_r"] * inputs_and_outputs


@pytest.mark.parametrize(("size", "billions"), [("0.6B", 0.44), ("1.7B", 1.41), ("4B", 3.63), ("8B", 6.95)])
def test_shapes_are_the_published_ones(size: str, billions: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model_shapes.fast_dtype", lambda device: torch.bfloat16)
    assert layer_parameters(random_model(size, torch.device("meta"))) / 1e9 == pytest.approx(billions, abs=0.01)


def test_packs_hold_what_fits_and_groups_what_is_asked() -> None:
    lines = [SimpleNamespace(ids=[0] * length) for length in (5, 4, 3)]
    packed = packs(lines, 9, 1)
    assert [[len(line.ids) for line in next(packed)] for _ in range(3)] == [[5, 4], [3, 5], [4, 3]]
    assert [len(next(packs(lines, 0, 2)))] == [2]


def test_the_first_two_steps_are_no_part_of_the_pace() -> None:
    at = [(0.0, 0), (9.0, 100), (10.0, 200), (12.0, 300), (13.0, 400)]
    assert pace(at) == {"steps": 5, "seconds_for_a_step": 1.0, "tokens_of_a_step": 100, "tokens_per_second": 75}


def wait_for_the_end_of(pid: int) -> None:
    """Returns where the process is still there after a while, and raises ProcessLookupError where it has ended."""
    for _ in range(200):
        os.kill(pid, 0)
        if Path(f"/proc/{pid}/stat").exists() and ") Z " in Path(f"/proc/{pid}/stat").read_text():
            raise ProcessLookupError
        time.sleep(0.05)


@pytest.mark.slow
def test_a_step_that_fails_or_lacks_a_package_leaves_the_others(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "faulty_steps.py").write_text(
        "import os, subprocess, sys, time\n"
        "def fail(place): raise ValueError('no such kernel')\n"
        "def lack(place): import no_such_package\n"
        "def crash(place): os._exit(7)\n"
        "def hang(place):\n"
        "    process = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "    (place.folder / 'child').write_text(str(process.pid))\n"
        "    time.sleep(600)\n"
        "def work(place): return {'tiny': place.tiny}\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(EVAL), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr("on_gpu._START", 0)
    names = ("fail", "lack", "crash", "work", "hang")
    plan = [Step(name, 5, f"faulty_steps:{name}") for name in names]
    out = tmp_path / "result.json"
    worker = Worker(True, tmp_path)
    worker_run = worker.run
    monkeypatch.setattr(worker, "run", lambda step, seconds: worker_run(step, 5 if step.name == "hang" else seconds))
    result = measure([*plan, Step("late", 6000, "faulty_steps:work")], 30, worker, out)
    entries = result["steps"]
    assert entries == json.loads(out.read_text())["steps"]
    assert entries["fail"]["error"] == "ValueError: no such kernel"
    assert entries["lack"]["reason"] == "package not installed: no_such_package"
    assert entries["crash"]["error"] == "its process ended with 7"
    assert entries["work"]["result"] == {"tiny": True}
    assert entries["hang"]["error"] == "stopped after 5 s"
    with pytest.raises(ProcessLookupError):
        wait_for_the_end_of(int((tmp_path / "child").read_text()))
    assert entries["late"]["reason"].startswith("takes about 6000 s, and 1")


def test_answers_are_as_long_as_real_ones() -> None:
    work = assignments_of(3, 4)
    assert len({(item.question.id, item.answer.model) for item in work}) == 12
    assert len({item.question.id for item in work}) == 3
    assert all(len(item.answer.text) > 100 for item in work)


def test_the_gpu_study_needs_no_trainer_to_start() -> None:
    """A GPU machine may lack TRL and datasets: the modules of the steps are imported without them."""
    code = (
        "import sys\n"
        "for name in ('trl', 'datasets', 'openai', 'typer'): sys.modules[name] = None\n"
        "import on_gpu_edges, on_gpu_judging, on_gpu_training"
    )
    assert importlib.util.find_spec("trl") is not None
    subprocess.run([sys.executable, "-c", code], check=True, cwd=EVAL, env=os.environ)
