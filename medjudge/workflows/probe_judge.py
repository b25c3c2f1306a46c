"""Probing a judge: it judges changed answers, each probe in a run folder of its own."""

from collections.abc import Mapping, Sequence

import numpy as np

from medjudge.judge.open import JudgeOptions, JudgeRef
from medjudge.probes.probes import COUNTED, PROBES, probed
from medjudge.records import Answer, AnswerKey, Judgment, PhysicianScore
from medjudge.rounds import binding_by_answer
from medjudge.scale import consensus
from medjudge.screen import say
from medjudge.store import Run, write_records
from medjudge.validation.probe_effect import ProbeStudy, probe_effect
from medjudge.validation.study import Settings
from medjudge.workflows.judge import judge_answers, load
from medjudge.workflows.run_folder import record_spending


def probe_judge(
    run: Run,
    judge_ref: JudgeRef,
    scores: Sequence[PhysicianScore],
    judgments: Sequence[Judgment],
    judging: JudgeOptions,
    most_answers: int,
    settings: Settings,
) -> ProbeStudy:
    """Changes answers that physicians scored, judges them again, and measures how much the scores move.

    The changed answers and their judgments stay under `probes/` of the run, where they can be read.

    Args:
        judgments: The judge's judgments of the answers as they are.
        most_answers: How many answers are probed at most; a random sample of the scored ones.
    """
    levels = {key: [score.level for score in binding] for key, binding in binding_by_answer(scores).items()}
    questions = {question.id: question for question in run.questions()}
    conversations = {question.id: question.group for question in questions.values()}
    candidates = [answer for answer in run.answers() if answer.key in levels and answer.question_id in questions]
    order = np.random.default_rng(settings.seed).permutation(len(candidates))
    answers = [candidates[index] for index in order[:most_answers]]
    judge, scheme = load(judge_ref, judging, run), run.scheme()

    def changed_answers(probe: str) -> dict[AnswerKey, Answer]:
        attempts = [
            probed(questions[answer.question_id], answer, probe, settings.seed, consensus(levels[answer.key]), scheme)
            for answer in answers
        ]
        return {answer.key: answer for answer in attempts if answer is not None}

    changed_by = {probe: changed_answers(probe) for probe in PROBES}
    effects = {}
    for probe, changed in changed_by.items():
        if not changed:
            continue
        say(f"probe {probe}: {len(changed)} changed answers")
        probe_run = Run(run.path / "probes" / probe)
        with probe_run.lock():
            probe_run.write_questions(questions.values(), scheme)
            _write_changed(probe_run, changed)
            after = judge_answers(probe_run, judge_ref, judging, set(changed), judge)
        effects[probe] = probe_effect(
            [judgment for judgment in judgments if judgment.answer_key in changed],
            [judgment for judgment in after if judgment.answer_key in changed],
            conversations,
            counted=COUNTED.get(probe, "changes"),
            **settings.how,
        )
    record_spending(run, judging.limit.prices)
    not_applied = [probe for probe in PROBES if probe not in effects]
    return ProbeStudy(answers=len(answers), effects=effects, not_applied=not_applied)


def _write_changed(probe_run: Run, changed: Mapping[AnswerKey, Answer]) -> None:
    """Writes the changed answers; every judge's judgments of an earlier text of theirs are removed."""
    existing = {answer.key: answer for answer in probe_run.answers()}
    stale = {key for key, answer in changed.items() if key in existing and existing[key].text != answer.text}
    for judge_name in probe_run.judges() if stale else ():
        current = [judgment for judgment in probe_run.judgments(judge_name) if judgment.answer_key not in stale]
        write_records(probe_run.judgments_file(judge_name), current)
    write_records(probe_run.answers_file, {**existing, **changed}.values())
