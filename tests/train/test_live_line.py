"""What a training run shows while it goes on."""

import io
import re
import sys

import pytest
from train_judge import main as train_judge

from medjudge.train.command_line import parse_arguments
from medjudge.train.live_line import duration


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_off_a_terminal_each_evaluation_is_one_line(recipe, tiny_encoder, capsys) -> None:
    train_judge(*parse_arguments(recipe("ordinal", tiny_encoder)))
    output = capsys.readouterr()
    assert "{'" not in output.out + output.err
    lines = [line for line in output.err.splitlines() if line.startswith("training: ")]
    assert lines
    value = r"-?\d+\.\d{3}|nan"
    shown = ", ".join(f"{name} ({value})" for name in ("loss", "validation loss", "agreement", "kappa"))
    assert re.match(rf"training: step \d+ of \d+, {shown}", lines[-1]), lines


def test_on_a_terminal_there_is_one_live_line(recipe, tiny_encoder, monkeypatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    train_judge(*parse_arguments(recipe("ordinal", tiny_encoder)))
    shown = screen.getvalue()
    bars = [part for part in re.split(r"[\r\n]", shown) if part.startswith("training:")]
    assert re.search(r"training: 100%.*loss \d\.\d+, validation loss \d\.\d+, agreement \d\.\d+", bars[-1]), bars
    assert "{'" not in shown
    assert "step " not in "".join(bars)


@pytest.mark.parametrize(("step", "kept"), [(1, "nothing is kept"), (3, "checkpoint-2 is kept; the same command with")])
def test_ctrl_c_says_what_is_kept(step, kept, recipe, tiny_encoder, stopped, capsys) -> None:
    with stopped(step=step), pytest.raises(KeyboardInterrupt):
        train_judge(*parse_arguments(recipe("ordinal", tiny_encoder, load_best_model_at_end=False)))
    assert kept in capsys.readouterr().err


def test_durations() -> None:
    assert [duration(seconds) for seconds in (12, 240, 7200)] == ["12 s", "4 min", "2.0 h"]
