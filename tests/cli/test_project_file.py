"""The project file: what commands take from it, what overrides it, and the study that `medjudge run` carries out."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from calls import refused_with as refused
from chat_server import completion

from medjudge.annotate.add_scores import add_scores
from medjudge.records import PhysicianScore
from medjudge.store import Run


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., None]:
    def write(**entries: object) -> None:
        (tmp_path / "medjudge.yaml").write_text(yaml.safe_dump(entries))

    return write


@pytest.mark.slow
def test_a_study_from_the_file_to_the_verdict(medjudge: Callable, tmp_path: Path, tiny_similarity: Path) -> None:
    for name in ("mine", "other"):
        shutil.copytree(tiny_similarity, tmp_path / "judges" / name)
    judges = ["--judge", "judges/mine", "--judge", "judges/other"]
    assert medjudge("init", *judges, "--rater", "dr-a").returncode == 0
    file = tmp_path / "medjudge.yaml"
    more = "answers_per_rater: 6\neval: {per-category: 2}\nvalidate: {resamples: 100}\n"
    more += "gate: {cohen_kappa: -1, coverage: 0.5}\n"
    file.write_text(file.read_text() + more)
    first = medjudge("run")
    assert [line for line in first.stderr.splitlines() if line.startswith("$ ")] == [
        "$ medjudge eval --benchmark sample --judge judges/other --run runs/sample --per-category 2",
        "$ medjudge eval --benchmark sample --judge judges/mine --run runs/sample --per-category 2",
        "$ medjudge annotate export runs/sample --rater dr-a --each 6",
        "$ medjudge report runs/sample",
    ]
    assert "no physicians' scores in runs/sample yet" in first.stderr
    run = Run(tmp_path / "runs" / "sample")
    assert (run.path / "annotation" / "forms" / "dr-a.xlsx").exists()
    assert run.last_judge == "mine"
    assert len(run.questions()) == 10

    scores = [
        PhysicianScore(**answer.key._asdict(), rater="dr-a", score=1 + number % 5)
        for number, answer in enumerate(run.answers()[:20])
    ]
    add_scores(run, scores)
    second = medjudge("run", "--quiet", "--json")
    assert "$ medjudge" not in second.stderr
    steps = json.loads(second.stdout)["steps"]
    assert [step["command"][0] for step in steps] == ["eval", "eval", "validate", "validate", "report"]
    study = steps[2]["result"]
    assert study["judge"] == "mine"
    assert {check["kind"]: check["required"] for check in study["gate"]["checks"]}["cohen_kappa"] == -1
    assert study["gate"]["usual"] is False
    studies = [step["result"] for step in steps if step["command"][0] == "validate"]
    failed = any(each["gate"]["passed"] is False or each["coverage"] < 1 for each in studies)
    assert second.returncode == int(failed)


@pytest.mark.parametrize(
    "entries",
    [
        {"eval": {"base-url": "URL"}},
        {"eval": {"base_url": "URL"}},
        {"eval": {"base-url=URL": True}},
        {"eval": {"base_url=URL": True}},
        {"validate": {"base-url": "URL"}},
        {"eval": {"proposer-base-url": "URL"}},
        {"run": "--base-url=URL"},
        {"benchmark": "--base-url=URL"},
    ],
    ids=str,
)
def test_the_file_never_chooses_where_the_key_is_sent(
    medjudge: Callable, project: Callable, chat_server: Callable, entries: dict[str, object]
) -> None:
    """A folder from elsewhere may hold a project file; its user's key must not go where that file says."""
    server = chat_server(lambda body: completion("{}"))
    hostile = yaml.safe_load(yaml.safe_dump(entries).replace("URL", server.url))
    project(**{"judges": ["openai:m"], **hostile})
    for command in ("eval", "run"):
        done = medjudge(command, OPENAI_API_KEY="secret")
        assert done.returncode == 2, done.stderr
        assert "medjudge.yaml: " in done.stderr
        assert "Traceback" not in done.stderr
    assert server.asked == []


@pytest.mark.slow
def test_the_command_line_and_the_environment_choose_the_server(
    medjudge: Callable, project: Callable, chat_server: Callable
) -> None:
    server = chat_server(lambda body: completion('{"score": 4, "rationale": "x"}'))
    project(judges=["openai:m"], eval={"limit": 1})
    assert medjudge("eval", "--base-url", server.url, OPENAI_API_KEY="k").returncode == 0
    before = len(server.asked)
    assert before > 0
    project(judges=["openai:m"], eval={"limit": 1}, run="runs/again")
    assert medjudge("run", OPENAI_API_KEY="k", OPENAI_BASE_URL=server.url).returncode == 0
    assert len(server.asked) > before


@pytest.mark.slow
def test_commands_read_the_file_and_options_override_it(medjudge: Callable, project: Callable, tmp_path: Path) -> None:
    project(judges=["similarity"], run="runs/mine", eval={"limit": 2})
    done = medjudge("eval")
    assert (
        done.stderr.splitlines()[0] == "medjudge.yaml: --benchmark sample --judge similarity --run runs/mine --limit 2"
    )
    assert len(Run(tmp_path / "runs" / "mine").questions()) == 2
    assert medjudge("report").returncode == 0
    assert (tmp_path / "runs" / "mine" / "report.html").exists()
    refused = medjudge("validate")
    assert (refused.returncode, "runs/mine: has no physician_scores.jsonl" in refused.stderr) == (2, True)

    overridden = medjudge("eval", "--limit", 3)
    assert "--limit" not in overridden.stderr.splitlines()[0]
    assert "runs/mine: holds other questions" in overridden.stderr
    other = medjudge("eval", "--run", "runs/other", "--judge", "similarity", "--limit", 1)
    assert "medjudge.yaml" not in other.stderr
    assert len(Run(tmp_path / "runs" / "other").questions()) == 1
    assert "medjudge.yaml" not in medjudge("report", "runs/other").stderr
    assert "medjudge.yaml" not in medjudge("eval", "--help").stderr


def test_models_on_the_command_line_take_the_place_of_answers(
    medjudge: Callable, project: Callable, tiny_lm: Path
) -> None:
    project(answers="answers.jsonl", judges=["similarity"])
    refused = medjudge("eval", "--model", tiny_lm, "--answered-only")
    assert refused.stderr.splitlines()[0] == "medjudge.yaml: --benchmark sample --judge similarity --run runs/sample"
    assert "--answered-only: is for answers that exist" in refused.stderr  # not: --model and --answers


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"judge": "local"}, "medjudge.yaml: judge: no such entry; did you mean judges?"),
        ({"colour": 1}, "medjudge.yaml: colour: no such entry; the entries are benchmark, "),
        ({"judges": "local"}, 'medjudge.yaml: judges: Input should be a valid list (found "local")'),
        ({"answers": "a.jsonl", "models": ["m"]}, "medjudge.yaml: answers and models: keep one of the two"),
        ({"eval": {"sample": 3}}, "medjudge.yaml: eval: sample: no such option; `medjudge eval --help` lists them"),
    ],
)
def test_a_wrong_file_is_one_line(entries: dict, message: str, medjudge: Callable, project: Callable) -> None:
    project(**entries)
    refused = medjudge("eval")
    assert refused.returncode == 2
    assert message in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert not list(Path.cwd().glob("runs"))


def test_run_without_a_file_and_init_beside_one(medjudge: Callable, tmp_path: Path) -> None:
    refused(medjudge("run"), "medjudge.yaml: no such file or directory; `medjudge init` writes one")
    names = ["--benchmark", "my questions.jsonl", "--model", "openai:gpt", "--rater", "no", "--rater", "王医生"]
    assert json.loads(medjudge("init", *names, "--json").stdout) == {"file": "medjudge.yaml"}
    written = yaml.safe_load((tmp_path / "medjudge.yaml").read_text())
    assert written == {
        "benchmark": "my questions.jsonl",
        "models": ["openai:gpt"],
        "judges": ["local"],
        "run": "runs/my questions",
        "raters": ["no", "王医生"],
    }
    again = medjudge("init")
    assert (again.returncode, "exists already" in again.stderr) == (2, True)
