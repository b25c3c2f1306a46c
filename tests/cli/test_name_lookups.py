"""No command looks up a name that nobody gave it, prints noise of libraries, or names a next command that fails."""

import json
import os
import re
from pathlib import Path

import pytest
from calls import python, worked

from medjudge.benchmark.sample import sample_folder

_WATCHED = """
import io, json, re, shlex, socket, sys, traceback
from contextlib import redirect_stdout

sought = []

def watch(event, arguments):
    named = event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo")
    place = arguments[-1] if event == "socket.connect" else None
    if named or (isinstance(place, tuple) and not place[0].startswith(("127.", "::1"))):
        packages = dict.fromkeys(frame.f_globals["__name__"].split(".")[0] for frame, _ in traceback.walk_stack(None))
        sought.append(f"{arguments[0] if named else place} by {', '.join(packages)}")
        raise socket.gaierror("the test refuses every look-up")

sys.addaudithook(watch)
from medjudge.cli.main import main

commands, more = json.load(sys.stdin)
told = {}
while commands:
    command = commands.pop(0)
    print("$ medjudge", command, file=sys.stderr)
    sys.argv = ["medjudge", *shlex.split(command)]
    code, screen = 0, io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    try:
        with redirect_stdout(screen):
            main()
    except SystemExit as end:
        code = end.code or 0
    screen.flush()
    shown = screen.buffer.getvalue().decode()
    told[command] = [code, sought[:], shown]
    sought.clear()
    for printed in re.findall(r"(?:[Nn]ext|then): medjudge (.+)", shown):
        if re.search(r"\\b(FILE|JUDGE|NAME|RUN)\\b", printed):
            continue  # a person fills it in
        printed += more if printed.startswith("train ") else ""
        if printed not in told and printed not in commands:
            commands.insert(0, printed)
print(json.dumps(told))
"""
_FEW = " --max_steps 1 --eval_strategy no --save_strategy steps --save_steps 1 --load_best_model_at_end false"
_NOISE = re.compile(
    "Unable to fetch remote file|LOAD REPORT|train on a downstream task|Could not find a config file|Traceback|Warning"
)


def _require_offline(commands: list[str], base: Path, folder: Path) -> list[str]:
    """Carries out the commands, and each next command that one prints; returns all of them.

    Args:
        base: What a printed `train` trains in place of its base model.
    """
    environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    more = f" --model_name_or_path {base} --max_length 24576 --upper_layers 2 --per_device_train_batch_size 1{_FEW}"
    environment["HF_HOME"] = str(folder / "hub")
    done = worked(python("-c", _WATCHED, input=json.dumps([commands, more]), cwd=folder, env=environment))
    told = json.loads(done.stdout.splitlines()[-1])
    assert {command: sought for command, (_, sought, _) in told.items() if sought} == {}, done.stderr[-3000:]
    failed = {command: code for command, (code, _, _) in told.items() if code not in (0, 1)}
    assert failed == {}, done.stderr[-3000:]
    assert [line for line in done.stderr.splitlines() if _NOISE.search(line)] == []
    assert [command for command, (_, _, screen) in told.items() if _NOISE.search(screen)] == []
    return list(told)


@pytest.mark.slow
def test_no_command_looks_up_a_name_and_next_commands_work_as_printed(tiny_lm, tmp_path: Path) -> None:
    sample = sample_folder()
    (tmp_path / "ids.txt").write_text("MK-en-01\nMK-zh-01\n")
    commands = [
        "doctor",
        f"data check {sample / 'questions.jsonl'}",
        "data template sample --format xlsx --out template.xlsx",
        *(f"{name} --help" for name in ("answer", "eval", "serve", "run", "distill", "train")),
        f"answer --model {tiny_lm} --run 'my run' --ids ids.txt --samples 1 --max-new-tokens 4",
        "eval --judge built-in --ids ids.txt --run r",
        "eval --judge similarity --ids ids.txt --run s",
        f"validate r --judge built-in --physicians {sample / 'physician_scores.jsonl'}",
        "compare r --judge built-in",
        "report r s --html both.html --lang zh",
        "report r --format csv",
        "annotate export r --rater a --each 5",
        "annotate pairs export r --rater a",
        "annotate items export r --rater a",
        "pack --judge similarity --benchmark sample --out bundle.tar",
        "unpack bundle.tar --out unpacked",
    ]
    all_of_them = _require_offline(commands, tiny_lm, tmp_path)
    assert {"eval 'my run'", "report 'my run'", "report r"} <= set(all_of_them)


@pytest.mark.slow
def test_training_looks_up_no_name_and_its_next_commands_work_as_printed(tiny_lm, tmp_path: Path) -> None:
    """The built-in judge is read, continued and saved, and names its base model as the hub does."""
    files = "--train_file 'my data/train.jsonl' --validation_file 'my data/validation.jsonl'" + _FEW
    commands = [
        f"distill {sample_folder()} --out 'my data'",
        f"train --config quickstart {files} --max_length 32 --output_dir judges/continued",
        f"train --config tiny-generative --model_name_or_path {tiny_lm} {files} --output_dir judges/generative",
        "eval --limit 2 --judge judges/generative",
    ]
    assert "train --config gemma3-270m-lora" in " ".join(_require_offline(commands, tiny_lm, tmp_path))
