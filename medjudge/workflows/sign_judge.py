"""Signs a judge folder, and checks a signature: who vouches for its files and for the validations in its card."""

from collections.abc import Callable
from dataclasses import dataclass
from getpass import getpass
from pathlib import Path
from typing import Any

from medjudge.errors import InputError
from medjudge.files import read_bytes, replacing
from medjudge.judge.open import resolve_judge
from medjudge.judge.signed import LIST_FILE, SIGNATURE_FILE, SignedFiles, file_list, signed_files
from medjudge.signatures import sign, verify


@dataclass(frozen=True)
class SignedJudge:
    """A judge folder that was signed, and how many files the signature covers."""

    folder: Path
    files: int

    def as_json(self) -> dict[str, Any]:
        """The object that `judge sign --json` prints."""
        return {"judge": str(self.folder), "files": self.files, "signature": str(self.folder / SIGNATURE_FILE)}


@dataclass(frozen=True)
class VerifiedJudge:
    """What a judge's signature says.

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
        """Whether the judge is signed and unchanged."""
        return self.files.signed and not self.files.changed

    @property
    def line(self) -> str:
        """The result in one line."""
        if self.key is None or not self.holds:
            return self.files.line
        return f"signed by {self.key} ({self.comment})"

    def as_json(self) -> dict[str, Any]:
        """The object that `judge verify --json` prints."""
        return {
            "judge": str(self.folder),
            "signed": self.files.signed,
            "changed": list(self.files.changed),
            "key": None if self.key is None else str(self.key),
            "comment": self.comment,
        }


def sign_judge(
    judge: str, key: Path, ask_password: Callable[[], str] = lambda: getpass("Password of the secret key: ")
) -> SignedJudge:
    """Writes the list of a judge's files and its signature into the judge folder.

    Args:
        judge: A judge folder.
        key: A secret key of minisign.
        ask_password: Called if the key is encrypted.

    Raises:
        InputError: There is no such judge or key, or py-minisign is not installed. Nothing was written.
    """
    ref = resolve_judge(judge)
    if ref.folder is None or ref.card is None:
        raise InputError(f"{judge}: runs on a server; only a judge folder can be signed")
    listed = file_list(ref.folder, ref.card)
    signature = sign(listed, key, ask_password, "--key")
    for name, content in ((LIST_FILE, listed), (SIGNATURE_FILE, signature)):
        with replacing(ref.folder / name, private=False) as file:
            file.write(content)
    return SignedJudge(ref.folder, listed.count(b"\n"))


def verify_judge(judge: str, key: Path | None = None) -> VerifiedJudge:
    """Compares a judge's files with its signed list, and the list with the signature.

    Args:
        judge: A judge folder.
        key: A public key of minisign, by which the judge must be signed; None to compare the files only.

    Raises:
        InputError: There is no such judge, or it is not signed by the key.
    """
    ref = resolve_judge(judge)
    if ref.folder is None or ref.card is None:
        raise InputError(f"{judge}: runs on a server; only a judge folder can be signed")
    files = signed_files(ref.folder, ref.card)
    if key is None:
        return VerifiedJudge(ref.folder, files)
    if not files.signed:
        raise InputError(f"{ref.folder}: not signed, and --key {key} asks for a signature; do not trust this judge")
    listed, signature = (read_bytes(ref.folder / name) for name in (LIST_FILE, SIGNATURE_FILE))
    return VerifiedJudge(ref.folder, files, key, verify(listed, signature, key, "do not trust this judge"))
