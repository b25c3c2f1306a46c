"""A judge's identity, the sha256 of everything that changes a score."""

import json
from hashlib import sha256
from pathlib import Path

from medjudge.judge.folder import CARD_FILE, TOKENIZER_CONFIG, JudgeCard, base_of
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
    files = {name: digest for name, digest in folder_hashes(folder).items() if name != CARD_FILE}
    text = json.dumps([card.model_dump_json(exclude=left_out), files, base], sort_keys=True)
    return sha256(text.encode()).hexdigest()


def rubrics_sha256(style: Style, scheme: Scheme) -> str:
    """The sha256 of all rubrics of a scheme in one style."""
    return sha256(json.dumps(prompt_hashes(style, scheme), sort_keys=True).encode()).hexdigest()
