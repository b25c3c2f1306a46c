"""Which answers decide about a change, how they decide, and what a kept change looks like."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from medjudge.records import AnswerKey
from medjudge.refine.disagreements import split_answers
from medjudge.refine.trials import Change, Decision, decide, unified


def test_whole_models_are_held_out_of_each_question() -> None:
    keys = [AnswerKey(f"q{number}", model, sample) for number in range(12) for model in "abcde" for sample in range(3)]
    held_out = split_answers(keys, 0.5, 0)
    for number in range(12):
        held = [key for key in held_out if key.question_id == f"q{number}"]
        assert (len({key.model for key in held}), len(held)) == (2, 6)
    assert split_answers(reversed(keys), 0.5, 0) == held_out
    assert split_answers(keys, 0.5, 1) != held_out
    # A question's draw does not depend on the others.
    fewer = split_answers([key for key in keys if key.question_id in ("q0", "q1")], 0.5, 0)
    assert fewer == {key for key in held_out if key.question_id in ("q0", "q1")}


@pytest.mark.parametrize(("models", "samples", "held"), [("a", 3, 2), ("ab", 1, 1), ("ab", 3, 3), ("a", 1, 0)])
def test_few_answers(models: str, samples: int, held: int) -> None:
    keys = [AnswerKey("q1", model, sample) for model in models for sample in range(samples)]
    assert len(split_answers(keys, 0.5, 0)) == held


def decided(improvement, agree: bool = True) -> Decision:
    return decide(np.array(improvement, dtype=float), *(np.full(len(improvement), share) for share in (True, agree)))


def test_a_change_is_kept_where_the_interval_of_its_improvement_lies_above_zero() -> None:
    decision = decided([2, 1, 0, 2] * 3)
    assert decision.kept
    assert decision.improvement == pytest.approx(1.25)
    assert 0 < decision.low < 1.25 < decision.high


@pytest.mark.parametrize(
    ("improvement", "agree", "why"),
    [
        ([2], True, "1 held-out answers give no interval"),
        ([2, 0], True, "may be chance"),
        ([-1] * 6, True, "may be chance"),
        ([1.1] * 6, False, "usable agreement falls from 1.00 to 0.00"),
    ],
)
def test_a_change_without_evidence_is_not_kept(improvement: list[float], agree: bool, why: str) -> None:
    decision = decided(improvement, agree)
    assert not decision.kept
    assert why in decision.why


def test_few_proposals_of_noise_are_kept() -> None:
    draw = np.random.default_rng(0)
    assert np.mean([decided(draw.integers(-2, 3, 6)).kept for _ in range(400)]) < 0.05


def test_the_diff_makes_new_checklists_and_changes_others(tmp_path: Path) -> None:
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
