import subprocess

from medjudge.refine.trials import Change, Decision, unified


def test_the_diff_makes_new_checklists_and_changes_others(tmp_path) -> None:
    kept = Decision(True, "why", 1.0, 0.3, 1.7)
    changes = [
        Change("q1", "", "1. at most 4 g", kept),
        Change("q2", "1. old", "1. new", kept),
        Change("q3", "1. a", "1. b", kept._replace(kept=False)),
    ]
    (tmp_path / "checklists").mkdir()
    (tmp_path / "checklists" / "q2.md").write_text("1. old\n")
    (tmp_path / "changes.diff").write_text(unified(changes), encoding="utf-8")
    subprocess.run(["git", "apply", "changes.diff"], cwd=tmp_path, check=True)
    assert (tmp_path / "checklists" / "q1.md").read_text() == "1. at most 4 g\n"
    assert (tmp_path / "checklists" / "q2.md").read_text() == "1. new\n"
    assert "q3" not in unified(changes)
