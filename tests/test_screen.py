"""How much is shown of work that goes on, and the log that keeps it."""

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from calls import Terminal
from tqdm import tqdm

from medjudge.errors import InputError, notify
from medjudge.screen import _lines, progress_bar, say, say_on_terminal, set_quiet, stop_explained
from medjudge.store import Run


@pytest.mark.parametrize("quiet", [False, True])
def test_quiet_shows_warnings_only(monkeypatch: pytest.MonkeyPatch, quiet: bool) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    set_quiet(quiet)
    with progress_bar(2, "judging (j)", "answer") as bar:
        bar.update(2)
    say("said")
    say_on_terminal("loading judge j ...")
    notify("warning: few steps")
    set_quiet(False)
    for shown in ("judging (j)", "said", "loading judge j ..."):
        assert (shown in terminal.getvalue()) is not quiet
    assert terminal.getvalue().endswith("warning: few steps\n")


def test_off_a_terminal_a_line_says_how_far_long_work_is(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    say_on_terminal("loading ...")
    with progress_bar(2, "judging", "answer") as bar:
        bar.update(2)
    assert capsys.readouterr().err == ""  # short work needs no word
    monkeypatch.setattr("medjudge.screen.LINE_SECONDS", 0.01)
    with progress_bar(4, "judging (j)", "answer") as bar:
        time.sleep(2.0)  # loading, which says nothing of the rest
        for _ in range(3):
            time.sleep(0.02)
            bar.update()
    lines = capsys.readouterr().err.splitlines()
    assert "judging (j): 2 of 4 answers, 00:00 left" in lines
    assert all(re.fullmatch(r"judging \(j\): \d of 4 answers, \S+ left", line) for line in lines)
    # Where the first unit takes long, a line says that the work goes on.
    monkeypatch.setattr(tqdm, "monitor_interval", 0.05)
    monkeypatch.setattr(tqdm, "monitor", None)
    _lines.cache_clear()
    with progress_bar(4, "answering (m)", "answer"):
        time.sleep(0.5)
    assert "answering (m): 0 of 4 answers, ? left" in capsys.readouterr().err.splitlines()


def test_an_interruption_says_what_is_kept_and_an_error_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), stop_explained(lambda: "7 judgments are kept"):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "\n7 judgments are kept\n"
    with pytest.raises(InputError), stop_explained(lambda: "unreached"):
        raise InputError("wrong")
    assert capsys.readouterr().err == ""


def test_the_log_has_what_was_printed_and_how_it_ended(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    with run.lock():
        notify("a warning\x1b[31m")
        notify("3 GiB", shown=False)
        with Run(run.path / "probes" / "echo").lock():
            say("inside")
    lines = [line.partition(" ")[2].partition(" ")[2] for line in (run.path / "log.txt").read_text().splitlines()]
    assert lines[0].startswith("--- medjudge 0.")
    assert lines[1:4] == ["a warning\\u001b[31m", "3 GiB", "inside"]
    assert lines[4].startswith("done in ")
    assert not (run.path / "probes" / "echo" / "log.txt").exists()
    assert (run.path / "log.txt").stat().st_mode & 0o777 == 0o600
    with pytest.raises(InputError), run.lock():
        raise InputError("no such judge")
    assert (run.path / "log.txt").read_text().splitlines()[-1].endswith(" stopped: no such judge")
    with pytest.raises(ZeroDivisionError), run.lock():
        _ = 1 / 0
    assert "ZeroDivisionError: division by zero" in (run.path / "log.txt").read_text()


@pytest.mark.slow
def test_eval_quiet_and_log(medjudge: Callable, tmp_path: Path) -> None:
    command = ["eval", "--judge", "similarity", "--limit", 2, "--run", "run"]
    quiet = medjudge(*command, "--quiet")
    assert quiet.stderr == ""
    assert "Usability rates" in quiet.stdout
    normal = medjudge(*command, "--json")
    assert "judge similarity (" in normal.stderr
    assert "at most" not in normal.stderr
    log = (tmp_path / "run" / "log.txt").read_text()
    for shown in ("--- medjudge", "judge similarity (", "judging with similarity: at most"):
        assert log.count(shown) == 2
