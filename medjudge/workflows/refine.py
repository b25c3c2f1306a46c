"""Refines a run's checklists and rubrics: finds disagreements, proposes texts, scores again, decides, writes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from medjudge.chat_api.client import Server
from medjudge.errors import InputError
from medjudge.judge.open import JudgeRef
from medjudge.records import AnswerKey, PhysicianScore, Question
from medjudge.refine.changes import Change, kept_texts
from medjudge.refine.findings import Finding, find
from medjudge.refine.flawed_items import flawed_questions
from medjudge.refine.material import Material, Rounds, TargetKind, material_sha256
from medjudge.refine.outcome import (
    Refinement,
    Revision,
    count_outcomes,
    joint_agreement,
    write_changes,
    write_findings,
    write_summary,
)
from medjudge.refine.proposers import Proposer
from medjudge.refine.readers import kinds_read, require_refinable
from medjudge.refine.requests import Made, make_proposals, proposal_requests
from medjudge.refine.rescoring import RubricText, plan_rescoring
from medjudge.refine.settings import Settings, claim_folder
from medjudge.refine.split import split_answers, split_lines
from medjudge.refine.trials import Rescore, try_checklists, try_rubrics
from medjudge.rounds import scored_rounds
from medjudge.store import Run, write_records, write_whole
from medjudge.validation.pairs import paired
from medjudge.workflows.judge import JudgeOptions, identity, judge_answers, load, record_spending
from medjudge.workflows.validate import of_this_run, require_unseen
