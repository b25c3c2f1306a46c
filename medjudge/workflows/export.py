"""`medjudge export`: a run in the formats of other tools."""

from importlib.util import find_spec
from pathlib import Path

from medjudge.errors import InputError
from medjudge.judge.decision import DECISION_FILES, write_served_folder
from medjudge.judge.generative import GenerativeJudge
from medjudge.judge.open import load_judge_ref, resolve_judge
from medjudge.store import Run
from medjudge.workflows.which_judge import judge_of_run


def export_inspect_logs(run: Path, judge: str | None = None, out: Path | None = None) -> list[Path]:
    """Writes the judgments of a run as logs of Inspect, one per model.

    Args:
        judge: Whose judgments; the last one that judged unless given.
        out: A folder, or a file that ends in `.eval` where one model answered; `RUN/inspect` unless given.

    Raises:
        InputError: inspect-ai is not installed, or the run has no judgments of the judge.
    """
    if find_spec("inspect_ai") is None:
        raise InputError("export inspect: needs inspect-ai, and Python 3.11 for it; pip install 'medjudge[inspect]'")
    from medjudge.report.inspect_logs import write_inspect_logs

    folder = Run.existing(run)
    return write_inspect_logs(folder, judge_of_run(folder, judge), out or folder.path / "inspect")


def export_served_judge(judge: str, out: Path) -> Path:
    """Writes a judge's model with its adapter merged, as `transformers serve` and `systemone:URL` need it.

    Args:
        judge: A judge folder with a score-first generative judge.
        out: The folder to write; it must not exist.

    Raises:
        InputError: The judge is of another kind or cannot be read by the decision route, or the folder exists.
    """
    judge_ref = resolve_judge(judge)
    folder = judge_ref.folder
    if folder is None or not all((folder / name).is_file() for name in DECISION_FILES):
        raise InputError(
            f"--judge {judge}: transformers serves score-first generative judges whose folder has {DECISION_FILES[0]}; "
            "other judges run in `medjudge eval`"
        )
    if out.exists():
        raise InputError(f"--out {out}: exists already; name a new folder")
    loaded = load_judge_ref(judge_ref, "cpu")
    assert isinstance(loaded, GenerativeJudge)
    write_served_folder(folder, out, loaded.model, loaded.tokenizer)
    return out
