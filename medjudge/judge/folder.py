"""Reads a judge folder: `judge.json`, the judge that it describes, and its identity."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from transformers import PreTrainedModel

from medjudge.errors import InputError
from medjudge.files import first_problem, model_from_json, parse_json, read_text, write_whole
from medjudge.judge.adapter import ADAPTER_CONFIG, ADAPTER_FILE, check_adapter_config, damage_explained, load_adapter
from medjudge.judge.generative import GenerativeJudge, GenerativeSettings
from medjudge.judge.ordinal import HEAD_FILE, OrdinalJudge, OrdinalModel, OrdinalSettings
from medjudge.judge.protocol import Judge
from medjudge.judge.similarity import CutPoints, SentenceEncoder, SimilarityJudge
from medjudge.judge.study_summary import StudySummary
from medjudge.models.hardware import fast_dtype
from medjudge.models.hashes import base_hashes, folder_hashes
from medjudge.models.loading import load_causal_lm, load_encoder, load_tokenizer, located, window
from medjudge.models.packaged import PACKAGED, Source, converted_copy, source_of
from medjudge.models.quantization import Quantization, require_bitsandbytes
from medjudge.models.safety import refuse_pickles
from medjudge.rubrics.render import Style, prompt_hashes
from medjudge.scheme import LLMEVAL_MED, Scheme, SchemeRef

CARD_FILE = "judge.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
_VOCABULARIES = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.txt", "vocab.json", "tekken.json")
UNTUNED = "without_adapter"
"""In `training` of a card: the base model judges without an adapter."""
BASE_FOLDER = "base"
"""The place of a base model inside a judge folder, for machines that reach no hub."""
Kind = Literal["generative", "ordinal", "similarity"]
_FIXES: dict[tuple[int | str, ...], str] = {
    ("kind",): "where an earlier release made it, name another judge, such as `built-in`, or train one anew",
    ("validated_on",): "remove this entry and run `medjudge validate` again",
}
"""The fix for each field of `judge.json` that may be wrong."""


class TrainedOn(BaseModel):
    """The data a judge has seen. `tuned_question_ids` selected its checkpoint or temperature, and count as seen too."""

    files: dict[str, str] = Field(default_factory=dict, description="file name -> sha256")
    question_ids: list[str] = Field(default_factory=list)
    tuned_question_ids: list[str] = Field(default_factory=list)

    def seen(self) -> set[str]:
        return {*self.question_ids, *self.tuned_question_ids}


class JudgeCard(BaseModel):
    """`judge.json`: how to load a judge, and how far it has been validated."""

    model_config = ConfigDict(allow_inf_nan=False)

    # What a later version adds is passed over, so that its judges can still be used.
    kind: Kind
    base_model: str
    base_revision: str | None = None
    base_source: Source | None = Field(
        default=None, description="the file that the base model's weights were converted from; None for published ones"
    )
    quantization: Quantization | None = Field(default=None, description="of the base model, in training and judging")
    style: Style = "score-first"
    scheme: SchemeRef | None = Field(default=None, description="what the training questions belong to")
    prompt_hashes: dict[str, str] = Field(
        default_factory=dict, description="of each rubric that a generative judge was trained with"
    )
    score_labels: list[str] = ["1", "2", "3", "4", "5"]
    max_length: int = Field(ge=16)
    windows: int = Field(default=1, ge=1, description="of an ordinal judge: the most stretches of an answer it reads")
    temperature: float = Field(default=1.0, gt=0)
    temperature_on: dict[str, Any] | None = Field(default=None, description="written by an earlier release, not read")
    text_prefix: str | None = Field(default=None, description="of a similarity judge: before each text")
    slope: float | None = None
    cuts: tuple[float, float, float, float] | None = None
    trained_on: TrainedOn = TrainedOn()
    validated_on: list[StudySummary] = Field(default_factory=list)
    training: dict[str, Any] = Field(default_factory=dict)
    note: str | None = None
    only_languages: list[str] | None = Field(default=None, description="texts in others are left unscored")

    def write(self, folder: Path) -> None:
        write_whole(folder / CARD_FILE, self.model_dump_json(indent=2) + "\n", private=False)


def read_card(folder: Path) -> JudgeCard:
    """Reads `judge.json` and checks that the files it needs are there.

    Raises:
        InputError: The folder is no judge, a file is missing, or `judge.json` is corrupt or of a kind that is gone.
    """
    if not folder.is_dir():
        api = f"; a model behind an API is named openai:{folder}" if len(folder.parts) == 1 else ""
        raise InputError(f"judge {folder}: no such folder; `ls judges`, or train one with `medjudge quickstart`{api}")
    if not (folder / CARD_FILE).is_file():
        raise InputError(f"judge {folder}: no {CARD_FILE} in it, so it is not a judge folder")
    refuse_pickles(folder, f"judge {folder}")
    text = read_text(folder / CARD_FILE)
    try:
        card = model_from_json(JudgeCard, text)
    except ValueError as error:
        wrong = error.errors()[0]["loc"] if isinstance(error, ValidationError) else ()
        fix = _FIXES.get(wrong[:1], "restore the file or train the judge again")
        raise InputError(f"{folder / CARD_FILE}: {first_problem(error)}; {fix}") from None
    if card.kind == "generative" and card.style == "reason-first":
        raise InputError(
            f"judge {folder}: gives its reasons before the score, which an earlier release of medjudge trained and "
            "this one does not load; name another judge, or train one with `medjudge train`"
        )
    for name in _required_files(card, folder):
        if not (folder / name).is_file():
            raise InputError(f"judge {folder}: {name} is missing; restore it or train the judge again")
    if (folder / ADAPTER_CONFIG).is_file():
        check_adapter_config(folder)
    if card.kind == "similarity" and (card.slope is None or card.cuts is None):
        raise InputError(f"{folder / CARD_FILE}: a similarity judge needs slope and cuts; fit it again")
    return card


def _required_files(card: JudgeCard, folder: Path) -> list[str]:
    """The files that a judge's scores come from, beside `judge.json`."""
    if card.kind == "similarity":
        return []
    names = [] if card.training.get(UNTUNED) else [ADAPTER_CONFIG, ADAPTER_FILE]
    if card.kind == "ordinal":
        return [*names, HEAD_FILE]
    # Without its vocabulary, transformers builds some tokenizers empty and says nothing.
    return [*names, TOKENIZER_CONFIG, *([] if _has_vocabulary(folder) else ["tokenizer.json"])]


def _has_vocabulary(folder: Path) -> bool:
    """True if a tokenizer that is not of the `tokenizers` library has its vocabulary in a file of its own."""
    try:
        fields = parse_json(read_text(folder / TOKENIZER_CONFIG))
        backend = fields.get("backend", "tokenizers")
    except (InputError, ValueError, AttributeError, RecursionError):
        return False
    return backend != "tokenizers" and any((folder / name).is_file() for name in _VOCABULARIES)


def load_judge(
    folder: Path,
    name: str,
    device: torch.device,
    rationale_tokens: int = 0,
    scheme: Scheme = LLMEVAL_MED,
    card: JudgeCard | None = None,
) -> Judge:
    """Loads the judge of a folder to a device.

    Args:
        rationale_tokens: The most tokens of a generative judge's rationale; 0 for none.
        scheme: What the questions belong to that it will judge.
        card: Taken instead of the folder's, such as one with a base that is quantised for this use.

    Raises:
        InputError: A file is missing or corrupt, the base model cannot be had, or a generative judge was trained on a
            category of the scheme with another rubric.
    """
    card = card or read_card(folder)
    if card.kind == "generative":
        # Only the rubrics that the judge was trained with: other categories may have been added since.
        here = prompt_hashes(card.style, scheme)
        changed = [name for name, sha256 in card.prompt_hashes.items() if here.get(name, sha256) != sha256]
        if changed:
            raise InputError(
                f"judge {folder}: trained with another rubric {changed[0]} than scheme {scheme.name} has; use the "
                "version of medjudge named in its judge.json, or train it again"
            )
    with damage_explained(f"judge {folder}", card.base_model):
        if card.kind == "similarity":
            return _similarity(card, folder, name, device)
        most = window(*base_of(card, folder))
        if card.max_length > most:
            raise InputError(
                f"{folder / CARD_FILE}: max_length is {card.max_length}, and {card.base_model} reads {most} tokens"
            )
        if card.kind == "ordinal":
            return _ordinal(card, folder, name, device)
        return _generative(card, folder, name, device, rationale_tokens)


class BaseModelRef(NamedTuple):
    """The source of a base model: a hub id or folder, and a revision."""

    model_id: str
    revision: str | None


def base_of(card: JudgeCard, folder: Path) -> BaseModelRef:
    """The base model of a judge: the one that its folder carries or, where it carries none, the one of its card.

    Raises:
        InputError: The card names the file that the weights were converted from, and this machine has other weights.
    """
    carried, source = folder / BASE_FOLDER, card.base_source
    if source is None:
        named = BaseModelRef(card.base_model, card.base_revision)
        return BaseModelRef(str(carried), None) if carried.is_dir() else named
    place = carried if carried.is_dir() else converted_copy(source) or Path(located(card.base_model))
    if source_of(place) != source:
        row = PACKAGED.get(card.base_model)
        fix = row.install if row is not None and row.source == source else f"bring {source.name} to {card.base_model}"
        raise InputError(
            f"judge {folder}: was trained on {card.base_model} as {source}, and this machine has other weights or "
            f"none; {fix}"
        )
    return BaseModelRef(str(place), None)


def _similarity(card: JudgeCard, folder: Path, name: str, device: torch.device) -> SimilarityJudge:
    assert card.slope is not None
    assert card.cuts is not None
    model = load_encoder(*base_of(card, folder)).to(device).eval()
    tokenizer = load_tokenizer(*base_of(card, folder))
    encoder = SentenceEncoder(model, tokenizer, card.max_length, card.text_prefix or "")
    return SimilarityJudge(name, encoder, CutPoints(card.slope, card.cuts))


def _ordinal(card: JudgeCard, folder: Path, name: str, device: torch.device) -> OrdinalJudge:
    tokenizer = load_tokenizer(*base_of(card, folder))
    body = load_encoder(*base_of(card, folder))
    width = body.config.get_text_config().hidden_size
    model = OrdinalModel(load_adapter(body, folder).merge_and_unload(), width)
    model.load_head(folder)
    settings = OrdinalSettings(card.max_length, card.windows, card.temperature, card.only_languages)
    return OrdinalJudge(name, model.to(device).eval(), tokenizer, settings)


def _generative(
    card: JudgeCard, folder: Path, name: str, device: torch.device, rationale_tokens: int
) -> GenerativeJudge:
    model: Any
    if card.quantization:
        model = _quantized(card, card.quantization, folder, device)
    else:
        body = load_causal_lm(*base_of(card, folder), dtype=fast_dtype(device))
        whole = body if card.training.get(UNTUNED) else load_adapter(body, folder).merge_and_unload()
        model = whole.to(device).eval()
    tokenizer = load_tokenizer(str(folder))
    settings = GenerativeSettings(card.max_length, card.temperature, card.style, rationale_tokens)
    return GenerativeJudge(name, model, tokenizer, settings)


def _quantized(card: JudgeCard, quantization: Quantization, folder: Path, device: torch.device) -> PreTrainedModel:
    """The model as it was trained and calibrated: the adapter beside the quantised weights, in bfloat16."""
    require_bitsandbytes(f"judge {folder}: its base model is quantised ({quantization}), which")
    body = load_causal_lm(*base_of(card, folder), **quantization.load_options(device))
    adapted = load_adapter(body, folder)
    for name, parameter in adapted.named_parameters():
        if "lora_A" in name or "lora_B" in name:  # as TRL has them in training
            parameter.data = parameter.data.to(device, torch.bfloat16)
    return adapted.get_base_model().eval()


def folder_identity(folder: Path, card: JudgeCard) -> str:
    """The sha256 of everything that changes a judge's score.

    That is its card but for its validations, its weights, adapter, tokenizer and base model.

    Raises:
        InputError: The base model cannot be found.
    """
    # Where the folder holds no tokenizer, the judge reads with its base model's.
    own_tokenizer = (folder / TOKENIZER_CONFIG).is_file()
    base = base_hashes(*base_of(card, folder), tokenizer=not own_tokenizer)
    # Without a value, these fields leave the identity as it was before there were any.
    later = ("quantization", "base_source", "text_prefix")
    left_out = {"validated_on", *(name for name in later if getattr(card, name) is None)}
    files = {name: digest for name, digest in folder_hashes(folder).items() if name != CARD_FILE}
    text = json.dumps([card.model_dump_json(exclude=left_out), files, base], sort_keys=True)
    return sha256(text.encode()).hexdigest()


def rubrics_sha256(style: Style, scheme: Scheme) -> str:
    """The sha256 of all rubrics of a scheme in one style."""
    return sha256(json.dumps(prompt_hashes(style, scheme), sort_keys=True).encode()).hexdigest()
