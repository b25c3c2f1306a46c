"""The content of files reaches the terminal as text: nothing in them moves the cursor, hides or reorders a line."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from calls import python, worked

from medjudge.annotate.draw import draw_plan
from medjudge.annotate.plan import PlanOptions, plan_file, read_plan
from medjudge.annotate.scores import read_physician_scores
from medjudge.errors import InputError, on_terminal, printable
from medjudge.files import json_lines
from medjudge.store import Run

HOSTILE = "m\x1b[2J\x1b]0;owned\x07\x9b1A\u202egnp.exe\u2066\u2028\r"
RAW = set("\x1b\x07\x9b\u202e\u2066\u2028\r")


def test_a_message_shows_control_and_bidirectional_characters_as_escapes() -> None:
    assert printable("a\x1bb\u202ec\td\ne") == "a\\u001bb\\u202ec\td\ne"
    assert printable("剂量 é 😀 \u200d") == "剂量 é 😀 \u200d"
    assert not RAW & set(on_terminal(HOSTILE))
    assert len(on_terminal("x" * 10_000_000)) < 2100
    assert on_terminal("a\n" * 5000).endswith("... and 4001 more lines")


def test_a_hostile_name_reaches_neither_error_nor_table_nor_json_raw(medjudge, jsonl, sample_run: Path) -> None:
    answers = jsonl("answers.jsonl", {"question_id": "q1", "model": HOSTILE, "text": "x"})
    long = jsonl("long.jsonl", {"question_id": "owned" * 1_000_000, "model": "m", "text": "x"})
    for result in (
        medjudge("data", "check", answers),
        medjudge("data", "check", answers, "--json"),
        medjudge("eval", "--answers", answers, "--judge", "similarity"),
        medjudge("eval", "--answers", long, "--judge", "similarity"),
        medjudge("eval", "--judge", f"judges/{HOSTILE}"),
    ):
        assert "owned" in result.stdout + result.stderr
        assert not RAW & set(result.stdout + result.stderr)
        assert len(result.stderr) < 2100
    assert HOSTILE in json.loads(medjudge("data", "check", answers, "--json").stdout)["models"]
    (sample_run / "judgments").mkdir()
    (sample_run / "judgments" / "j\x1b[2J.jsonl").write_text("")
    with pytest.raises(InputError, match="a name with control characters"):
        Run.existing(sample_run)


def test_lines_of_the_stations_are_printable_too(tmp_path: Path, medjudge, sample_run, physician_score, jsonl) -> None:
    medjudge("eval", "--run", sample_run, "--judge", "similarity", "--limit", 3)
    question_id = Run(sample_run).questions()[0].id
    model = Run(sample_run).answers()[0].model
    scores = [physician_score(question_id=question_id, model=name) for name in (model, HOSTILE)]
    file = jsonl("scores.jsonl", *[score.model_dump(mode="json") for score in scores])
    judged = medjudge("validate", sample_run, "--judge", "similarity", "--physicians", file, "--resamples", 100)
    assert "belong to no answer" in judged.stderr
    assert "owned" in judged.stderr
    assert not RAW & set(judged.stdout + judged.stderr)
    torn = tmp_path / f"{HOSTILE[:6]}.jsonl"
    torn.write_text('{"question_id"')
    assert list(json_lines(torn, growing=True)) == []


def test_a_rater_of_a_score_file_has_a_rater_s_name(jsonl: Callable, tmp_path: Path) -> None:
    file = jsonl("scores.jsonl", {"question_id": "q1", "model": "m", "rater": "=cmd", "score": 4})
    (tmp_path / "scores.csv").write_text("question_id,model,rater,score\nq1,m,=cmd,4\n")
    for path, place in ((file, "line 1"), (tmp_path / "scores.csv", "row 2")):
        with pytest.raises(InputError, match=rf"{place}: rater '=cmd' starts with '='"):
            read_physician_scores(path)


DEVICE = "name of a device on Windows"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("con", DEVICE),
        ("LPT1.x", DEVICE),
        ("-x", "starts with '-'"),
        ("=cmd", r"starts with '='"),
        ("a\u202eb", "becomes a file name"),
        ("a\x7f", "becomes a file name"),
        ("../x", "becomes a file name"),
        ("医" * 79, "at most 80 characters"),
        ("dr-a\u200b", "holds U\\+200B ZERO WIDTH SPACE"),
        ("dr\u00ada", "holds U\\+00AD SOFT HYPHEN"),
        ("dr\u00a0a", "holds U\\+00A0 NO-BREAK SPACE"),
        ("dr-a\u3164", "holds U\\+3164 HANGUL FILLER"),
        ("dr-a\ufe0f", "holds U\\+FE0F VARIATION SELECTOR-16"),
        ("dr-e\u0301", "accents as separate characters"),
    ],
)
def test_a_rater_s_name_that_no_file_can_have_is_refused(sample_run: Path, name: str, reason: str) -> None:
    run = Run(sample_run)
    run.physicians_file.unlink()
    with pytest.raises(InputError, match=f"--rater .*{reason}"):
        draw_plan(run, PlanOptions([name]))
    good = draw_plan(run, PlanOptions(["dr.li@example.org"], each=1))
    plan_file(run).parent.mkdir()
    plan_file(run).write_text(good.model_dump_json().replace("dr.li@example.org", json.dumps(name)[1:-1]))
    with pytest.raises(InputError, match=rf"plan\.json: not a plan .*{reason}"):
        read_plan(run)


def test_telemetry_of_dependencies_is_off_unless_the_user_turned_it_on() -> None:
    code = "import medjudge, os; from huggingface_hub import constants; print(constants.HF_HUB_DISABLE_TELEMETRY, *map("
    code += "os.environ.get, ('DO_NOT_TRACK', 'RAY_USAGE_STATS_ENABLED', 'VLLM_NO_USAGE_STATS')))"
    names = ("HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK", "RAY_USAGE_STATS_ENABLED", "VLLM_NO_USAGE_STATS")
    clean = {name: value for name, value in os.environ.items() if name not in names}
    for chosen, printed in (({}, "True 1 0 1"), ({"RAY_USAGE_STATS_ENABLED": "1"}, "True 1 1 1")):
        assert worked(python("-c", code, env=clean | chosen)).stdout.strip() == printed


def test_every_line_on_stderr_is_made_printable() -> None:
    """What a station prints may hold names from files, so it goes through `notify`."""
    root = Path(__file__).parents[2]
    printing = [
        str(file.relative_to(root))
        for folder in ("medjudge", "recipes")
        for file in sorted((root / folder).rglob("*.py"))
        if "file=sys.stderr" in file.read_text(encoding="utf-8")
    ]
    assert printing == ["medjudge/errors.py"]
