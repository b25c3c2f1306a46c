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


def test_the_file_never_chooses_where_the_key_is_sent(
    medjudge: Callable, project: Callable, chat_server: Callable
) -> None:
    """A folder from elsewhere may hold a project file; its user's key must not go where that file says."""
    server = chat_server(lambda body: completion("{}"))
    url = server.url
    sections = [{"base-url": url}, {"base_url": url}, {f"base-url={url}": True}, {f"base_url={url}": True}]
    hostile: list[dict[str, object]] = [{"eval": section} for section in [*sections, {"proposer-base-url": url}]]
    hostile += [{"validate": sections[0]}, {"run": f"--base-url={url}"}, {"benchmark": f"--base-url={url}"}]
    for entries in hostile:
        project(judges=["openai:m"], **entries)
        for command in ("eval", "run"):
            refused(medjudge(command, OPENAI_API_KEY="secret"), "error: medjudge.yaml: ")
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
    refused(medjudge("validate"), "runs/mine: has no physician_scores.jsonl")

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
    done = medjudge("eval", "--model", tiny_lm, "--answered-only")
    refused(done, "--answered-only: is for answers that exist")  # not: --model and --answers
    assert done.stderr.splitlines()[0] == "medjudge.yaml: --benchmark sample --judge similarity --run runs/sample"


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
    done = medjudge("eval")
    refused(done, message)
    assert len(done.stderr.splitlines()) == 1


def test_report_shows_what_it_takes_as_it_is_typed(medjudge: Callable, project: Callable) -> None:
    project(report={"lang": "zh"})
    assert medjudge("report").stderr.startswith("medjudge.yaml: runs/sample --lang zh\n")
    project(report={"runs": 5})
    refused(medjudge("report"), "Invalid value for 'RUN'")


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
    refused(medjudge("init"), "exists already")
