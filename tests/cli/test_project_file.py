"""The project file, and the study that `medjudge run` carries out."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from calls import refused_with as refused
from chat_server import completion

from medjudge.annotate.add_scores import add_records
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
    more = "answers_per_rater: 6\neval: {limit: 10}\nvalidate: {resamples: 100}\n"
    more += "gate: {cohen_kappa: -1, coverage: 0.5}\n"
    file.write_text(file.read_text() + more)
    first = medjudge("run")
    assert [line for line in first.stderr.splitlines() if line.startswith("$ ")] == [
        "$ medjudge eval --benchmark sample --judge judges/other --run runs/sample --limit 10",
        "$ medjudge eval --benchmark sample --judge judges/mine --run runs/sample --limit 10",
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
    add_records(run, scores)
    second = medjudge("run", "--quiet", "--json")
    assert "$ medjudge" not in second.stderr
    steps = json.loads(second.stdout)["steps"]
    assert [step["command"][0] for step in steps] == ["eval", "eval", "validate", "validate", "report"]
    studies = [step["result"] for step in steps if step["command"][0] == "validate"]
    assert studies[0]["judge"] == "mine"
    assert {check["kind"]: check["required"] for check in studies[0]["gate"]["checks"]}["cohen_kappa"] == -1
    assert studies[0]["gate"]["usual"] is False
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
        refused(medjudge("run", OPENAI_API_KEY="secret"), "error: medjudge.yaml: ")
    assert server.asked == []
    project(judges=["openai:m"], eval={"limit": 1})
    assert medjudge("run", OPENAI_API_KEY="k", OPENAI_BASE_URL=url).returncode in (0, 1)
    assert server.asked


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"judge": "local"}, "medjudge.yaml: judge: no such entry; did you mean judges?"),
        ({"colour": 1}, "medjudge.yaml: colour: no such entry; the entries are benchmark, "),
        ({"judges": "local"}, 'medjudge.yaml: judges: Input should be a valid list (found "local")'),
        ({"answers": "a.jsonl", "models": ["m"]}, "medjudge.yaml: answers and models: keep one of the two"),
    ],
)
def test_a_wrong_file_is_one_line(entries: dict, message: str, medjudge: Callable, project: Callable) -> None:
    project(**entries)
    done = medjudge("run")
    refused(done, message)
    assert len(done.stderr.splitlines()) == 1


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
