"""`base:MODEL`: an untuned language model as a judge, so that a user sees what tuning bought."""

import json
import os
import tempfile
from hashlib import sha256
from pathlib import Path

from filelock import FileLock

from medjudge.files import remove_leftovers
from medjudge.judge.api import file_name
from medjudge.judge.folder import UNTUNED, JudgeCard
from medjudge.models.chat import with_chat_template
from medjudge.models.hashes import base_hashes
from medjudge.models.loading import base_name, commit, load_tokenizer, located, model_name, window
from medjudge.models.packaged import source_of

PREFIX = "base:"
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
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "medjudge" / "untuned" / key / f"base-{file_name(model_name(model_id))}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if folder.is_dir():
            return folder
        remove_leftovers(folder.parent, "untuned.*.part")
        staging = Path(tempfile.mkdtemp(prefix="untuned.", suffix=f".{os.getpid()}.part", dir=folder.parent))
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
        staging.chmod(0o755)
        staging.rename(folder)
    return folder
