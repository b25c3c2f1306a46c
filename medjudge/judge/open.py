"""Resolves the argument of `--judge` to a judge, and loads it."""

import json
import os
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple, overload

from medjudge.chat_api.client import Server, check_server
from medjudge.chat_api.spending import Limit, Spending
from medjudge.chat_api.transport import server_address, server_model
from medjudge.errors import InputError
from medjudge.judge.api import ApiJudge, ReplyOptions, file_name
from medjudge.judge.folder import CARD_FILE, UNTUNED, JudgeCard, folder_identity, load_judge, read_card, rubrics_sha256
from medjudge.judge.ordinal import reads_checklist, says_points
from medjudge.judge.panel import PanelSettings, is_panel, read_panel
from medjudge.judge.protocol import Judge
from medjudge.judge.ray_judge import RayJudge
from medjudge.judge.study_summary import AgainstKind
from medjudge.languages.texts import languages_of
from medjudge.models.chat import with_chat_template
from medjudge.models.hardware import choose_device
from medjudge.models.hashes import base_hashes
from medjudge.models.loading import base_name, commit, load_tokenizer, located, model_name, window
from medjudge.models.packaged import cache_folder, make_once, source_of
from medjudge.models.quantization import QUANTIZATIONS, Quantization, require_bitsandbytes
from medjudge.rubrics.render import prompt_hashes
from medjudge.rubrics.verdict import VERDICT_SCHEMA, judge_replies
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.screen import say_on_terminal
from medjudge.store import Run

JUDGES_FOLDER = Path("judges")
BUILT_IN, SIMILARITY = [Path(str(files("medjudge"))) / "data" / name for name in ("built-in", "similarity")]
"""The folders of the judges that come with the package: a trained one, and the baseline."""
_PACKAGED = {"built-in": BUILT_IN, "similarity": SIMILARITY}
QUICKSTART_MARK = ".quickstart"
"""The file that marks a folder as written by `medjudge quickstart`: its judge learned from the sample alone."""


class JudgeOptions(NamedTuple):
    """The settings of running a judge.

    Attributes:
        device: `auto`, `cpu` or `cuda`.
        engine: `transformers`, or `ray` for a local judge on the workers of a Ray cluster.
        rounds: How often each answer is judged.
        rationale_tokens: The most tokens of a rationale by a generative judge; 0 for none.
        quantization: Quantises the base of a generative judge for this use, by name (`nf4`); None runs it as trained.
        server: Where an `openai:` judge is, and how patiently it is asked.
        limit: What the run may cost.
        replies: How an `openai:` judge may reply.
    """

    device: str = "auto"
    engine: str = "transformers"
    rounds: int = 1
    rationale_tokens: int = 0
    quantization: str | None = None
    server: Server = Server()
    limit: Limit = Limit()
    replies: ReplyOptions = ReplyOptions()


@dataclass(frozen=True)
class FolderRef:
    """A judge on disk, not loaded yet.

    `quantization` is that of a base that is quantised for this use only; `card` then has it too.
    """

    name: str
    folder: Path
    card: JudgeCard
    quantization: Quantization | None = None

    @property
    def kind(self) -> str:
        """The kind of the judge, for messages and for `run.json`."""
        return self.card.kind

    @property
    def seen(self) -> frozenset[str]:
        """The ids of the questions that the judge was trained or tuned on."""
        return frozenset(self.card.trained_on.seen())

    @property
    def reads_checklist(self) -> bool:
        """True if the judge reads a question's checklist."""
        return self.kind == "generative" or (self.kind == "ordinal" and reads_checklist(self.folder))

    @property
    def checks_items(self) -> bool:
        """True if the judge gives verdicts on items."""
        return self.kind == "generative" or (self.kind == "ordinal" and says_points(self.folder))

    def identity(self, options: JudgeOptions, scheme: Scheme) -> str:
        """The sha256 of everything that changes the judge's scores.

        Raises:
            InputError: The base model cannot be found.
        """
        return folder_identity(self.folder, self.card)

    def rubrics_sha256(self, scheme: Scheme) -> str:
        """The sha256 of the rubrics of a scheme that the judge reads; empty where it reads none."""
        return rubrics_sha256(self.card.style, scheme) if self.kind == "generative" else ""

    def load(self, options: JudgeOptions, scheme: Scheme = LLMEVAL_MED, spending: Spending | None = None) -> Judge:
        """Loads the judge in the engine of the options.

        Raises:
            InputError: There is no such device, or files that cannot be loaded.
        """
        how = options.rationale_tokens, scheme, self.card
        if options.engine == "ray":
            return RayJudge(self.name, self.folder, options.device, *how)
        say_on_terminal(f"loading judge {self.name} ...")
        return load_judge(self.folder, self.name, choose_device(options.device), *how)


@dataclass(frozen=True)
class ApiRef:
    """A judge behind an API: a model of an OpenAI-compatible server. What it was trained on is unknown."""

    model: str
    kind = "api"
    seen = frozenset[str]()

    @property
    def name(self) -> str:
        return file_name(self.model)

    def served(self, options: JudgeOptions) -> list[str | None]:
        """The part of the identity that the server decides: model, address, and thinking where that is switched."""
        thinking = options.replies.thinking
        switched = [] if thinking is None else [f"thinking {'on' if thinking else 'off'}"]
        return [self.model, server_address(options.server.base_url), *switched]

    def identity(self, options: JudgeOptions, scheme: Scheme) -> str:
        """The sha256 of everything that changes the judge's scores, the rubrics of the scheme included."""
        languages = languages_of(scheme)
        reminders = {code: judge_replies(code, languages).reminder for code in scheme.languages}
        prompts = [prompt_hashes("reason-first", scheme), VERDICT_SCHEMA, reminders]
        return sha256(json.dumps([*self.served(options), *prompts]).encode()).hexdigest()

    def rubrics_sha256(self, scheme: Scheme) -> str:
        """The sha256 of the rubrics of a scheme."""
        return rubrics_sha256("reason-first", scheme)

    def load(self, options: JudgeOptions, scheme: Scheme = LLMEVAL_MED, spending: Spending | None = None) -> ApiJudge:
        """Connects to the server; requests are charged to the account `spending`.

        Raises:
            InputError: There is no key, or no price.
        """
        return ApiJudge(self.model, options.server, spending, replies=options.replies)


@dataclass(frozen=True)
class ImportedRef:
    """A judge that is known only by its judgments, such as imported ones; `seen` as the run has it."""

    name: str
    seen: frozenset[str] = frozenset()
    kind = "known by its scores only"

    def rubrics_sha256(self, scheme: Scheme) -> str:
        """Empty: what the judge read is not known."""
        return ""


JudgeRef = FolderRef | ApiRef
"""A single judge that can judge."""
MemberRef = JudgeRef | ImportedRef
"""A member of a panel."""


@dataclass(frozen=True)
class PanelRef:
    """Several judges together, and how their verdicts are combined; `place` is where the settings are, for messages."""

    name: str
    members: tuple[MemberRef, ...]
    settings: PanelSettings
    place: str
    kind = "a panel"

    @property
    def seen(self) -> frozenset[str]:
        """The ids of the questions that a member was trained or tuned on."""
        return frozenset[str]().union(*(member.seen for member in self.members))

    def rubrics_sha256(self, scheme: Scheme) -> str:
        """The sha256 of the rubrics that the members read."""
        return sha256(json.dumps([member.rubrics_sha256(scheme) for member in self.members]).encode()).hexdigest()


AnyRef = MemberRef | PanelRef


def members_of(judge_ref: AnyRef) -> tuple[MemberRef, ...]:
    """The judges that score: those of a panel, or the judge itself."""
    return judge_ref.members if isinstance(judge_ref, PanelRef) else (judge_ref,)


def quantised(judge_ref: FolderRef, name: str) -> FolderRef:
    """A generative judge on a base that is quantised for this use: another judge, of another name and identity.

    Args:
        name: One of `QUANTIZATIONS`.

    Raises:
        InputError: There is no such quantisation, or the judge runs on a quantised base anyway.
    """
    if name not in QUANTIZATIONS:
        raise InputError(f"--judge-quantization {name}: unknown; use {' or '.join(QUANTIZATIONS)}")
    if judge_ref.card.quantization is not None:
        raise InputError(
            f"--judge-quantization: judge {judge_ref.name} runs on a base quantised to {judge_ref.card.quantization}, "
            "as it was trained; leave out --judge-quantization"
        )
    quantization = QUANTIZATIONS[name]
    require_bitsandbytes(f"--judge-quantization {name}")
    card = judge_ref.card.model_copy(update={"quantization": quantization})
    return FolderRef(f"{judge_ref.name}-{name}", judge_ref.folder, card, quantization)


def resolve_judge_or_panel(spec: str, run: Run | None = None) -> AnyRef:
    """As `resolve_judge`, and also as `resolve_panel`."""
    return resolve_panel(spec, run) if is_panel(spec) else resolve_judge(spec, run)


def resolve_panel(spec: str, run: Run | None = None) -> PanelRef:
    """Finds the members of `panel:a,b,c` or `panel:FILE.yaml`.

    Raises:
        InputError: As for `resolve_judge` and `read_panel`; or a panel names a judge twice, or is a member of itself.
    """
    named = read_panel(spec)
    members: dict[str, MemberRef] = {}
    for text in named.settings.members:
        try:
            member = resolve_judge(text, run)
        except InputError as error:
            raise InputError(f"{named.place}: member {text}: {error}") from None
        other = members.setdefault(member.name, member)
        if other is not member:
            fix = "name each judge once" if other == member else "rename one of the two folders"
            raise InputError(f"{named.place}: member {text}: the panel has a judge named {member.name} already; {fix}")
    name = named.name or f"panel-{'+'.join(members)}"
    if name in members:
        raise InputError(f"{named.place}: the panel has the name of its member {name}; rename the file")
    return PanelRef(name, tuple(members.values()), named.settings, named.place)


@overload
def resolve_judge(spec: str) -> JudgeRef: ...


@overload
def resolve_judge(spec: str, run: Run | None) -> MemberRef: ...


def resolve_judge(spec: str, run: Run | None = None) -> MemberRef:
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
        return ImportedRef(spec, frozenset(entry.get("seen_question_ids", ()) if entry else ()))
    if model := server_model(spec, "--judge"):
        return ApiRef(model)
    if spec.startswith(_UNTUNED):
        folder = untuned_folder(spec.removeprefix(_UNTUNED))
    elif spec == "local":
        folder = _local_folder()
    elif spec in _PACKAGED:
        folder = _PACKAGED[spec]
    else:
        folder = Path(spec)
    return FolderRef(folder.resolve().name, folder, read_card(folder))


def _local_folder() -> Path:
    if named := os.environ.get("MEDJUDGE_JUDGE"):
        return Path(named)
    cards = sorted(JUDGES_FOLDER.glob(f"*/{CARD_FILE}"), key=lambda card: card.stat().st_mtime, reverse=True)
    return next((card.parent for card in cards if _may_stand_in(card.parent)), BUILT_IN)


def _may_stand_in(folder: Path) -> bool:
    """True if a judge may be used without being named: validated against physicians as it is now, and never failed.

    Of several validations with questions of one scheme, the last counts. The quickstart's judge may not be used,
    whatever it was validated on: no physician scored the sample that it learned from. A damaged one may not either;
    naming it says what is damaged.
    """
    if (folder / QUICKSTART_MARK).exists():
        return False
    try:
        card = read_card(folder)
        studies = [study for study in card.validated_on if study.against_kind == AgainstKind.PHYSICIANS]
        here = folder_identity(folder, card) if studies else ""
    except InputError:
        return False
    last = {study.scheme.name: study for study in studies if study.judge_sha256 == here}
    return bool(last) and all(study.gate.passed is not False for study in last.values())


def check_servers(judge_ref: AnyRef, options: JudgeOptions, offline: bool, option: str = "--judge") -> None:
    """Checks, before any work is done, that the API judges have a key, network access and a price.

    Args:
        option: The option that named the judge, for messages.

    Raises:
        InputError: There is no key, --offline forbids the server, or there is a limit on costs and no price.
    """
    for member in members_of(judge_ref):
        if isinstance(member, ApiRef):
            check_server(
                f"{option} openai:{member.model}", member.model, options.server.base_url, offline, options.limit
            )


_UNTUNED = "base:"
_LONGEST = 8192
"""Tokens of the longest prompt; many windows are longer than any memory."""


def untuned_folder(model_id: str) -> Path:
    """The judge folder of a base model without an adapter, in the cache: written on first use.

    Args:
        model_id: A hub id, a model folder or a GGUF file.

    Raises:
        InputError: The model cannot be had.
    """
    hashes = base_hashes(model_id, None, tokenizer=True)
    key = sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()[:12]
    folder = cache_folder() / "untuned" / key / f"base-{file_name(model_name(model_id))}"

    def fill(staging: Path) -> None:
        with_chat_template(load_tokenizer(model_id)).save_pretrained(staging)
        JudgeCard(
            kind="generative",
            base_model=base_name(model_id),
            base_revision=commit(model_id),
            base_source=source_of(Path(located(model_id))),
            max_length=min(window(model_id), _LONGEST),
            training={UNTUNED: True},
            note="Untuned: a language model that was trained on no scores. It shows what training a judge brings.",
        ).write(staging)

    make_once(folder, fill)
    return folder
