"""Turns what a user writes after `--judge` into a judge."""

import json
import os
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from medjudge.chat_api.client import Server, check_server
from medjudge.chat_api.spending import Limit, Spending
from medjudge.errors import InputError
from medjudge.judge.api import ApiJudge, file_name
from medjudge.judge.folder import CARD_FILE, JudgeCard, load_judge, read_card
from medjudge.judge.protocol import Judge
from medjudge.models.hardware import choose_device
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.store import Run

JUDGES_FOLDER = Path("judges")


class JudgeRef(NamedTuple):
    """A judge that was chosen but not loaded yet.

    `folder` and `card` belong to a judge on disk, `api_model` to an API judge; a judge with none of these is known by
    its judgments only. `seen` holds the ids of the questions that it was trained or tuned on.
    """

    name: str
    folder: Path | None = None
    card: JudgeCard | None = None
    api_model: str | None = None
    seen: frozenset[str] = frozenset()

    @property
    def imported(self) -> bool:
        """Whether only its judgments are known."""
        return self.folder is None and self.api_model is None


def resolve_judge(spec: str, run: Run | None = None) -> JudgeRef:
    """Finds the judge that a specification means, and reads its card.

    Args:
        spec: `local` (MEDJUDGE_JUDGE, else the newest folder under ./judges but those of an intermediate stage, else
            the built-in one), `built-in`, `similarity` (the baseline), `openai:MODEL`, or a judge folder.
        run: Where judgments of that name, such as imported ones, stand for a judge that is no folder here.

    Raises:
        InputError: There is no such judge, or its folder is incomplete.
    """
    if run is not None and spec not in _PACKAGED and spec in run.judges() and not Path(spec).is_dir():
        entry = run.manifest().get("judges", {}).get(spec)
        return JudgeRef(spec, seen=frozenset(entry["seen_question_ids"] if entry else ()))
    if spec.startswith("openai:"):
        model = spec.removeprefix("openai:")
        if not model:
            raise InputError("--judge openai: no model named; write for example --judge openai:gpt-4o")
        return JudgeRef(file_name(model), api_model=model)
    if spec == "local":
        folder = _local_folder()
    elif spec in _PACKAGED:
        folder = _PACKAGED[spec]()
    else:
        folder = Path(spec)
    card = read_card(folder)
    return JudgeRef(folder.resolve().name, folder, card, seen=frozenset(card.trained_on.seen()))


def built_in_folder() -> Path:
    """The trained judge that comes with the package."""
    return Path(str(files("medjudge") / "data" / "built-in"))


def similarity_folder() -> Path:
    """The baseline that comes with the package."""
    return Path(str(files("medjudge") / "data" / "similarity"))


_PACKAGED = {"built-in": built_in_folder, "similarity": similarity_folder}
"""Judges that come with the package, by the name that `--judge` takes."""


def _local_folder() -> Path:
    if named := os.environ.get("MEDJUDGE_JUDGE"):
        return Path(named)
    trained = [card.parent for card in JUDGES_FOLDER.glob(f"*/{CARD_FILE}") if not _intermediate(card)]
    return max(trained, key=lambda folder: (folder / CARD_FILE).stat().st_mtime, default=built_in_folder())


def _intermediate(card: Path) -> bool:
    """Whether a judge saw matches of question and answer only: a step on the way, not a judge to fall back on."""
    try:
        return bool(json.loads(card.read_text(encoding="utf-8"))["training"]["stage"] == "intermediate")
    except (ValueError, KeyError, TypeError, OSError):
        return False  # older or broken: said when it is chosen


def check_judge_ref(chosen: JudgeRef, base_url: str | None, offline: bool, limit: Limit = Limit()) -> None:
    """Finds out before any work whether a chosen judge may run: key, network and price for an API judge.

    Raises:
        InputError: There is no key, --offline forbids the server, or there is a limit on costs and no price.
    """
    if chosen.api_model is not None:
        check_server(f"--judge openai:{chosen.api_model}", chosen.api_model, base_url, offline, limit)


def load_judge_ref(
    chosen: JudgeRef,
    device: str = "auto",
    server: Server = Server(),
    spending: Spending | None = None,
    rationale_tokens: int = 0,
    scheme: Scheme = LLMEVAL_MED,
) -> Judge:
    """Loads a chosen judge.

    Args:
        server: Where an API judge is.
        spending: The account that its requests go to.
        scheme: What the questions belong to that it will judge.

    Raises:
        InputError: No key, no such device, no price, or files that cannot be loaded.
    """
    if chosen.api_model is not None:
        return ApiJudge(chosen.api_model, server, spending)
    assert chosen.folder is not None
    return load_judge(chosen.folder, chosen.name, choose_device(device), rationale_tokens, scheme)
