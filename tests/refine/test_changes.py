import subprocess

from medjudge.refine.proposals import Outcome, Proposal
from medjudge.refine.trials import Change, Decision, unified


def change(name: str, before: str, after: str, kept: bool = True) -> Change:
    proposal = Proposal(
        name=name, by="a", cause="c", prompt_sha256="0", reply=after, outcome=Outcome.PROPOSED, text=after
    )
    return Change(proposal, before, Decision(kept, "why", 1.0, 0.3, 1.7))


def test_the_diff_makes_new_checklists_and_changes_others(tmp_path) -> None:
    changes = [
        change("q1", "", "1. at most 4 g"),
        change("q2", "1. old", "1. new"),
        change("q3", "1. a", "1. b", False),
    ]
    (tmp_path / "checklists").mkdir()
    (tmp_path / "checklists" / "q2.md").write_text("1. old\n")
    (tmp_path / "changes.diff").write_text(unified(changes), encoding="utf-8")
    subprocess.run(["git", "apply", "changes.diff"], cwd=tmp_path, check=True)
    assert (tmp_path / "checklists" / "q1.md").read_text() == "1. at most 4 g\n"
    assert (tmp_path / "checklists" / "q2.md").read_text() == "1. new\n"
    assert "q3" not in unified(changes)
