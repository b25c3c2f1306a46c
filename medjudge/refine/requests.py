"""Which disagreements get a prompt for a better text, and why the others do not; and the proposals made so far."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from medjudge.errors import InputError, notify
from medjudge.files import first_problem, model_from_json, read_text
from medjudge.records import AnswerKey, PhysicianScore, earlier_turns
from medjudge.refine.causes import CauseKind
from medjudge.refine.findings import Finding
from medjudge.refine.material import Material, TargetKind
from medjudge.refine.proposals import Outcome, Prompt, Proposal, Shown, checklist_prompt, rubric_prompt
from medjudge.refine.proposers import Proposer
from medjudge.rounds import scored_rounds
from medjudge.rubrics.render import rubric
from medjudge.store import Run, repair_last_line


class Requests(NamedTuple):
    """The prompts, and how many disagreements have none: reason -> count."""

    prompts: list[Prompt]
    left_out: dict[str, int]


class Made(NamedTuple):
    """A prompt and the proposal that answers it."""

    prompt: Prompt
    proposal: Proposal


def proposal_requests(
    material: Material, findings: Sequence[Finding], readable: frozenset[TargetKind], limit: int | None
) -> Requests:
    """A prompt for each disagreement that a change could resolve and that held-out answers can decide.

    Args:
        readable: The kinds of text that the judge takes a new version of.
        limit: The most prompts; None for no limit.
    """
    prompts: list[Prompt] = []
    left_out: Counter[str] = Counter()
    shown = _shown_answers(material)
    earlier = earlier_turns(list(material.questions.values()))
    for finding in findings:
        target, cause = finding.target, finding.causes[0]
        rows = material.rows_of(target)
        if target.kind not in readable:
            left_out[f"the judge cannot use a new {target.kind}"] += 1
        elif cause.kind is CauseKind.PHYSICIANS_DISAGREE:
            left_out[cause.kind.text] += 1
        elif not rows.held_out.any():
            left_out["no held-out answer to decide by"] += 1
        elif limit is not None and len(prompts) == limit:
            left_out["beyond --limit"] += 1
        elif target.kind == "rubric":
            answers = [shown[material.keys[row]] for row in finding.rows]
            prompts.append(
                rubric_prompt(target.name, rubric(target.name, material.scheme), cause, answers, material.scheme)
            )
        else:
            question = material.questions[target.name]
            answers = [shown[material.keys[row]] for row in np.flatnonzero(rows.proposing)]
            prompts.append(checklist_prompt(question, earlier[question.id], cause, answers, material.scheme))
    return Requests(prompts, dict(left_out))


def _shown_answers(material: Material) -> dict[AnswerKey, Shown]:
    scores: dict[AnswerKey, list[PhysicianScore]] = {}
    for score in material.scores:
        scores.setdefault(score.answer_key, []).append(score)
    rounds = scored_rounds(material.judgments)
    return {
        key: Shown(material.questions[key.question_id], material.answers[key], scores[key], rounds[key][0])
        for key in material.keys
    }


def make_proposals(
    run: Run, prompts: Sequence[Prompt], file: Path, open_proposer: Callable[[], Proposer]
) -> list[Made]:
    """Sends the prompts that have no proposal yet; every proposal is on disk before the next one is made.

    Args:
        run: Its folder, locked.
        file: Where proposals are kept; a failed one in it is requested again.
        open_proposer: Called only if there is something to propose.

    Raises:
        InputError: The file holds proposals by another proposer, or cannot be read.
    """
    existing = {
        proposal.prompt_sha256: proposal for proposal in _read_proposals(file) if proposal.outcome is not Outcome.FAILED
    }
    waiting = [prompt for prompt in prompts if prompt.sha256 not in existing]
    if waiting:
        proposer = open_proposer()
        others = sorted({proposal.by for proposal in existing.values()} - {proposer.name})
        if others:
            raise InputError(
                f"{file}: holds proposals by {', '.join(others)}; continue with that proposer or choose another --out"
            )
        if existing:
            notify(f"{len(existing)} proposals exist; {len(waiting)} to go")
        for proposal in proposer.propose(waiting):
            existing[proposal.prompt_sha256] = proposal
            run.append(file, proposal.model_dump_json())
    return [Made(prompt, existing[prompt.sha256]) for prompt in prompts]


def _read_proposals(file: Path) -> list[Proposal]:
    if not file.exists():
        return []
    repair_last_line(file)  # the lock of the run is held
    try:
        return [model_from_json(Proposal, line) for line in read_text(file).split("\n") if line]
    except ValueError as error:
        raise InputError(f"{file}: not a proposal ({first_problem(error)}); remove the line and run again") from None
