import subprocess

from medjudge.refine.proposals import Outcome, Proposal
from medjudge.refine.trials import Change, Decision, unified
from medjudge.rubrics.render import rubric


def change(kind: str, name: str, before: str, after: str, kept: bool = True) -> Change:
    proposal = Proposal(
        kind=kind, name=name, by="a", cause="c", prompt_sha256="0", reply=after, outcome=Outcome.PROPOSED, text=after
    )
    return Change(proposal, before, Decision(kept, "why", 1.0, 0.3, 1.7))


def test_the_diff_makes_new_checklists_and_changes_rubrics(tmp_path) -> None:
    standard = rubric("MK.en")
    changes = [
        change("checklist", "q1", "", "1. at most 4 g"),
        change("rubric", "MK.en", standard, standard.replace("All core", "Really all core")),
        change("checklist", "q2", "1. old", "1. new", kept=False),
    ]
    (tmp_path / "rubrics").mkdir(parents=True)
    (tmp_path / "rubrics" / "MK.en.md").write_text(standard, encoding="utf-8")
    (tmp_path / "changes.diff").write_text(unified(changes), encoding="utf-8")
    subprocess.run(["git", "apply", "changes.diff"], cwd=tmp_path, check=True)
    assert (tmp_path / "checklists" / "q1.md").read_text() == "1. at most 4 g\n"
    changed = (tmp_path / "rubrics" / "MK.en.md").read_text(encoding="utf-8")
    assert changed == standard.replace("All core", "Really all core")
    assert "q2" not in unified(changes)
