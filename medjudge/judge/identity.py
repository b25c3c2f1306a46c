"""A judge's identity: the sha256 of everything that changes a score."""

import json
from hashlib import sha256
from pathlib import Path

from medjudge.judge.adapter import ADAPTER_CONFIG
from medjudge.judge.folder import CARD_FILE, KINDS, JudgeCard, base_of
from medjudge.judge.study import AgainstKind
from medjudge.models.hashes import base_hashes, folder_hashes


def folder_identity(folder: Path, card: JudgeCard) -> str:
    """The sha256 of a judge folder: its card but for its validations, its weights, adapter, tokenizer and base model.

    Raises:
        InputError: The base model cannot be found.
    """
    files = {name: digest for name, digest in folder_hashes(folder).items() if name != CARD_FILE}
    # A judge that was trained in full holds all of its model; a similarity judge holds none of it.
    own_tokenizer = bool(KINDS[card.kind].files)
    reads_base = not own_tokenizer or (folder / ADAPTER_CONFIG).is_file()
    base = base_hashes(*base_of(card, folder), tokenizer=not own_tokenizer) if reads_base else {}
    text = json.dumps([card.model_dump_json(exclude={"validated_on"}), files, base], sort_keys=True)
    return sha256(text.encode()).hexdigest()


def validated_and_not_failed(folder: Path, card: JudgeCard) -> bool:
    """Whether a judge was validated against physicians as its files are now, and no such validation was failed.

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
