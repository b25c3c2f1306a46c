"""Resolves the argument of `--judge` to a judge, and loads it."""

import os
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from medjudge.chat_api.client import Server, check_server
from medjudge.chat_api.spending import Limit, Spending
from medjudge.chat_api.transport import server_model
from medjudge.errors import InputError
from medjudge.judge.api import ApiJudge, ReplyOptions, file_name
from medjudge.judge.folder import CARD_FILE, JudgeCard, card_in_use, load_judge, read_card
from medjudge.judge.identity import validated_and_not_failed
from medjudge.judge.inference import QUANTIZATIONS, Inference
from medjudge.judge.panel import PanelSettings, is_panel, read_panel
from medjudge.judge.protocol import Judge
from medjudge.judge.untuned import PREFIX, untuned_folder
from medjudge.models.hardware import choose_device
from medjudge.models.quantization import Quantization, require_bitsandbytes
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.screen import say_on_terminal
from medjudge.store import Run

JUDGES_FOLDER = Path("judges")
QUICKSTART_MARK = ".quickstart"
"""The file that marks a folder as written by `medjudge quickstart`: its judge learned from the sample alone."""


class JudgeRef(NamedTuple):
    """A judge that is not loaded yet.

    `folder` and `card` belong to a judge on disk, `api_model` to an API judge, `panel` to several judges together. A
    judge with none of these is known only by its judgments. `seen` holds the ids of the questions that the judge was
    trained or tuned on. `quantization` is that of a base that is quantised for this use only; `card` then has it too.
    """

    name: str
    folder: Path | None = None
    card: JudgeCard | None = None
    api_model: str | None = None
    seen: frozenset[str] = frozenset()
    panel: "PanelRef | None" = None
    quantization: Quantization | None = None

    @property
    def imported(self) -> bool:
        """Whether only its judgments are known."""
        return all(where is None for where in (self.folder, self.api_model, self.panel))

    @property
    def members(self) -> tuple["JudgeRef", ...]:
        """The judges that score: those of a panel, or the judge itself."""
        return self.panel.members if self.panel is not None else (self,)


def quantised(judge_ref: JudgeRef, name: str) -> JudgeRef:
    """A generative judge on a base that is quantised for this use: another judge, of another name and identity.

    Args:
        name: One of `QUANTIZATIONS`.

    Raises:
        InputError: There is no such quantisation, or the judge runs on a quantised base anyway.
    """
    if name not in QUANTIZATIONS:
        raise InputError(f"--judge-quantization {name}: unknown; use {' or '.join(QUANTIZATIONS)}")
    assert judge_ref.card is not None
    if judge_ref.card.quantization is not None:
        raise InputError(
            f"--judge-quantization: judge {judge_ref.name} runs on a base quantised to {judge_ref.card.quantization}, "
            "as it was trained; leave out --judge-quantization"
        )
    quantization = QUANTIZATIONS[name]
    require_bitsandbytes(f"--judge-quantization {name}")
    card = card_in_use(judge_ref.card, quantization)
    return judge_ref._replace(name=f"{judge_ref.name}-{name}", card=card, quantization=quantization)


class PanelRef(NamedTuple):
    """The members of a panel, and how their verdicts are combined; `place` says where that stands, for messages."""

    members: tuple[JudgeRef, ...]
    settings: PanelSettings
    place: str


def resolve_judge_or_panel(spec: str, run: Run | None = None) -> JudgeRef:
    """As `resolve_judge`, and also `panel:a,b,c` or `panel:FILE.yaml`.

    Raises:
        InputError: As for `resolve_judge` and `read_panel`; or a panel names a judge twice, or is a member of itself.
    """
    if not is_panel(spec):
        return resolve_judge(spec, run)
    named = read_panel(spec)
    members: dict[str, JudgeRef] = {}
    for text in named.settings.members:
        try:
            member = resolve_judge(text, run)
        except InputError as error:
            raise InputError(f"{named.place}: member {text}: {error}") from None
        other = members.setdefault(member.name, member)
        if other is not member:
            fix = "name each judge once" if other.folder == member.folder else "rename one of the two folders"
            raise InputError(f"{named.place}: member {text}: the panel has a judge named {member.name} already; {fix}")
    name = named.name or f"panel-{'+'.join(members)}"
    if name in members:
        raise InputError(f"{named.place}: the panel has the name of its member {name}; rename the file")
    seen = frozenset[str]().union(*(member.seen for member in members.values()))
    return JudgeRef(name, seen=seen, panel=PanelRef(tuple(members.values()), named.settings, named.place))


def resolve_judge(spec: str, run: Run | None = None) -> JudgeRef:
    """Finds the judge that the user named, and reads its card.

    Args:
        spec: `local` (MEDJUDGE_JUDGE, else the newest folder under ./judges that was validated, did not fail its gate
            and is not the quickstart's, else the built-in judge), `built-in`, `similarity` (the baseline),
            `openai:MODEL`, `base:MODEL` (an untuned model), or a judge folder.
        run: A run whose judgments may also be named, such as imported ones, unless there is a folder of that name.

    Raises:
        InputError: There is no such judge, its folder is incomplete, or it is a panel.
    """
    if is_panel(spec):
        raise InputError(f"{spec}: a panel cannot be used here; name one judge (eval and validate take panels)")
    if run is not None and spec not in _PACKAGED and spec in run.judges() and not Path(spec).is_dir():
        entry = run.manifest().get("judges", {}).get(spec)
        return JudgeRef(spec, seen=frozenset(entry.get("seen_question_ids", ()) if entry else ()))
    if model := server_model(spec, "--judge"):
        return JudgeRef(file_name(model), api_model=model)
    if spec.startswith(PREFIX):
        folder = untuned_folder(spec.removeprefix(PREFIX))
    elif spec == "local":
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
    cards = sorted(JUDGES_FOLDER.glob(f"*/{CARD_FILE}"), key=lambda card: card.stat().st_mtime, reverse=True)
    return next((card.parent for card in cards if _may_stand_in(card.parent)), built_in_folder())


def _may_stand_in(folder: Path) -> bool:
    """Whether a judge may be used without being named.

    The quickstart's may not, whatever it was validated on: no physician scored the sample that it learned from. A
    damaged one may not either; naming it says what is damaged.
    """
    if (folder / QUICKSTART_MARK).exists():
        return False
    try:
        return validated_and_not_failed(folder, read_card(folder))
    except InputError:
        return False


def check_judge_ref(
    judge_ref: JudgeRef, base_url: str | None, offline: bool, limit: Limit = Limit(), option: str = "--judge"
) -> None:
    """Checks, before any work is done, that an API judge has a key, network access and a price.

    Args:
        option: The option that named the judge, for messages.

    Raises:
        InputError: There is no key, --offline forbids the server, or there is a limit on costs and no price.
    """
    for member in judge_ref.members:
        if member.api_model is not None:
            check_server(f"{option} openai:{member.api_model}", member.api_model, base_url, offline, limit)


def load_judge_ref(
    judge_ref: JudgeRef,
    device: str = "auto",
    server: Server = Server(),
    spending: Spending | None = None,
    inference: Inference = Inference(),
    scheme: Scheme = LLMEVAL_MED,
    replies: ReplyOptions = ReplyOptions(),
) -> Judge:
    """Loads a judge.

    Args:
        device: `auto`, `cpu` or `cuda`.
        server: The server of an API judge.
        spending: The account that the requests of an API judge are charged to.
        inference: How a generative judge is run.
        scheme: The scheme of the questions to judge.
        replies: How an API judge may reply.

    Raises:
        InputError: No key, no such device, no price, or files that cannot be loaded.
    """
    if judge_ref.api_model is not None:
        return ApiJudge(judge_ref.api_model, server, spending, replies=replies)
    assert judge_ref.folder is not None
    say_on_terminal(f"loading judge {judge_ref.name} ...")
    return load_judge(judge_ref.folder, judge_ref.name, choose_device(device), inference, scheme)
