"""`medjudge quickstart`: the full pipeline, for real, from the built-in judge and Gemma 3 270M."""

import json
import re
import socket
from pathlib import Path

import pytest
from calls import python, worked

OFFLINE = """
import socket
def refuse(self, address):
    raise OSError("the test cut the network")
socket.socket.connect = refuse
import atexit, pathlib, sys
sys.argv = ["medjudge", *sys.argv[1:]]
status, kept = pathlib.Path("/proc/self/status"), pathlib.Path("memory.txt")
atexit.register(lambda: kept.write_text(status.read_text()))
from medjudge.cli.main import main
main()
"""

NAMES = ["Sample", "Answer", "Judge", "Distil and train", "Validate and report"]


@pytest.mark.slow
def test_quickstart_trains_validates_and_reports_with_the_network_cut_off(tmp_path: Path) -> None:
    assert socket.socket.connect  # cut in the child, not here
    done = worked(python("-c", OFFLINE, "quickstart", "--json", cwd=tmp_path))
    result = json.loads(done.stdout)
    similarity, built_in, trained = result["agreement"]
    assert [study["judge"] for study in result["agreement"]] == ["similarity", "built-in", "quickstart"]
    assert similarity["n"] == built_in["n"] == trained["n"] == 55
    agreement = [study["overall"]["usable_agreement"]["value"] for study in (trained, built_in)]
    difference = result["trained_minus_built_in"]["usable_agreement"]["value"]
    assert difference == pytest.approx(agreement[0] - agreement[1], abs=1e-6)
    assert "trained minus built-in" in done.stderr
    steps = re.split(r"^\[\d/5\] ", done.stderr, flags=re.M)[1:]
    assert [step.split(":")[0] for step in steps] == NAMES
    assert all(re.search(r"^      Took \d+ s$", step, re.M) for step in steps)
    assert re.findall(r"^      (\w+):\s+\S", steps[1], re.M) == ["Question", "Answer"] * 2
    card = json.loads((tmp_path / "judges" / "quickstart" / "judge.json").read_text())
    assert (card["training"]["started_from"], card["training"]["answers"]) == ("built-in", 40)
    files = [tmp_path / "runs" / "quickstart" / "training" / f"{name}.jsonl" for name in ("train", "validation")]
    lines = [[json.loads(line) for line in file.open()] for file in files]
    assert [len(side) for side in lines] == [40, 10]
    train, validation = ({line["question"]["group"] for line in side} for side in lines)
    assert not train & validation
    seen = {*card["trained_on"]["question_ids"], *card["trained_on"]["tuned_question_ids"]}
    unseen = {json.loads(line)["id"] for line in (tmp_path / "runs" / "quickstart" / "questions.jsonl").open()}
    assert {line["question"]["id"] for side in lines for line in side} < seen
    assert not seen & unseen
    assert trained["overall"]["spearman"]["value"] > 0.2
    page = (tmp_path / "runs" / "quickstart" / "report.html").read_text()
    assert "No physician wrote or checked them" in page
    assert "Agreement of <bdi>quickstart</bdi>" in page
    # The kernel's getrusage would count the process that started this one too.
    most = re.search(r"VmHWM:\s+(\d+) kB", (tmp_path / "memory.txt").read_text())
    assert most
    assert int(most[1]) < 4.5 * 2**20  # measured: 4.03 GiB
    # The judge just trained still works with the network cut off.
    done = worked(python("-c", OFFLINE, "eval", "--judge", "judges/quickstart", "--limit", "5", cwd=tmp_path))
    assert "Usability rates by judge quickstart" in done.stdout
    # Its own folders are replaced, anybody else's are not.
    (tmp_path / "judges" / "other").mkdir()
    (tmp_path / "judges" / "other" / "notes.txt").write_text("mine")
    done = python("-m", "medjudge.cli", "quickstart", "--judge", "judges/other", cwd=tmp_path)
    assert done.returncode == 2
    assert "not written by quickstart" in done.stderr
    assert (tmp_path / "judges" / "other" / "notes.txt").read_text() == "mine"
