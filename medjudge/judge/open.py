"""Turns what a user writes after `--judge` into a judge."""

import os
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlparse

from medjudge.errors import InputError
from medjudge.hardware import choose_device
from medjudge.judge.api import ApiJudge
from medjudge.judge.folder import CARD_FILE, JudgeCard, load_judge, read_card
from medjudge.judge.protocol import Judge

JUDGES_FOLDER = Path("judges")
BUILT_IN = "built-in"


class Chosen(NamedTuple):
    """A judge that was chosen but not loaded yet; `folder` and `card` are None for an API judge."""

    name: str
    folder: Path | None
    card: JudgeCard | None
    api_model: str | None = None


def choose_judge(spec: str) -> Chosen:
    """Finds the judge that a specification means, and reads its card.

    Args:
        spec: `local` (MEDJUDGE_JUDGE, else the newest folder under ./judges, else the built-in one), `similarity` (the
            built-in baseline), `openai:MODEL`, or a judge folder.

    Raises:
        InputError: There is no such judge, or its folder is incomplete.
    """
    if spec.startswith("openai:"):
        model = spec.removeprefix("openai:")
        if not model:
            raise InputError("--judge openai: no model named; write for example --judge openai:gpt-4o")
        return Chosen(model.replace("/", "--"), None, None, model)
    if spec == "local":
        folder = _local_folder()
    elif spec == "similarity":
        folder = built_in_folder()
    else:
        folder = Path(spec)
    card = read_card(folder)
    return Chosen(BUILT_IN if folder == built_in_folder() else folder.resolve().name, folder, card)


def built_in_folder() -> Path:
    """The judge folder that comes with the package."""
    return Path(str(files("medjudge") / "data" / "judge"))


def _local_folder() -> Path:
    if named := os.environ.get("MEDJUDGE_JUDGE"):
        return Path(named)
    trained = [card.parent for card in JUDGES_FOLDER.glob(f"*/{CARD_FILE}")]
    return max(trained, key=lambda folder: (folder / CARD_FILE).stat().st_mtime, default=built_in_folder())


def load_chosen(
    chosen: Chosen,
    device: str = "auto",
    base_url: str | None = None,
    concurrency: int = 8,
    offline: bool = False,
    rationale_tokens: int = 0,
) -> Judge:
    """Loads a chosen judge.

    Raises:
        InputError: No key, no such device, a network judge with --offline, or files that cannot be loaded.
    """
    if chosen.api_model is None:
        assert chosen.folder is not None
        return load_judge(chosen.folder, chosen.name, choose_device(device), rationale_tokens)
    if offline and not _on_this_machine(base_url or os.environ.get("OPENAI_BASE_URL")):
        raise InputError(f"--judge openai:{chosen.api_model} needs the network, and --offline forbids it; take --judge local")
    return ApiJudge(chosen.api_model, base_url, concurrency)


def _on_this_machine(base_url: str | None) -> bool:
    return base_url is not None and urlparse(base_url).hostname in ("localhost", "127.0.0.1", "::1")
