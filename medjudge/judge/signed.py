"""The material of a judge's signature: the list of its files with their sha256, signed in minisign's format."""

from pathlib import Path
from typing import NamedTuple

from medjudge.errors import InputError, printable
from medjudge.files import file_sha256, read_bytes
from medjudge.judge.folder import BASE_FOLDER, CARD_FILE, JudgeCard
from medjudge.judge.identity import base_file_hashes
from medjudge.models.hashes import folder_hashes

LIST_FILE, SIGNATURE_FILE = "judge.sha256", "judge.sha256.minisig"
_README = "README.md"


class SignedFiles(NamedTuple):
    """A judge's signature, as far as no key is needed: whether there is one, and which files differ from its list."""

    signed: bool
    changed: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """As screens show it."""
        if not self.signed:
            return "unsigned"
        if self.changed:
            more = f" and {len(self.changed) - 1} more" if len(self.changed) > 1 else ""
            return f"changed since it was signed ({self.changed[0]}{more})"
        return "signed, key not checked"


def file_list(folder: Path, card: JudgeCard) -> bytes:
    """The lines that are signed: sha256 and path of every file that changes a score or makes a claim.

    Those are the files of the judge's identity, `judge.json` with its validations, and `README.md`. Files of the base
    model are listed under `base/`, wherever they are. `sha256sum --check --ignore-missing` reads the list.

    Raises:
        InputError: The base model cannot be found, or a file has control characters in its name.
    """
    lines = []
    for name, digest in sorted(_hashes(folder, card).items()):
        if printable(name) != name or "\n" in name:
            raise InputError(f"{folder / name}: a name with control characters; remove the file")
        lines.append(f"{digest}  {name}\n")
    return "".join(lines).encode()


def signed_files(folder: Path, card: JudgeCard) -> SignedFiles:
    """Compares a judge's files with its signed list. Who signed it, only a key can tell.

    Raises:
        InputError: The base model cannot be found.
    """
    if not (folder / LIST_FILE).is_file() or not (folder / SIGNATURE_FILE).is_file():
        return SignedFiles(False)
    lines = read_bytes(folder / LIST_FILE).decode("utf-8", "replace").splitlines()
    listed = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    here = _hashes(folder, card)
    return SignedFiles(True, tuple(sorted(name for name in {*listed, *here} if listed.get(name) != here.get(name))))


def _hashes(folder: Path, card: JudgeCard) -> dict[str, str]:
    own = folder_hashes(folder)
    own |= {name: file_sha256(folder / name) for name in (CARD_FILE, _README) if (folder / name).is_file()}
    return own | {f"{BASE_FOLDER}/{name}": digest for name, digest in base_file_hashes(folder, card).items()}
