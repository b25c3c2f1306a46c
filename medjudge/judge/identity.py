"""A judge's identity, the sha256 of everything that changes a score."""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from shlex import quote

from medjudge.judge.folder import CARD_FILE, TOKENIZER_CONFIG, JudgeCard, MeasuredOn, base_of
from medjudge.judge.study_summary import AgainstKind
from medjudge.models.hashes import base_hashes, folder_hashes
from medjudge.rubrics.render import Style, prompt_hashes
from medjudge.scheme import Scheme

_LATER_FIELDS = ("quantization", "base_source", "text_prefix")


def folder_identity(folder: Path, card: JudgeCard) -> str:
    """The sha256 of a judge folder: its card but for its validations, its weights, adapter, tokenizer and base model.

    Raises:
        InputError: The base model cannot be found.
    """
    # Where the folder holds no tokenizer, the judge reads with its base model's.
    own_tokenizer = (folder / TOKENIZER_CONFIG).is_file()
    base = base_hashes(*base_of(card, folder), tokenizer=not own_tokenizer)
    # Without a value, these fields leave the identity as it was before there were any.
    left_out = {"validated_on", *(name for name in _LATER_FIELDS if getattr(card, name) is None)}
    text = json.dumps([card.model_dump_json(exclude=left_out), _own_files(folder), base], sort_keys=True)
    return sha256(text.encode()).hexdigest()


def rubrics_sha256(style: Style, scheme: Scheme) -> str:
    """The sha256 of all rubrics of a scheme in one style."""
    return sha256(json.dumps(prompt_hashes(style, scheme), sort_keys=True).encode()).hexdigest()


def card_rubrics_sha256(card: JudgeCard, scheme: Scheme) -> str:
    """The sha256 of the rubrics of a scheme that a judge on disk reads; empty where it reads none."""
    return rubrics_sha256(card.style, scheme) if card.reads_rubrics else ""


def measured_on(folder: Path, card: JudgeCard, scheme: Scheme, models: Mapping[str, int]) -> MeasuredOn:
    """The material that a judge's temperature was fitted with.

    Args:
        models: How many answers of each model it was fitted on.
    """
    files = sha256(json.dumps(_own_files(folder), sort_keys=True).encode()).hexdigest()
    return MeasuredOn(
        files_sha256=files,
        rubrics_sha256=card_rubrics_sha256(card, scheme),
        scheme_sha256=scheme.sha256,
        models=dict(sorted(models.items())),
    )


def stale_temperature(folder: Path, card: JudgeCard, scheme: Scheme) -> str | None:
    """Why the temperature of a judge is stale, and what to run; None where it is not, or where none was fitted."""
    if card.temperature_on is None:
        return None
    fitted = card.temperature_on
    here = measured_on(folder, card, scheme, fitted.models)
    again = f"train it again with `medjudge train --output-dir {quote(str(folder))}`"
    if fitted.files_sha256 != here.files_sha256:
        return f"its temperature was fitted with other files; restore them or {again}"
    if fitted.scheme_sha256 != here.scheme_sha256:
        return f"its temperature was fitted with another scheme than {scheme.name}, or another state of it; {again}"
    if fitted.rubrics_sha256 != here.rubrics_sha256:
        return f"its temperature was fitted with other rubrics; {again}"
    return None


def _own_files(folder: Path) -> dict[str, str]:
    return {name: digest for name, digest in folder_hashes(folder).items() if name != CARD_FILE}


def validated_and_not_failed(folder: Path, card: JudgeCard) -> bool:
    """True if a judge was validated against physicians as its files are now, and no such validation was failed.

    Of several validations with questions of one scheme, the last counts.

    Raises:
        InputError: The base model cannot be found.
    """
    against_physicians = [study for study in card.validated_on if study.against_kind == AgainstKind.PHYSICIANS]
    if not against_physicians:
        return False
    here = folder_identity(folder, card)
    last = {study.scheme.name: study for study in against_physicians if study.judge_sha256 == here}
    return bool(last) and all(study.gate.passed is not False for study in last.values())
