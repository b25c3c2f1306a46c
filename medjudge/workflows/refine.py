"""Refines a run's checklists: finds disagreements, proposes texts, scores again, decides, writes."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medjudge.answer.transformers_engine import require_chat_model
from medjudge.chat_api.client import check_server
from medjudge.chat_api.spending import Spending
from medjudge.chat_api.transport import server_model
from medjudge.errors import InputError
from medjudge.files import write_json, write_json_lines
from medjudge.judge.folder import CARD_FILE, read_card
from medjudge.judge.open import ApiRef, FolderRef, ImportedRef, JudgeOptions, MemberRef, check_servers, resolve_judge
from medjudge.models.hardware import choose_device
from medjudge.records import Question
from medjudge.refine.disagreements import Finding, Material, Rounds, find, split_answers
from medjudge.refine.proposals import Outcome, proposal_requests
from medjudge.refine.proposer import ApiProposer, LocalProposer, Proposer, make_proposals
from medjudge.refine.trials import Change, decided, write_changes, write_rescoring
from medjudge.rounds import scored_rounds
from medjudge.store import Run
from medjudge.validation.answers import paired
from medjudge.workflows.judge import judge_answers, load
from medjudge.workflows.panel import judged_by
from medjudge.workflows.physician_scores import require_unseen, scores_of_run
from medjudge.workflows.run_folder import record_spending


class RefineOptions(NamedTuple):
    """Options of a refinement.

    Attributes:
        seed: Fixes the split into proposing and held-out answers.
        held_out: Share of each question's models that decide about changes.
        limit: The most proposals, largest disagreements first; None for no limit.
        out: Folder for the results; None for `refinement/` in the run. Proposals and judgments in it are reused.
        judging: How the judge is run. Its server, limits and device also serve the proposer.
        proposer_base_url: The proposer's server, where it is another one.
        offline: Refuse to use the network.
    """

    seed: int = 0
    held_out: float = 0.5
    limit: int | None = None
    out: Path | None = None
    judging: JudgeOptions = JudgeOptions()
    proposer_base_url: str | None = None
    offline: bool = False


class Refinement(NamedTuple):
    """The result of `refine_checklists`.

    Attributes:
        folder: The folder of the results.
        summary: The content of `summary.json`, and what `medjudge refine --json` prints.
        why_not_refinable: Why no change can affect this judge; None where one can.
    """

    folder: Path
    summary: dict[str, Any]
    why_not_refinable: str | None

    @property
    def complete(self) -> bool:
        """Every answer was scored, and every proposal could be read, made and scored."""
        counts = self.summary["proposals"] or {}
        return not any((self.summary["unscored"], *(counts.get(name) for name in ("unreadable", "failed", "unscored"))))


def refine_checklists(
    run: Run | Path | str,
    judge: MemberRef | str = "local",
    *,
    proposer: str | None = None,
    options: RefineOptions = RefineOptions(),
) -> Refinement:
    """Improve checklists where judge and physicians disagree.

    A change is kept only if it brings the judge closer to the physicians on held-out answers, with an interval above 0.
    The run's own files stay as they are; the new benchmark is `questions.jsonl` in the result folder.

    Args:
        run: A run folder with questions, answers and physicians' scores.
        judge: `local`, `built-in`, a judge folder, `openai:MODEL`, or the name of judgments in the run.
        proposer: The model that writes the new texts, `openai:MODEL` or a chat model's folder. None to only list the
            disagreements and their causes.

    Raises:
        InputError: There are no physicians' scores, the judge was trained on the questions, or no change can affect it.
    """
    run = run if isinstance(run, Run) else Run.existing(Path(run))
    folder = options.out or run.path / "refinement"
    choose_device(options.judging.device)
    judge_ref = resolve_judge(judge, run) if isinstance(judge, str) else judge
    check_servers(judge_ref, options.judging, options.offline)
    open_proposer = None
    if proposer is not None:
        if why := why_not_refinable(judge_ref):
            raise InputError(f"--judge {judge_ref.name}: {why}, or add --dry-run")
        open_proposer = _opener(proposer, run, options)
    with run.lock():
        material = _gather(run, judge_ref, options)
        findings = find(material)
        write_json_lines(folder / "disagreements.jsonl", [finding.line() for finding in findings])
        revised: dict[str, Any] = {}
        if open_proposer is not None:
            try:
                revised = _revise(run, folder, judge_ref, options, material, findings, open_proposer)
            finally:
                record_spending(run, options.judging.limit.prices)
        left = {score.answer_key for score in material.scores} - set(material.pairs.keys)
        unscored = {made.answer_key: made.error or "no score" for made in material.judgments if made.answer_key in left}
        summary = {
            "judge": judge_ref.name,
            "seed": options.seed,
            "scored_answers": len(material.pairs.keys),
            "held_out_answers": int(material.held_out.sum()),
            "raters": material.pairs.raters.shape[1],
            "unscored": len(left),
            "not_judged": len(left - set(unscored)),
            "unscored_why": dict(Counter(unscored.values()).most_common()),
            "disagreements": [finding.line() for finding in findings],
            "proposals": None,
            "kept": [],
            **revised,
        }
        write_json(folder / "summary.json", summary)
    return Refinement(folder, summary, why_not_refinable(judge_ref))


def _opener(proposer: str, run: Run, options: RefineOptions) -> Callable[[], Proposer]:
    """Check before any work whether the proposer can run; it is loaded when there is something to propose."""
    judging = options.judging
    if at_server := server_model(proposer, "--proposer"):
        server = judging.server._replace(base_url=options.proposer_base_url or judging.server.base_url)
        check_server(f"--proposer {proposer}", at_server, server.base_url, options.offline, judging.limit)
        return lambda: ApiProposer(at_server, server, Spending(run, judging.limit), options.seed)
    model = proposer
    if (Path(proposer) / CARD_FILE).is_file():
        card = read_card(Path(proposer))
        if card.kind != "generative":
            raise InputError(f"--proposer {proposer}: a judge of kind {card.kind} writes no text; take a chat model")
        # A judge's adapter makes it write scores; the model underneath writes text.
        model = card.base_model
    require_chat_model(model)
    return lambda: LocalProposer(model, judging.device)


def _gather(run: Run, judge_ref: MemberRef, options: RefineOptions) -> Material:
    """Read the run, judge what the physicians scored, and split it."""
    scores = run.settled_scores()
    if not scores:
        raise InputError(f"{run.physicians_file}: no physicians' scores; `medjudge annotate` collects them")
    scores = scores_of_run(run, scores, run.physicians_file.name)
    questions = {question.id: question for question in run.questions()}
    answers = {answer.key: answer for answer in run.answers()}
    require_unseen(judge_ref, scores, list(questions.values()))
    scored = {score.answer_key for score in scores}
    judgments = judged_by(run, judge_ref, options.judging, scored)
    pairs = paired(list(questions.values()), judgments, scores, scheme=run.scheme())
    held = split_answers(scored, options.held_out, options.seed)
    held_out = np.array([key in held for key in pairs.keys], dtype=bool)
    material = Material(questions, answers, scores, judgments, pairs, held_out, run.scheme())
    if not len(pairs.judge):
        raise InputError(f"judge {judge_ref.name}: scored none of the answers that physicians scored")
    return material


def _revise(
    run: Run,
    folder: Path,
    judge_ref: MemberRef,
    options: RefineOptions,
    material: Material,
    findings: Sequence[Finding],
    open_proposer: Callable[[], Proposer],
) -> dict[str, Any]:
    """Propose, score the held-out answers again, and decide: what the summary says of it."""
    prompts, left_out = proposal_requests(material, findings, options.limit)
    made = make_proposals(run, prompts, folder / "proposals.jsonl", open_proposer)
    texts = {proposal.name: (prompt.before, proposal.text) for prompt, proposal in made if proposal.text}
    questions = [material.questions[name].model_copy(update={"checklist": text}) for name, (_, text) in texts.items()]
    before = scored_rounds(material.judgments)
    after = _scored_again(run, folder, judge_ref, options.judging, material, questions) if questions else {}
    changes = [Change(name, *text, decided(material, name, before, after)) for name, text in texts.items()]
    write_changes(folder, material, changes)
    outcomes = Counter(proposal.outcome for _, proposal in made)
    counts = {outcome.value: outcomes[outcome] for outcome in (Outcome.DECLINED, Outcome.UNREADABLE, Outcome.FAILED)}
    unscored = sum(change.decision.unscored for change in changes)
    return {
        "proposals": {
            **{"asked": len(made), "proposed": len(changes), **counts, "unscored": unscored},
            "left_out": left_out,
        },
        "kept": [change.as_json() for change in changes if change.decision.kept],
        "not_kept": [change.as_json() for change in changes if not change.decision.kept],
    }


def _scored_again(
    run: Run,
    folder: Path,
    judge_ref: MemberRef,
    judging: JudgeOptions,
    material: Material,
    questions: Sequence[Question],
) -> Rounds:
    """The scores of the held-out answers with these questions."""
    assert not isinstance(judge_ref, ImportedRef)  # refused before any work
    # An API judge is paid from the account of the run that is refined.
    judge = load(judge_ref, judging, run) if isinstance(judge_ref, ApiRef) else None
    rescored = Run(folder / "rescored" / "checklists")
    with rescored.lock():
        original = write_rescoring(rescored, material, questions)
        judgments = judge_answers(rescored, judge_ref, judging, set(original), judge)
    return {original[key]: made for key, made in scored_rounds(judgments).items() if key in original}


def why_not_refinable(judge_ref: MemberRef) -> str | None:
    """The reason why no change can affect the judge, and which judges to take instead; None where one can.

    An ordinal judge reads the checklist only if its training set had some. A similarity judge reads only the reference.
    """
    if isinstance(judge_ref, ImportedRef):
        return "only its judgments are known, so it cannot score again; give its folder or openai:MODEL"
    if isinstance(judge_ref, FolderRef) and not judge_ref.reads_checklist:
        return (
            "reads no checklist, so no change of one affects it; take an openai:MODEL or generative judge, or an "
            "ordinal judge trained on checklists"
        )
    return None
