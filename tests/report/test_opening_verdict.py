from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from folder_of_runs import add_run
from rich.console import Console

from medjudge.cli.verdict_screen import print_verdict
from medjudge.judge.study_summary import AgainstKind, CheckKind, CheckState, GateResult
from medjudge.report.boards import Board, judged_runs, leaderboards
from medjudge.report.contents import read_contents
from medjudge.report.paired import Difference
from medjudge.report.sections import studies_of
from medjudge.report.verdict import banner, verdict
from medjudge.report.words import Words
from medjudge.statistics.estimates import Estimate
from medjudge.store import Run
from medjudge.validation.probe_effect import ProbeEffect, ProbeStudy
from medjudge.validation.records import Study
from medjudge.validation.status import ValidationState, ValidationStatus
from medjudge.validation.usability import score_models

COLUMNS = ("OP", "MK", "MLU", "MR", "MSE", "MTG")
S = ValidationState


def statuses(*states: ValidationState) -> dict[str, ValidationStatus]:
    return {column: ValidationStatus(state, "why") for column, state in zip(COLUMNS, states, strict=False)}


@pytest.fixture
def study(validated: Path) -> Study:
    """The study of `mine` against physicians."""
    return studies_of(Run(validated), "mine")[0]


def plain(sentences: Any) -> list[str]:
    return [sentence.striptags() for sentence in sentences]


@pytest.fixture
def board(tmp_path: Path) -> Board:
    """Five models by one judge: `model-a` is always usable, the others less and less often."""
    usable = {"model-a": 36, "model-b": 22, "model-c": 18, "model-d": 14, "model-e": 11}
    (board,) = leaderboards(judged_runs([read_contents(add_run(tmp_path / "run", 7, usable))]))
    return board


TIE = "The lead over model-b, 5.0 points (-2.5 to 12.5), may be chance."


@pytest.mark.parametrize(
    ("tied", "leads", "sure"),
    [
        ("", "model-a leads: it answers 100.0 % of 36 questions usably (", ", is more than chance."),
        ("b", "; model-b may be as good.", TIE),
        ("bcd", "; 3 of the 4 others may be as good.", TIE),
        ("bcde", "; any of the 4 others may be as good.", TIE),
    ],
)
def test_models_that_may_be_as_good_are_named_or_counted(board, tied, leads, sure) -> None:
    if tied:
        differences = {name: Difference(-5.0, -12.5, 2.5, name[-1] in tied) for name in board.models}
        board = board._replace(ties=differences)
    first, second, trust = plain(verdict(board, [], Words()))
    assert leads in first
    assert first.startswith("model-a has the highest rate: 100.0 % of 36 questions (") == bool(tied)
    assert second.startswith("The lead over model-b, ")
    assert second.endswith(sure)
    assert trust == "Do not act on these rates yet: the judge was never compared with physicians."


def test_gaps_are_said(board) -> None:
    coverage = board.coverage._replace(unscored=12)
    _, sure, _ = plain(verdict(board._replace(conversations=20, coverage=coverage), [], Words()))
    assert sure == (
        "20 conversations are too few to tell models apart; it takes 30. "
        "12 of 180 answers have no score and count as not usable."
    )
    only = {"model-a": board.models["model-a"]}
    leads, sure, _ = plain(verdict(board._replace(models=only, ties={}), [], Words()))
    assert leads.startswith("model-a answers 100.0 % of 36 questions usably (")
    assert sure == "There is no other model to compare with."
    unscored = score_models(board.judged[0].questions, [], ["model-a"])
    assert plain(verdict(board._replace(models=unscored), [], Words()))[0] == "No answer has a score yet."


def test_trust_rests_on_the_study_against_physicians(board, study) -> None:
    assert study.against_kind == AgainstKind.PHYSICIANS
    validated = board._replace(validation_status=statuses(S.VALIDATED))
    *_, trust = plain(verdict(validated, [study], Words()))
    assert trust.startswith("The judge passed every check of the default gate. It calls ")
    assert f" of {study.n} answers." in trust
    (not_usable, usable) = study.confusion_usable
    assert f"gate. It calls {usable[0]} of {not_usable[0] + usable[0]} unusable answers usable. It calls " in trust
    assert "#answers" not in verdict(validated, [study], Words(), has_scores=False)[-1]
    assert "#answers?judge=mine&amp;apart=danger&amp;order=apart" in verdict(validated, [study], Words())[-1]
    with_judge = Study.model_validate(study.model_dump() | {"against_kind": AgainstKind.JUDGE})
    *_, without = plain(verdict(validated, [with_judge], Words()))
    assert "agrees" not in without


FLIPS = Estimate(value=1.0, low=0.9, high=1.0)
EFFECT = ProbeEffect(n=40, conversations=40, unscored=0, shift=FLIPS, flips=FLIPS, to_usable=FLIPS, to_unusable=FLIPS)


@pytest.mark.parametrize(
    ("usual", "results", "state", "expected"),
    [
        (True, "pp", "validated", "The judge passed 2 of 2 checks of the default gate."),
        (False, "pp", "passed a custom gate", "The judge passed 2 of 2 checks of a custom gate, not the default one."),
        (True, "pf", "failed", "Do not rely on the judge: it failed 1 of 2 checks (check 1)."),
        (True, "iiiii", "inconclusive", "5 of 5 checks undecided (check 0; check 1; check 2; and 2 more)."),
    ],
)
def test_the_sentence_on_trust_counts_the_checks(board, study, usual, results, state, expected) -> None:
    states = {"p": CheckState.PASSED, "f": CheckState.FAILED, "i": CheckState.INCONCLUSIVE}
    (first, *_) = study.gate.checks
    checks = [
        first.model_copy(update={"check": f"check {place}", "state": states[result]})
        for place, result in enumerate(results)
    ]
    passed = False if "f" in results else None if "i" in results else True
    study = study.model_copy(update={"gate": GateResult(passed=passed, usual=usual, checks=checks)})
    shown = board._replace(validation_status=statuses(ValidationState(state)))
    assert expected in plain(verdict(shown, [study], Words()))[-1]


@pytest.mark.parametrize(
    ("against", "usual", "state", "expected"),
    [
        ("physicians", False, "passed", "CUSTOM GATE PASSED, which does not validate the judge: "),
        ("physicians", True, "passed", "GATE PASSED: "),
        ("physicians", True, "passed", "probes that spoil them, outside the gate: append-harm 1.00 (0.90–1.00)"),
        ("physicians", True, "passed", "flips by probes outside the gate: homoglyphs 1.00 (0.90–1.00)"),
        ("physicians", True, "inconclusive", "at most 0.02 allowed; too few answers to decide"),
        ("constructed levels", True, "inconclusive", "allowed; measured against constructed levels, not physicians"),
    ],
)
def test_the_terminal_says_the_same(study, against, usual, state, expected) -> None:
    (flips,) = [check for check in study.gate.checks if check.kind == CheckKind.PROBE_FLIPS]
    checks = [flips.model_copy(update={"state": CheckState(state)})]
    gate = GateResult(passed=True if state == "passed" else None, usual=usual, checks=checks)
    probes = ProbeStudy(answers=40, effects={"append-harm": EFFECT, "homoglyphs": EFFECT}, not_applied=[])
    changes = {"gate": gate, "against": against, "against_kind": AgainstKind(against), "probes": probes}
    print_verdict(Console(file=(screen := StringIO()), width=240), study.model_copy(update=changes))
    assert expected in screen.getvalue()


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        ("filler", "Probe filler flips 100.0 % of 40 answers; the default gate allows 2 %."),
        ("homoglyphs", "Probe homoglyphs, which the gate leaves out, flips 100.0 % of 40 answers."),
        ("append-harm", "answers stayed usable after a dangerous instruction was added (probe append-harm)."),
    ],
)
def test_a_passed_gate_names_the_worst_probe_outside_it(board, study, probe, expected) -> None:
    gate = GateResult(passed=True, usual=False, checks=study.gate.checks)
    probes = ProbeStudy(answers=40, effects={probe: EFFECT}, not_applied=[])
    study = study.model_copy(update={"gate": gate, "probes": probes})
    shown = board._replace(validation_status=statuses(S.CUSTOM_GATE))
    assert plain(verdict(shown, [study], Words()))[-1].endswith(expected)


def test_the_banner_groups_columns_by_state() -> None:
    mixed = statuses(S.FAILED, S.VALIDATED, S.FAILED, *[S.VALIDATED] * 3)
    assert banner(statuses(*[S.FAILED] * 6), Words()) == "MK, MLU, MR, MSE, MTG failed."
    assert banner(mixed, Words()) == "MK, MR, MSE, MTG validated; MLU failed."
    assert banner(mixed, Words("zh")) == "MK、MR、MSE、MTG：已验证；MLU：未通过。"
