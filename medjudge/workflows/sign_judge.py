"""Signs a judge folder, and checks a signature: who vouches for its files and for the validations in its card."""

from collections.abc import Callable
from getpass import getpass
from pathlib import Path
from typing import NamedTuple

from medjudge.errors import InputError
from medjudge.files import read_bytes, replacing
from medjudge.judge.folder import JudgeCard
from medjudge.judge.identity import LIST_FILE, SIGNATURE_FILE, SignedFiles, file_list, signed_files
from medjudge.judge.open import FolderRef, resolve_judge
from medjudge.signatures import sign, verify


class VerifiedJudge(NamedTuple):
    """The result of a check.

    Attributes:
        folder: The judge folder.
        files: Whether it is signed, and which files were changed since.
        key: The public key that the signature fits; None where none was given.
        comment: The signature's trusted comment; empty where no key was given.
    """

    folder: Path
    files: SignedFiles
    key: Path | None = None
    comment: str = ""

    @property
    def holds(self) -> bool:
        """True if the judge is signed and unchanged."""
        return self.files.signed and not self.files.changed

    @property
    def line(self) -> str:
        """The result in one line."""
        return f"signed by {self.key} ({self.comment})" if self.key and self.holds else self.files.line


def sign_judge(
    judge: str, key: Path, ask_password: Callable[[], str] = lambda: getpass("Password of the secret key: ")
) -> tuple[Path, int]:
    """Writes the list of a judge's files and its signature into the judge folder; returns it and the number of files.

    Args:
        judge: A judge folder.
        key: A secret key of minisign.
        ask_password: Called if the key is encrypted.

    Raises:
        InputError: There is no such judge or key, or py-minisign is not installed. Nothing was written.
    """
    folder, card = _folder(judge)
    listed = file_list(folder, card)
    signature = sign(listed, key, ask_password, "--key")
    for name, content in ((LIST_FILE, listed), (SIGNATURE_FILE, signature)):
        with replacing(folder / name, private=False) as file:
            file.write(content)
    return folder, listed.count(b"\n")


def verify_judge(judge: str, key: Path | None = None) -> VerifiedJudge:
    """Compares a judge's files with its signed list, and the list with the signature.

    Args:
        judge: A judge folder.
        key: A public key of minisign, by which the judge must be signed; None to compare the files only.

    Raises:
        InputError: There is no such judge, or it is not signed by the key.
    """
    folder, card = _folder(judge)
    files = signed_files(folder, card)
    if key is None:
        return VerifiedJudge(folder, files)
    if not files.signed:
        raise InputError(f"{folder}: not signed, and --key {key} asks for a signature; do not trust this judge")
    listed, signature = (read_bytes(folder / name) for name in (LIST_FILE, SIGNATURE_FILE))
    return VerifiedJudge(folder, files, key, verify(listed, signature, key, "do not trust this judge"))


def _folder(judge: str) -> tuple[Path, JudgeCard]:
    ref = resolve_judge(judge)
    if not isinstance(ref, FolderRef):
        raise InputError(f"{judge}: runs on a server; only a judge folder can be signed")
    return ref.folder, ref.card
