"""Panels from `eval` to `validate` to the report, with real judges and with judgments of judges that are not here."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from calls import refused_with as refused
from calls import worked
from chat_server import completion

from medjudge.records import ErrorKind, Judgment, PhysicianScore
from medjudge.scale import median_level
from medjudge.store import Run, read_records, write_records


def drawn(run: Run, judge: str, noise: float, seed: int, lenient: float = 0.0) -> list[Judgment]:
    """Judgments around the constructed levels; judges of one seed err alike."""
    draw = np.random.default_rng(seed)
    judgments = []
    for score in run.physician_scores():
        weights = np.exp(-np.square(np.arange(1, 6) - score.level - lenient - draw.normal(0, noise)))
        probabilities = (weights / weights.sum()).round(6)
        level = median_level(probabilities / probabilities.sum())
        shown = {"expected": round(float(probabilities @ np.arange(1, 6)), 4), "probabilities": probabilities.tolist()}
        judgments.append(Judgment(**score.answer_key._asdict(), judge=judge, score=level, **shown))
    return judgments


@pytest.fixture
def scored_run(sample_run: Path) -> Run:
    """The sample, scored by one physician, with judgments of a, its relative b, and the lenient c."""
    run = Run(sample_run)
    scores = [score.model_copy(update={"rater": "dr"}) for score in read_records(run.physicians_file, PhysicianScore)]
    write_records(run.physicians_file, scores)
    for name, noise, seed, lenient in (("a", 1.0, 1, 0.0), ("b", 1.0, 1, 0.0), ("c", 1.0, 2, 1.5)):
        write_records(run.judgments_file(name), drawn(run, name, noise, seed, lenient))
    return run


def yaml_panel(folder: Path, text: str, name: str = "jury") -> str:
    (folder / f"{name}.yaml").write_text(text)
    return f"panel:{folder / f'{name}.yaml'}"


@pytest.mark.slow
def test_a_panel_is_the_mean_of_its_members_and_is_compared_with_each(medjudge, scored_run: Run) -> None:
    # What a version before wrote is ignored.
    (scored_run.path / "panels").mkdir()
    (scored_run.path / "panels" / "panel-a+b+c.json").write_text("{}")
    done = medjudge("validate", scored_run.path, "--judge", "panel:a,b,c", "--resamples", 100, "--json")
    assert done.returncode in (0, 1), done.stderr
    study = json.loads(done.stdout)
    level = {score.answer_key: score.level for score in scored_run.physician_scores()}
    assert study["n"] == len(level)
    of_panel = {judgment.answer_key: judgment for judgment in scored_run.judgments("panel-a+b+c")}
    by_member = [{one.answer_key: one for one in scored_run.judgments(member)} for member in "abc"]
    for key in list(level)[:20]:
        rows = [own[key].probabilities for own in by_member]
        assert of_panel[key].probabilities == pytest.approx(np.mean(rows, axis=0), abs=2e-5)
        said = [f"{member}: {own[key].score}" for member, own in zip("abc", by_member, strict=True)]
        assert of_panel[key].rationale == "\n".join(said)
    rows = {row["judge"]: row for row in study["panel"]["members"]}
    assert rows["a"]["measures"] == rows["b"]["measures"]
    assert rows["c"]["measures"]["bias"]["value"] > 0.5
    usable = [(by_member[0][key].score >= 4) == (level[key] >= 4) for key in level]
    assert rows["a"]["measures"]["usable_agreement"]["value"] == pytest.approx(np.mean(usable), abs=1e-6)
    again = medjudge("validate", scored_run.path, "--judge", "panel:a,b,c", "--resamples", 100, "--json")
    assert json.loads(again.stdout) == study
    screen = medjudge("validate", scored_run.path, "--judge", "panel:a,b,c", "--resamples", 100)
    assert "panel minus member" in screen.stdout


@pytest.mark.slow
def test_a_member_that_fails_is_left_out_and_too_few_members_give_no_score(
    medjudge, scored_run: Run, tmp_path: Path
) -> None:
    own = scored_run.judgments("c")
    empty = {"score": None, "expected": None, "probabilities": None}
    refused = [
        one.model_copy(update={**empty, "error": "the model refused", "error_kind": ErrorKind.REFUSED}) for one in own
    ]
    write_records(scored_run.judgments_file("c"), [*refused[:10], *own[10:]])
    two = yaml_panel(tmp_path, "members: [a, c]\nat_least: 2\n", "both")
    one = yaml_panel(tmp_path, "members: [a, c]\nat_least: 1\n", "either")
    for spec in (two, one):
        assert medjudge("validate", scored_run.path, "--judge", spec, "--resamples", 100).returncode in (0, 1)
    first = own[0].answer_key
    failed = next(judgment for judgment in scored_run.judgments("both") if judgment.answer_key == first)
    assert (failed.score, failed.error_kind) == (None, "too_few_members")
    assert "1 of 2 members scored this answer" in failed.error
    assert "c: left out, the model refused" in failed.error
    scored = next(judgment for judgment in scored_run.judgments("either") if judgment.answer_key == first)
    assert scored.score is not None
    assert "c: left out, the model refused" in scored.rationale
    said = json.loads(scored.raw)["members"]
    assert said[1] == {"judge": "c", "error_kind": "refused", "error": "the model refused"}
    record = scored_run.manifest()["judges"]["both"]["panel"]
    assert record["too_few"] == 10
    assert record["members"][1]["left_out"] == {"refused by the server or the model": 10}


@pytest.mark.slow
def test_members_judge_as_if_alone_and_nothing_is_judged_or_paid_for_twice(
    medjudge, chat_server, tiny_similarity: Path, tmp_path: Path
) -> None:
    shutil.copytree(tiny_similarity, tmp_path / "judges" / "near")
    (tmp_path / "prices.yaml").write_text("big: {input: 10, output: 20, date: 2026-01-01, source: here}\n")
    verdict = json.dumps({"rationale": "clear", "score": 4})
    server = chat_server(lambda body: completion(verdict, prompt_tokens=100, completion_tokens=1000))
    options = ("--limit", 4, "--base-url", server.url, "--concurrency", 1, "--prices", "prices.yaml")
    command = ("eval", "--judge", "panel:judges/near,openai:big", "--run", "run", *options)
    first = medjudge(*command, "--max-cost", 0.1, OPENAI_API_KEY="k")  # enough for four requests at most
    assert first.returncode == 1, first.stderr
    assert "goes on without member big" in first.stderr
    assert "answers not judged yet; the same command goes on with them" in first.stdout
    run = Run(tmp_path / "run")
    assert len(run.judgments("panel-near+big")) == 20
    asked = len(server.asked)
    assert 0 < asked < 6
    second = worked(medjudge(*command, OPENAI_API_KEY="k"))
    scored = [one for one in run.judgments("big") if one.score is not None]
    assert len(scored) == len(run.judgments("near")) == len(run.judgments("panel-near+big")) == 20
    assert len(server.asked) == 20
    assert medjudge(*command, OPENAI_API_KEY="k").returncode == 0
    assert len(server.asked) == 20
    worked(medjudge("eval", "--judge", "judges/near", "--run", "alone", "--limit", 4))
    assert Run(tmp_path / "alone").judgments("near") == run.judgments("near")
    scores = json.loads((run.path / "scores.json").read_text())
    assert [member["judge"] for member in scores["panel"]["members"]] == ["near", "big"]
    assert "member near: 20 answers" in second.stdout


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("panel:similarity,similarity", "the panel has a judge named similarity already; name each judge once"),
        ("panel:similarity,nowhere", "member nowhere: judge nowhere: no such folder"),
        ("panel:similarity", "a panel has two members or more"),
        ("panel:similarity,panel:built-in", "a panel cannot be used here"),
        ("panel:missing.yaml", "missing.yaml: no such file"),
        ("members: [built-in, similarity]\nat_least: 3\n", "jury.yaml: at_least: is 3, and the panel has 2 members"),
        ("members: [built-in, similarity]\natleast: 2\n", "jury.yaml: atleast: no such entry; the entries are members"),
        ("members: [built-in, similarity]\ncombine: vote\n", "jury.yaml: combine: Input should be 'mean' or 'median'"),
        ("members: [built-in]\n", "jury.yaml: members: List should have at least 2 items"),
        ("- built-in\n", "jury.yaml: a mapping is expected"),
    ],
)
def test_a_panel_that_cannot_be_is_refused_with_the_place(medjudge, tmp_path: Path, text: str, part: str) -> None:
    spec = text if text.startswith("panel:") else yaml_panel(tmp_path, text)
    refused(medjudge("eval", "--judge", spec, "--run", "run"), part)
    assert not (tmp_path / "run").exists()


def test_a_dry_run_estimates_the_members_behind_an_api(medjudge, tmp_path: Path) -> None:
    command = ("eval", "--judge", "panel:similarity,openai:gpt-4o,openai:gpt-4o-mini", "--limit", 2, "--run", "run")
    done = worked(medjudge(*command, "--dry-run", "--json"))
    members = json.loads(done.stdout)["members"]
    assert list(members) == ["gpt-4o", "gpt-4o-mini"]
    assert members["gpt-4o"]["calls"] == members["gpt-4o-mini"]["calls"] == 10
    assert 0 < members["gpt-4o-mini"]["usd"]["about"] < members["gpt-4o"]["usd"]["about"]
    shown = medjudge(*command, "--dry-run").stdout
    assert "member gpt-4o:\n  10 calls to gpt-4o, none of them made" in shown
    assert not (tmp_path / "run").exists()


def test_what_a_panel_cannot_do_is_refused(medjudge, scored_run: Run, tmp_path: Path) -> None:
    spec = "panel:built-in,similarity"
    for more, part in (
        (("--batch",), "--batch: not with a panel"),
        (("--dry-run",), "all members of panel:built-in,similarity run on this machine and cost nothing"),
    ):
        refused(medjudge("eval", "--judge", spec, "--run", "run", *more, OPENAI_API_KEY="k"), part)
        assert not (tmp_path / "run").exists()
    probes = medjudge("validate", scored_run.path, "--judge", "panel:a,b", "--probes")
    assert "is a panel; probe its members" in probes.stderr
    named = yaml_panel(tmp_path, "members: [a, b]\n", "c")
    refused(medjudge("validate", scored_run.path, "--judge", named), "holds judgments of another judge named c")
