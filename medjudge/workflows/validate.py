"""Validation: a judge's agreement with physicians, checked against the acceptance gate."""

from pathlib import Path
from typing import Any, NamedTuple

from medjudge.annotate.plan import plan_file, read_plans
from medjudge.annotate.scores import parse_label_map, read_physician_scores
from medjudge.errors import InputError, notify
from medjudge.files import file_sha256
from medjudge.judge.folder import CARD_FILE, read_card
from medjudge.judge.open import (
    BUILT_IN,
    SIMILARITY,
    AnyRef,
    ApiRef,
    FolderRef,
    ImportedRef,
    JudgeOptions,
    PanelRef,
    check_servers,
    resolve_judge_or_panel,
)
from medjudge.judge.pairs import physician_pairs
from medjudge.judge.study_summary import AgainstKind
from medjudge.models.hardware import choose_device
from medjudge.records import PhysicianScore
from medjudge.scheme import Scheme
from medjudge.screen import say
from medjudge.statistics.estimates import Record
from medjudge.store import Run
from medjudge.validation.comparison import PhysicianPairStudy
from medjudge.validation.gate import read_gate
from medjudge.validation.items import PhysicianItemStudy
from medjudge.validation.other_judges import panel_study
from medjudge.validation.records import Study, write_study
from medjudge.validation.study import Settings, agreement_study, teacher_scores, with_parts
from medjudge.validation.validations import use_in, write_into_card
from medjudge.workflows.compare import physicians_pairs
from medjudge.workflows.judge import with_inference
from medjudge.workflows.leave_out import LeaveOut, leave_out_study
from medjudge.workflows.mark_items import physicians_items
from medjudge.workflows.panel import check_panel, judged_by
from medjudge.workflows.physician_scores import of_unseen, require_unseen, scores_of_run
from medjudge.workflows.probe_judge import probe_judge


class ValidateOptions(NamedTuple):
    """The parts of a validation beyond agreement, and their settings.

    Attributes:
        rater_columns: Of a wide table of scores: the columns, one per rater.
        label_map: Labels other than 1-5 in a table, as `LABEL=LEVEL,...`.
        teacher: A judge of the run that this one is to replace.
        margin: The loss against the teacher that does not matter, as a share; the gate's unless given.
        gate: A YAML file with other requirements than the scheme's.
        probe_answers: How many answers are changed and judged again; 0 for no probes.
        leave_out: Trains judges without each model or category in turn.
        settings: Intervals and seed.
        judging: How the judge is run.
        offline: Refuses a judge on a server that is not this machine.
    """

    rater_columns: tuple[str, ...] = ()
    label_map: str | None = None
    teacher: str | None = None
    margin: float | None = None
    gate: Path | None = None
    probe_answers: int = 0
    leave_out: LeaveOut | None = None
    settings: Settings = Settings()
    judging: JudgeOptions = JudgeOptions()
    offline: bool = False


class ScoreSource(NamedTuple):
    """Scores to compare with, and the name of their file or judge.

    `sha256` is the file's, empty where the scores are a judge's; `against` is that judge, None for physicians. `of_run`
    says whether the run holds them, and no file elsewhere.
    """

    scores: list[PhysicianScore]
    name: str
    sha256: str = ""
    against: str | None = None
    of_run: bool = True


def validate(
    run: Run | Path | str,
    judge: AnyRef | str = "local",
    *,
    physicians: Path | str | None = None,
    against: str | None = None,
    options: ValidateOptions = ValidateOptions(),
) -> Study:
    """Measures a judge against physicians and checks it against the acceptance gate.

    What physicians scored and the judge did not is judged first. The study is written to `agreement/JUDGE.json` of the
    run and, where physicians' scores were compared, added to the judge's folder.

    Args:
        run: A run folder with questions and answers.
        judge: `local`, `built-in`, `similarity`, a judge folder, `openai:MODEL`, a panel (`panel:a,b,c` or
            `panel:FILE.yaml`), or the name of judgments in the run.
        physicians: The file of scores; `physician_scores.jsonl` of the run unless given.
        against: Compares with this judge of the run instead of physicians.

    Raises:
        InputError: An option or a file is wrong, the judge was trained on one of the questions, or nothing can be
            compared.
        UnfinishedError: A server did not answer, or the limit on costs is reached; the same call goes on.
    """
    run = run if isinstance(run, Run) else Run.existing(Path(run))
    # Everything that can be wrong is checked before anything is judged or trained.
    choose_device(options.judging.device)
    options = options._replace(settings=_with_gate(options, run.scheme()))
    if options.leave_out:
        options.leave_out.check()
    judge_ref = resolve_judge_or_panel(judge, run) if isinstance(judge, str) else judge
    judge_ref = with_inference(judge_ref, options.judging)
    check_panel(run, judge_ref, options.judging)
    check_servers(judge_ref, options.judging, options.offline)
    for option, name in (("--against", against), ("--teacher", options.teacher)):
        _check_other_judge(run, judge_ref, option, name)
    if options.probe_answers and isinstance(judge_ref, ImportedRef):
        raise InputError(f"--probes: {judge_ref.name} is known by its judgments only; give its folder as --judge")
    if options.probe_answers and isinstance(judge_ref, PanelRef):
        raise InputError(f"--probes: {judge_ref.name} is a panel; probe its members, one at a time")
    file = Path(physicians) if physicians else None
    source = _other_judge(run, against, file, options) if against else _physicians(run, file, options)
    with run.lock():
        study = validate_judge(run, judge_ref, source, options)
    if source.against is None:
        _add_to_card(judge_ref, study)
        if source.of_run:
            _warn_of_chosen_answers(run)
    return study


def validate_judge(
    run: Run, judge_ref: AnyRef, source: ScoreSource, options: ValidateOptions = ValidateOptions()
) -> Study:
    """As `validate`, in a run that is locked already, and without a change of the judge's folder.

    Raises:
        InputError: The judge was trained on one of these questions, or nothing can be compared.
    """
    questions, settings, judging = run.questions(), options.settings, options.judging
    scheme = run.scheme()
    gate = settings.gate or scheme.gate
    scores = scores_of_run(run, source.scores, source.name)
    require_unseen(judge_ref, scores, questions)
    judgments = judged_by(run, judge_ref, judging, {score.answer_key for score in scores})
    # On conversations that a judge was trained on, its probabilities are too good.
    judgments = of_unseen(judgments, questions, judge_ref.seen)
    teacher = run.judgments(options.teacher) if options.teacher else []
    study = agreement_study(judge_ref.name, questions, judgments, scores, source.against, teacher, settings, scheme)
    probes = leave_out = None
    if options.probe_answers and isinstance(judge_ref, (FolderRef, ApiRef)):
        probes = probe_judge(run, judge_ref, scores, judgments, judging, options.probe_answers, settings)
    if options.leave_out:
        leave_out = leave_out_study(run, scores, judging, options.leave_out, settings)
    study = with_parts(study, gate, probes, leave_out)
    if isinstance(judge_ref, PanelRef):
        panel = panel_study(run, judge_ref.name, scores, gate.teacher_margin, **settings.how)
        study = study.model_copy(update={"panel": panel})
    use = use_in(run, judge_ref.name)
    identity, rubrics = use.judge_sha256, use.rubrics_sha256
    if isinstance(judge_ref, (FolderRef, ApiRef)):
        identity, rubrics = judge_ref.identity(judging, scheme), judge_ref.rubrics_sha256(scheme)
    measured: dict[str, Any] = {"file": source.name, "sha256": source.sha256, "quantization": use.quantization}
    measured |= {"judge_sha256": identity, "rubrics_sha256": rubrics}
    if source.against is None:
        measured |= {"pairs": physicians_pairs(run, judge_ref), "items": physicians_items(run, judge_ref)}
    return write_study(run, study.model_copy(update=measured), source.against, source.of_run)


def _with_gate(options: ValidateOptions, scheme: Scheme) -> Settings:
    """The settings with the gate that the options ask for: that of the scheme unless given."""
    gate = options.settings.gate or scheme.gate
    if options.gate is not None:
        gate = read_gate(options.gate, scheme)
    if options.margin is not None:
        gate = gate.model_copy(update={"teacher_margin": options.margin})
    return options.settings._replace(gate=gate)


def _check_other_judge(run: Run, judge_ref: AnyRef, option: str, name: str | None) -> None:
    """Raises InputError where `--against` or `--teacher` names no other judge of the run."""
    if name is None:
        return
    if name not in run.judges():
        existing = ", ".join(run.judges()) or "none"
        raise InputError(f"{option} {name}: no such judge in {run.path}; it has: {existing}")
    if name == judge_ref.name:
        raise InputError(f"{option} {name}: the judge itself; name another one")
    if name in (AgainstKind.PHYSICIANS, AgainstKind.CONSTRUCTED):
        raise InputError(f"{option} {name}: a judge of this name would be taken for {name}; rename it")


def _other_judge(run: Run, against: str, physicians: Path | None, options: ValidateOptions) -> ScoreSource:
    if physicians or options.rater_columns or options.label_map:
        raise InputError("--against compares with a judge; leave out --physicians, --rater-columns and --label-map")
    return ScoreSource(teacher_scores(run.judgments(against)), against, against=against)


def _physicians(run: Run, file: Path | None, options: ValidateOptions) -> ScoreSource:
    """Reads the physicians' scores; those of the run itself may be growing meanwhile."""
    path = file or run.physicians_file
    if file is None and not path.exists():
        raise InputError(f"{run.path}: has no {path.name}; give --physicians FILE")
    if file is None and not options.rater_columns and not options.label_map:
        scores = run.settled_scores()
        if agreed := len(run.adjudicated()):
            say(f"{run.adjudicated_file}: agreed scores count in place of disputed ones ({agreed})")
    else:
        labels = parse_label_map(options.label_map) if options.label_map else {}
        scores = read_physician_scores(path, options.rater_columns, labels)
    if not scores:
        raise InputError(f"{path}: no score in it")
    return ScoreSource(scores, path.name, file_sha256(path), of_run=file in (None, run.physicians_file))


def _add_to_card(judge_ref: AnyRef, study: Study) -> None:
    """Adds the study to the judge's folder; those that come with the package stay as they are."""
    if isinstance(judge_ref, FolderRef) and judge_ref.folder not in (BUILT_IN, SIMILARITY):
        card = read_card(judge_ref.folder)  # that of the reference may have a base that is quantised for this use
        write_into_card(judge_ref.folder, card, study)
        notify(f"{judge_ref.folder / CARD_FILE}: holds this validation")


def _warn_of_chosen_answers(run: Run) -> None:
    """Warns where scores were collected on answers that are no random sample."""
    scored = {score.answer_key for score in run.physician_scores()}
    plans = read_plans(run) if plan_file(run).exists() else []
    if any(plan.which != "random" and any(item.keys[0] in scored for item in plan.items) for plan in plans):
        notify(
            f"{run.physicians_file}: holds scores of answers that are not a random sample: they may correct "
            "a judge, not validate it"
        )


class MarksStudy(Record):
    """A judge against physicians' pairs and items; None where they have none in common. Without levels, no gate."""

    judge: str
    pairs: PhysicianPairStudy | None
    items: PhysicianItemStudy | None


def only_marked(run: Run) -> bool:
    """True if physicians marked items or compared pairs of a run, and gave no level."""
    return not run.physician_scores() and bool(run.item_scores() or physician_pairs(run))


def validate_marks(run: Run | Path | str, judge: str = "local") -> MarksStudy:
    """Measures a judge against physicians' pairs and items, and writes both into the run for the report.

    Args:
        run: A run folder with physicians' pairs or items.
        judge: As for `validate`.

    Raises:
        InputError: There is no such judge, or it gave no verdict on what physicians marked.
    """
    run = run if isinstance(run, Run) else Run.existing(Path(run))
    judge_ref = resolve_judge_or_panel(judge, run)
    with run.lock():
        pairs, items = physicians_pairs(run, judge_ref), physicians_items(run, judge_ref)
    if pairs is None and items is None:
        raise InputError(
            f"judge {judge_ref.name}: nothing that physicians marked in {run.path} can be compared with this judge; "
            "for verdicts on items run `medjudge eval --items` with it, for pairs `medjudge compare`"
        )
    return MarksStudy(judge=judge_ref.name, pairs=pairs, items=items)
