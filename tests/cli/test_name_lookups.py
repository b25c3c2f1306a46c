"""No command looks up a name that nobody gave it: the whole pipeline on the sample, with every look-up recorded."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from medjudge.benchmark.sample import sample_folder

_WATCHED = """
import json, shlex, socket, sys, traceback

looked_up = []

def watch(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"):
        packages = dict.fromkeys(frame.f_globals["__name__"].split(".")[0] for frame, _ in traceback.walk_stack(None))
        looked_up.append(f"{arguments[0]} by {', '.join(packages)}")
        raise socket.gaierror("the test refuses every look-up")

sys.addaudithook(watch)
from medjudge.cli.main import main

codes, names = {}, {}
for command in json.load(sys.stdin):
    print("$ medjudge", command, file=sys.stderr)
    sys.argv = ["medjudge", *shlex.split(command)]
    try:
        main()
    except SystemExit as end:
        codes[command] = end.code or 0
    if looked_up:
        names[command], looked_up[:] = looked_up[:], []
print(json.dumps([codes, names]))
"""
_FEW = "--max_steps 1 --eval_strategy no --save_strategy steps --save_steps 1 --load_best_model_at_end false"


@pytest.mark.slow
def test_no_command_looks_up_a_name(tiny_encoder, tiny_lm, tmp_path: Path) -> None:
    """The built-in judge is read, continued and saved, and names its base model as the hub does."""
    sample = sample_folder()
    commands = [
        "doctor",
        "data check",
        "eval --judge built-in --ids MK-en-01 --run r",
        f"validate r --judge built-in --physicians {sample / 'physician_scores.jsonl'}",
        f"distill {sample} --hold-out 0.9 --out data",
        f"train --config quickstart --train_file data/train.jsonl --validation_file data/validation.jsonl {_FEW}"
        " --gradient_accumulation_steps 1 --max_length 32 --output_dir judges/continued",
        f"train --config minilm-ordinal --model_name_or_path {tiny_encoder} --max_length 32 {_FEW}"
        " --output_dir judges/ordinal",
        f"train --config tiny-generative --model_name_or_path {tiny_lm} {_FEW} --per_device_train_batch_size 1"
        " --output_dir judges/generative",
        "eval r --judge judges/continued",
        "eval r --judge judges/generative",
        f"answer --model {tiny_lm} --run r --ids MK-en-01 --samples 1 --max-new-tokens 4",
        "compare r --judge judges/continued",
        "report r",
        "annotate export r --rater a --each 5",
        "refine r --judge built-in",
        "pack --judge judges/generative --benchmark sample --out bundle.tar",
    ]
    environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    done = subprocess.run(
        [sys.executable, "-c", _WATCHED],
        input=json.dumps(commands),
        cwd=tmp_path,
        env={**environment, "HF_HOME": str(tmp_path / "hub")},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    codes, names = json.loads(done.stdout.splitlines()[-1])
    assert names == {}, done.stderr[-3000:]
    assert {command: code for command, code in codes.items() if code not in (0, 1)} == {}, done.stderr[-3000:]
