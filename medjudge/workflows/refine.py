"""What `medjudge refine` does on a run folder: find, propose, re-score, decide, write."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.torch import load_file

from medjudge.errors import InputError
from medjudge.judge.open import JudgeRef
from medjudge.judge.ordinal import HEAD_FILE, PARTS
from medjudge.records import Answer, AnswerKey, Judgment, PhysicianScore, Question, earlier_turns
from medjudge.refine.changes import Change, changed_questions, kept_texts, unified, version_lines
from medjudge.refine.decide import Decision, Scored, Trial, decide
from medjudge.refine.findings import Finding, answer_keys, find, proposing_rows
from medjudge.refine.proposals import NO_CHANGE, Prompt, Proposal, Shown, checklist_prompt, rubric_prompt, text_sha256
from medjudge.refine.proposers import Proposer
from medjudge.refine.split import Split, split_answers, split_lines
from medjudge.rounds import expected_of, level_of, scored_rounds
from medjudge.rubrics.render import rubric
from medjudge.scale import USABLE_FROM
from medjudge.statistics.item_response import (
    FEWEST_MODELS,
    FEWEST_QUESTIONS,
    discriminates,
    fit_two_parameter,
    flawed_items,
)
from medjudge.statistics.two_judges import compare
from medjudge.store import Run, read_text, repair_last_line, write_json, write_records, write_scheme, write_whole
from medjudge.validation.pairs import Pairs, paired
from medjudge.workflows.judge import JudgeOptions, identity, judge_answers, load
from medjudge.workflows.run_folder import record_spending
from medjudge.workflows.validate import of_this_run, require_unseen

_RESAMPLES = 2000
_MATERIAL = "scores_and_texts_sha256"


class Wanted(NamedTuple):
    """What is asked for. `limit` is the most proposals; None for one a disagreement."""

    seed: int = 0
    held_out: float = 0.5
    fdr: float = 0.1
    fdr_kept: float = 0.2
    limit: int | None = None


class _Work(NamedTuple):
    """The run, read and joined, and with what it is refined."""

    run: Run
    out: Path
    chosen: JudgeRef
    options: JudgeOptions
    questions: dict[str, Question]
    answers: dict[AnswerKey, Answer]
    scores: list[PhysicianScore]
    judgments: list[Judgment]
    pairs: Pairs
    keys: list[AnswerKey]
    split: Split


Rounds = Mapping[AnswerKey, Sequence[Judgment]]


def kinds_read(chosen: JudgeRef) -> frozenset[str]:
    """Which changes can matter to a judge.

    An API judge reads rubric and checklist. A generative judge was trained with the rubrics as they are: of it only
    checklists. An ordinal judge reads no rubric, and the checklist only where it was trained on some. A similarity
    judge reads the reference alone.
    """
    if chosen.api_model is not None:
        return frozenset({"checklist", "rubric"})
    if chosen.card is None or chosen.folder is None or chosen.card.kind == "similarity":
        return frozenset()
    if chosen.card.kind == "ordinal":
        head = load_file(chosen.folder / HEAD_FILE)
        place = PARTS.index("checklist")
        if not any(bool(head[name][place].any()) for name in ("slope", "product", "offset")):
            return frozenset()
    return frozenset({"checklist"})


def why_not_refined(chosen: JudgeRef) -> str | None:
    """Why no change could reach the judge, and which judges take one; None where one could."""
    if chosen.imported:
        return "known by its judgments only and cannot score again; give its folder or openai:MODEL"
    if not kinds_read(chosen):
        return (
            "reads neither checklist nor rubric, so that no change of theirs can matter; take an openai:MODEL, "
            "generative, or ordinal judge trained on checklists"
        )
    return None


def require_reader(chosen: JudgeRef) -> None:
    """Raises InputError where no change could reach the judge."""
    if why := why_not_refined(chosen):
        raise InputError(f"--judge {chosen.name}: {why}, or add --dry-run")


def refine_run(
    run: Run,
    chosen: JudgeRef,
    options: JudgeOptions,
    wanted: Wanted,
    out: Path,
    open_proposer: Callable[[], Proposer] | None = None,
) -> dict[str, Any]:
    """Refines a run's checklists and rubrics into a folder; the run's own files stay as they are.

    Args:
        run: Its folder, locked.
        out: The folder; one that another refinement was made in is refused, one of this goes on.
        open_proposer: None to only list disagreements and causes.

    Returns:
        What `summary.json` holds.

    Raises:
        InputError: There are no physicians' scores, the judge was trained on the questions, or no change could matter.
    """
    work = _read(run, chosen, options, wanted, out)
    findings = find(work.pairs, work.split, work.questions, work.answers, work.scores, wanted.fdr)
    _write_lines(out / "disagreements.jsonl", [one.line() for one in findings])
    summary: dict[str, Any] = {
        "judge": chosen.name,
        "seed": wanted.seed,
        "scored_answers": len(work.keys),
        "held_out_answers": sum(key in work.split.answers for key in work.keys),
        "raters": work.pairs.raters.shape[1],
        **_left_out(work),
        "fdr": wanted.fdr,
        "disagreements": [one.line() for one in findings],
        "causes": dict(Counter(one.causes[0].name for one in findings)),
        "flawed_items": _flawed(work),
        "proposals": None,
        "kept": [],
        "held_out": None,
    }
    if open_proposer is not None:
        try:
            summary |= _changed(work, wanted, findings, open_proposer)
        finally:
            record_spending(run, options.limit.prices)
    write_json(out / "summary.json", summary)
    return summary


def _left_out(work: _Work) -> dict[str, Any]:
    """How many answers that physicians scored have no score of the judge, how many of them no judgment, and why."""
    lost = {score.answer_key for score in work.scores} - set(work.keys)
    reasons = {one.answer_key: one.error or "no score" for one in work.judgments if one.answer_key in lost}
    return {
        "unscored": len(lost),
        "not_judged": len(lost - set(reasons)),
        "unscored_why": dict(Counter(reasons.values()).most_common()),
    }


def _read(run: Run, chosen: JudgeRef, options: JudgeOptions, wanted: Wanted, out: Path) -> _Work:
    scores = run.physician_scores()
    if not scores:
        raise InputError(f"{run.physicians_file}: no physicians' scores; `medjudge annotate` collects them")
    scores = of_this_run(run, scores, run.physicians_file.name)
    questions = {one.id: one for one in run.questions()}
    answers = {one.key: one for one in run.answers()}
    require_unseen(chosen, scores, {one.id: one.group for one in questions.values()})
    scored = {score.answer_key for score in scores}
    material = [one.model_dump_json() for one in [*questions.values(), *scores]]
    material += [answers[key].text for key in sorted(scored)]
    _settle(
        out,
        {
            "judge": chosen.name,
            "judge_sha256": identity(chosen, options, run.scheme()),
            "rounds": options.rounds,
            "seed": wanted.seed,
            "held_out": wanted.held_out,
            "fdr": wanted.fdr,
            "fdr_kept": wanted.fdr_kept,
            _MATERIAL: sha256("\n".join(material).encode()).hexdigest(),
        },
    )
    judgments = run.judgments(chosen.name) if chosen.imported else judge_answers(run, chosen, options, scored)
    pairs = paired(list(questions.values()), judgments, scores)
    split = split_answers(list(questions.values()), scored, wanted.held_out, wanted.seed)
    groups = {one.id: one.group for one in questions.values()}
    write_whole(out / "split.jsonl", split_lines(split, scored, groups))
    if not len(pairs.judge):
        raise InputError(f"judge {chosen.name}: scored none of the answers that physicians scored")
    return _Work(run, out, chosen, options, questions, answers, scores, judgments, pairs, answer_keys(pairs), split)


def _settle(out: Path, settings: dict[str, Any]) -> None:
    """Writes what this refinement is made from, or refuses a folder that was made from something else."""
    file = out / "settings.json"
    if file.exists():
        there = _read_settings(file)
        other = [name for name, value in settings.items() if there.get(name) != value]
        if _MATERIAL in other:
            raise InputError(
                f"{out}: physicians' scores, questions or answers of the run have changed since it was made; give "
                f"another folder, such as --out {_free(out)}"
            )
        if other:
            raise InputError(
                f"{out}: was made with another {', '.join(other)}; remove it or give another folder, such as --out "
                f"{_free(out)}"
            )
    write_json(file, settings)


def _read_settings(file: Path) -> dict[str, Any]:
    try:
        there = json.loads(read_text(file))
    except ValueError as error:
        there = str(error)
    if isinstance(there, dict):
        return there
    told = f" ({there})" if isinstance(there, str) else ""
    raise InputError(
        f"{file}: not the settings of a refinement{told}; restore it from a copy, remove the folder, or give another "
        f"one, such as --out {_free(file.parent)}"
    )


def _free(folder: Path) -> Path:
    """A folder beside this one that is not there yet."""
    return next(one for number in count(2) if not (one := folder.with_name(f"{folder.name}-{number}")).exists())


def _flawed(work: _Work) -> dict[str, Any]:
    """Lists the questions that tell able models from others badly, by the judge's verdicts on all answers it judged."""
    rounds = {key: some for key, some in scored_rounds(work.judgments).items() if key.question_id in work.questions}
    models = sorted({key.model for key in rounds})
    asked = sorted({key.question_id for key in rounds})
    usable, samples = np.zeros((2, len(models), len(asked)))
    for key, some in rounds.items():
        place = models.index(key.model), asked.index(key.question_id)
        samples[place] += 1
        usable[place] += level_of(some) >= USABLE_FROM
    why, lines = None, []
    if len(models) < FEWEST_MODELS or len(asked) < FEWEST_QUESTIONS:
        why = (
            f"cannot be told from {len(models)} models and {len(asked)} questions; at least {FEWEST_MODELS} and "
            f"{FEWEST_QUESTIONS} are needed"
        )
    else:
        fit = fit_two_parameter(usable, samples)
        if not discriminates(fit):
            why = "cannot be told: the questions as a whole hardly tell the models apart"
        for one in flawed_items(fit):
            tells = "the wrong way round: poorer models pass it more often" if one.kind == "negative" else "hardly"
            lines.append(
                {
                    "question_id": asked[one.question],
                    "discrimination": one.kind,
                    "value": round(one.discrimination, 3),
                    "low": round(one.low, 3),
                    "high": round(one.high, 3),
                    "doubt": round(one.doubt, 4),
                    "reason": f"tells able models from others {tells}; reference, checklist or wording may be wrong",
                }
            )
    _write_lines(work.out / "flawed_items.jsonl", lines)
    return {"models": len(models), "questions": len(asked), "listed": len(lines), "why": why}


def _changed(
    work: _Work, wanted: Wanted, findings: Sequence[Finding], open_proposer: Callable[[], Proposer]
) -> dict[str, Any]:
    """Proposes, re-scores, decides and writes; rubrics first, then the checklists under those that were kept."""
    prompts, left_out = _prompts(work, findings, wanted.limit)
    proposals = _proposals(work.run, prompts, work.out / "proposals.jsonl", open_proposer)
    before = scored_rounds(work.judgments)
    changes, now = _rubrics_decided(
        work, [one for one in proposals if one[1].kind == "rubric"], before, wanted.fdr_kept
    )
    kept_rubrics = kept_texts(changes, "rubric")
    of_checklists = [one for one in proposals if one[1].kind == "checklist"]
    more, now = _checklists_decided(work, of_checklists, now, kept_rubrics, wanted.fdr_kept)
    changes += more
    _write(work, changes)
    return {
        "proposals": {**_counts([one for _, one in proposals], changes), "left_out": left_out},
        "kept": [_told(change) for change in changes if change.decision.kept],
        "not_kept": [_told(change) for change in changes if not change.decision.kept],
        "held_out": _joint(work, before, now, wanted.seed),
    }


def _prompts(work: _Work, findings: Sequence[Finding], limit: int | None) -> tuple[list[Prompt], dict[str, int]]:
    """A prompt for each disagreement that a change could mend and held-out answers decide; why others have none."""
    kinds = kinds_read(work.chosen)
    of_checklist, _ = proposing_rows(work.pairs, work.split)
    earlier = earlier_turns(list(work.questions.values()))
    given: dict[AnswerKey, list[PhysicianScore]] = {}
    for score in work.scores:
        given.setdefault(score.answer_key, []).append(score)
    rounds = scored_rounds(work.judgments)
    prompts: list[Prompt] = []
    left_out: Counter[str] = Counter()
    for one in findings:
        held, _ = _rows(work, one.target.kind, one.target.name)
        if one.target.kind not in kinds:
            left_out[f"the judge does not take another {one.target.kind}"] += 1
        elif one.causes[0].name == "physicians disagree with each other":
            left_out["physicians disagree with each other"] += 1
        elif not held.any():
            left_out["no held-out answer to decide by"] += 1
        elif limit is not None and len(prompts) == limit:
            left_out["beyond --limit"] += 1
        else:
            rows = one.rows
            if one.target.kind == "checklist":
                rows = np.flatnonzero(of_checklist & (work.pairs.question_id == one.target.name))
            shown = [
                Shown(work.questions[key.question_id], work.answers[key], given[key], rounds[key][0])
                for key in (work.keys[row] for row in rows)
            ]
            if one.target.kind == "rubric":
                before = rubric(one.target.name, work.run.scheme())
                prompts.append(rubric_prompt(one.target.name, before, one.causes[0], shown))
            else:
                asked = work.questions[one.target.name]
                prompts.append(checklist_prompt(asked, earlier[asked.id], one.causes[0], shown))
    return prompts, dict(left_out)


def _proposals(
    run: Run, prompts: Sequence[Prompt], file: Path, open_proposer: Callable[[], Proposer]
) -> list[tuple[Prompt, Proposal]]:
    """Asks what was not asked yet; every proposal is on disk before the next one is made."""
    there = {one.prompt_sha256: one for one in _read_proposals(file) if not one.failed}
    waiting = [prompt for prompt in prompts if prompt.sha256 not in there]
    proposer = open_proposer() if waiting else None
    others = sorted({one.by for one in there.values()} - {proposer.name} if proposer else ())
    if others:
        raise InputError(
            f"{file}: holds proposals by {', '.join(others)}; go on with that proposer or choose another --out"
        )
    if there and waiting:
        print(f"{len(there)} proposals are there; {len(waiting)} to go", file=sys.stderr)
    for made in proposer.propose(waiting) if proposer else ():
        there[made.prompt_sha256] = made
        run.append(file, made.model_dump_json())
    return [(prompt, there[prompt.sha256]) for prompt in prompts]


def _read_proposals(file: Path) -> list[Proposal]:
    if not file.exists():
        return []
    repair_last_line(file)  # the lock of the run is held
    try:
        return [Proposal.model_validate_json(line) for line in read_text(file).split("\n") if line]
    except ValueError as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{file}: a line is no proposal ({reason}); remove it and run again") from None


def _rubrics_decided(
    work: _Work, proposals: Sequence[tuple[Prompt, Proposal]], now: Rounds, fdr: float
) -> tuple[list[Change], Rounds]:
    """Each rubric on its held-out conversations; where one is kept, its whole category is scored again."""

    def scored_again(name: str, text: str, rows: np.ndarray) -> Rounds:
        keys = [work.keys[row] for row in np.flatnonzero(rows)]
        return _again(
            work, [work.questions[one] for one in dict.fromkeys(key.question_id for key in keys)], keys, (name, text)
        )

    texts = {one.name: one.text for _, one in proposals if one.text}
    then = {name: scored_again(name, text, np.logical_or(*_rows(work, "rubric", name))) for name, text in texts.items()}
    changes = _decided(work, proposals, now, then, fdr)
    for name, text in kept_texts(changes, "rubric").items():
        of_category = np.array([_rubric_of(work.questions[key.question_id]) == name for key in work.keys])
        now = _replaced(now, scored_again(name, text, of_category), work, of_category)
    return changes, now


def _checklists_decided(
    work: _Work,
    proposals: Sequence[tuple[Prompt, Proposal]],
    now: Rounds,
    rubrics: Mapping[str, str],
    fdr: float,
) -> tuple[list[Change], Rounds]:
    """Each checklist on the held-out answers to its question, under the rubric that was kept for its category."""
    texts = {one.name: one.text for _, one in proposals if one.text}
    again: dict[AnswerKey, Sequence[Judgment]] = {}
    by_rubric: dict[str | None, list[Question]] = {}
    for name, text in texts.items():
        asked = work.questions[name].model_copy(update={"checklist": text})
        by_rubric.setdefault(_rubric_of(asked) if _rubric_of(asked) in rubrics else None, []).append(asked)
    for rubric_name, changed in by_rubric.items():
        keys = [key for key in work.keys if key.question_id in {one.id for one in changed}]
        again |= _again(work, changed, keys, None if rubric_name is None else (rubric_name, rubrics[rubric_name]))
    changes = _decided(work, proposals, now, dict.fromkeys(texts, again), fdr)
    kept = kept_texts(changes, "checklist")
    return changes, _replaced(now, again, work, np.isin(work.pairs.question_id.astype(str), list(kept)))


def _decided(
    work: _Work,
    proposals: Sequence[tuple[Prompt, Proposal]],
    now: Rounds,
    then: Mapping[str, Rounds],
    fdr: float,
) -> list[Change]:
    """The verdicts on the proposals that have a text; one that left answers unscored is not decided."""
    made = [(prompt, one) for prompt, one in proposals if one.text]
    trials: dict[int, Trial] = {}
    changes: list[Change] = []
    for place, (prompt, one) in enumerate(made):
        rows = [np.flatnonzero(mask) for mask in _rows(work, one.kind, one.name)]
        keys = [work.keys[row] for some in rows for row in some]
        unscored = sum(key in now and key not in then[one.name] for key in keys)
        if unscored:
            decision = Decision(False, f"{unscored} answers could not be scored with it; run again, or look at them")
        else:
            cluster = work.pairs.model if one.kind == "checklist" else work.pairs.conversation
            trials[place] = Trial(*(_scored(work, some, now, then[one.name], cluster) for some in rows))
            decision = Decision(False, "")
        changes.append(Change(one, prompt.before, decision, trials[place].held_out if place in trials else None))
    for place, decision in zip(trials, decide(list(trials.values()), fdr), strict=True):
        changes[place] = changes[place]._replace(decision=decision)
    return changes


def _rows(work: _Work, kind: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The held-out rows that decide about a change, and the rows that it may be made from: two masks of shape (n,)."""
    of_checklist, of_rubric = proposing_rows(work.pairs, work.split)
    if kind == "checklist":
        concerned = work.pairs.question_id == name
        return concerned & ~of_checklist, concerned & of_checklist
    concerned = np.array([_rubric_of(work.questions[key.question_id]) == name for key in work.keys])
    elsewhere = np.array([group in work.split.conversations for group in work.pairs.conversation])
    return concerned & elsewhere & ~of_checklist, concerned & of_rubric


def _scored(work: _Work, rows: np.ndarray, now: Rounds, then: Rounds, cluster: np.ndarray) -> Scored:
    rows = np.array([row for row in rows if work.keys[row] in now], dtype=int)
    keys = [work.keys[row] for row in rows]
    return Scored(
        before=np.array([expected_of(now[key]) for key in keys]),
        after=np.array([expected_of(then[key]) for key in keys]),
        level_before=np.array([level_of(now[key]) for key in keys], dtype=int),
        level_after=np.array([level_of(then[key]) for key in keys], dtype=int),
        physician=np.nanmean(work.pairs.raters[rows], axis=1),
        usable=work.pairs.physician[rows] >= USABLE_FROM,
        cluster=cluster[rows].astype(str),
    )


def _replaced(now: Rounds, again: Rounds, work: _Work, rows: np.ndarray) -> Rounds:
    """What the judge says now: the new scores of these rows, the old ones of all others."""
    changed = {work.keys[row] for row in np.flatnonzero(rows)}
    kept = {key: some for key, some in now.items() if key not in changed}
    return {**kept, **{key: some for key, some in again.items() if key in changed}}


def _again(
    work: _Work, changed: Sequence[Question], keys: Sequence[AnswerKey], with_rubric: tuple[str, str] | None
) -> Rounds:
    """Scores answers with other texts; the judgments stay in a run folder under `rescored/`: none is paid twice.

    There a question is named by the version of its checklist, and its conversation is its own.

    Args:
        changed: The questions as they are to be read.
        keys: The answers to these questions.
        with_rubric: A rubric's name and text, where it is not the package's.
    """
    name = "checklists" if with_rubric is None else f"{with_rubric[0]}-{text_sha256(with_rubric[1])[:12]}"
    place = Run(work.out / "rescored" / name)
    turns: dict[str, list[Question]] = {}
    for one in work.questions.values():
        turns.setdefault(one.group, []).append(one)
    versions: dict[str, str] = {}
    questions = {one.id: one for one in (place.questions() if place.questions_file.exists() else ())}
    for one in changed:
        version = f"{one.id}@{text_sha256(one.checklist or '')[:12]}"
        versions[one.id] = version
        questions[version] = one.model_copy(update={"id": version, "group": version})
        for turn in turns[one.group]:
            if turn.round < one.round:
                named = f"{turn.id}@{version}"
                questions[named] = turn.model_copy(update={"id": named, "group": version})
    answers = {one.key: one for one in place.answers()}
    wanted = {}
    for key in keys:
        answer = work.answers[key].model_copy(update={"question_id": versions[key.question_id]})
        answers[answer.key] = answer
        wanted[answer.key] = key
    if not wanted:
        return {}
    judge = None
    if work.chosen.api_model is not None:  # on the account of the run that is refined
        judge = load(work.chosen, work.options, work.run)
    with place.lock():
        scheme = work.run.scheme()
        place.write_questions(questions.values(), scheme.with_rubrics(dict([with_rubric])) if with_rubric else scheme)
        write_records(place.answers_file, answers.values())
        judgments = judge_answers(place, work.chosen, work.options, set(wanted), judge)
    return {wanted[key]: some for key, some in scored_rounds(judgments).items() if key in wanted}


def _rubric_of(question: Question) -> str:
    return f"{question.category}.{question.language}"


def _write(work: _Work, changes: Sequence[Change]) -> None:
    """The diff, the versions, the kept rubrics and the new benchmark."""
    write_whole(work.out / "changes.diff", unified(changes))
    _write_lines(work.out / "versions.jsonl", version_lines(changes))
    for name, text in kept_texts(changes, "rubric").items():
        write_whole(work.out / "rubrics" / f"{name}.md", text + "\n")
    # Of the scheme with the kept rubrics, so that the folder's questions can be evaluated as they are.
    write_scheme(work.out, work.run.scheme().with_rubrics(kept_texts(changes, "rubric")))
    write_records(work.out / "questions.jsonl", changed_questions(list(work.questions.values()), changes))


def _counts(proposals: Sequence[Proposal], changes: Sequence[Change]) -> dict[str, int]:
    declined = sum(one.problem == NO_CHANGE for one in proposals)
    lost = sum(one.failed for one in proposals)
    return {
        "asked": len(proposals),
        "proposed": len(changes),
        "declined": declined,
        "unreadable": len(proposals) - len(changes) - declined - lost,
        "failed": lost,
        "unscored": sum(change.held_out is None for change in changes),
    }


def _told(change: Change) -> dict[str, Any]:
    decision = change.decision
    numbers = {
        name: None if value is None else float(f"{value:.3g}")
        for name, value in (
            ("improvement", decision.improvement),
            ("standard_error", decision.standard_error),
            ("adjusted_p", decision.adjusted_p),
        )
    }
    return {**change.proposal.target._asdict(), **numbers, "why": decision.why}


def _joint(work: _Work, before: Rounds, now: Rounds, seed: int) -> dict[str, Any] | None:
    """Agreement on all held-out answers before and after the kept changes, by one draw of conversations.

    The changes were chosen on these answers, so that the difference flatters them somewhat.
    """
    rows = [row for row, key in enumerate(work.keys) if key in work.split.answers and key in now]
    if not rows:
        return None
    keys, some = [work.keys[row] for row in rows], work.pairs.only(np.array(rows))
    first, second = (np.array([level_of(rounds[key]) for key in keys], dtype=int) for rounds in (now, before))
    found = compare(first, second, some.physician, some.conversation, _RESAMPLES, seed)
    return {
        "answers": len(rows),
        "after": found.first,
        "before": found.second,
        "difference": found.difference,
        "note": "the kept changes were chosen on these answers; scores of new answers would show somewhat less",
    }


def _write_lines(file: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    write_whole(file, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
