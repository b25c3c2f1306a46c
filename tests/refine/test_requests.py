"""Which disagreements become requests: decided by typed causes and outcomes, never by their wording."""

from pathlib import Path

import pytest
from simulated import write_run

from medjudge.errors import InputError
from medjudge.records import Judgment
from medjudge.refine.disagreements import Cause, CauseKind, Finding, Material, split_answers
from medjudge.refine.proposals import Outcome, Proposal, proposal_requests
from medjudge.refine.proposers import make_proposals
from medjudge.store import Run
from medjudge.validation.answers import paired


@pytest.fixture
def material(tmp_path: Path) -> Material:
    run = Run(write_run(tmp_path / "run"))
    questions = {question.id: question for question in run.questions()}
    answers = {answer.key: answer for answer in run.answers()}
    judgments = [Judgment(**key._asdict(), judge="j", score=4) for key in answers]
    pairs = paired(list(questions.values()), judgments, run.physician_scores())
    held_out = split_answers(answers, 0.5, 0)
    return Material(questions, answers, run.physician_scores(), judgments, pairs, held_out, run.scheme())


def finding(kind: CauseKind, question_id: str = "q00") -> Finding:
    return Finding(question_id, 5, 1.0, 1.0, [Cause(kind, "evidence")])


@pytest.mark.parametrize("kind", CauseKind)
def test_every_cause_has_a_text_and_only_one_keeps_a_question_from_being_proposed(
    material: Material, kind: CauseKind
) -> None:
    prompts, left_out = proposal_requests(material, [finding(kind)], None)
    if kind is CauseKind.PHYSICIANS_DISAGREE:
        assert (prompts, left_out) == ([], {"physicians disagree with each other": 1})
    else:
        assert [kind.value in prompt.text for prompt in prompts] == [True]


def test_what_exceeds_the_limit_is_left_out(material: Material) -> None:
    findings = [finding(CauseKind.POINT_MISSING, name) for name in ("q00", "q01", "q02")]
    prompts, left_out = proposal_requests(material, findings, 2)
    assert [prompt.question_id for prompt in prompts] == ["q00", "q01"]
    assert left_out == {"beyond --limit": 1}


def proposal(outcome: Outcome) -> Proposal:
    fields = {"name": "q00", "by": "a", "cause": "c", "prompt_sha256": "0", "reply": None}
    return Proposal(**fields, outcome=outcome)


def test_a_failed_proposal_is_requested_again_and_a_file_by_another_proposer_is_refused(
    material: Material, tmp_path: Path
) -> None:
    class Proposer:
        def __init__(self) -> None:
            self.name = "a"
            self.prompts: list[str] = []

        def propose(self, prompts):
            for prompt in prompts:
                self.prompts.append(prompt.question_id)
                outcome = Outcome.FAILED if len(self.prompts) == 1 else Outcome.DECLINED
                yield proposal(outcome).model_copy(update={"by": self.name, "prompt_sha256": prompt.sha256})

    names = ("q00", "q01")
    prompts, _ = proposal_requests(material, [finding(CauseKind.POINT_MISSING, name) for name in names], None)
    run, file, proposer = Run(tmp_path / "run"), tmp_path / "proposals.jsonl", Proposer()
    with run.lock():
        first = make_proposals(run, prompts, file, lambda: proposer)
        assert [proposal.outcome for _, proposal in first] == [Outcome.FAILED, Outcome.DECLINED]
        second = make_proposals(run, prompts, file, lambda: proposer)
        assert [proposal.outcome for _, proposal in second] == [Outcome.DECLINED, Outcome.DECLINED]
        assert proposer.prompts == ["q00", "q01", "q00"]
        proposer.name = "b"
        more = finding(CauseKind.POINT_MISSING, "q02")
        with pytest.raises(InputError, match="holds proposals by a; continue with that proposer"):
            make_proposals(run, proposal_requests(material, [more], None)[0], file, lambda: proposer)
