"""Signatures in minisign's format: made and checked offline, with keys of the `minisign` program."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from medjudge.errors import InputError


def sign(data: bytes, key_file: Path, ask_password: Callable[[], str], option: str = "--sign") -> bytes:
    """Signs data with a secret key.

    Args:
        ask_password: Called if the key is encrypted.
        option: The option that names the key, for messages.

    Raises:
        InputError: py-minisign is not installed, there is no such key, or the password is wrong.
    """
    _require_minisign(option)
    from minisign import Error, SecretKey

    try:
        with SecretKey.from_file(key_file) as key:
            if key.is_encrypted():
                key.decrypt(ask_password())
            return bytes(key.sign(data)) + b"\n"
    except (Error, OSError) as error:
        raise InputError(f"{option} {key_file}: {_reason(error)}; a secret key of minisign is expected") from None


def verify(data: bytes, signature: bytes, key_file: Path, consequence: str = "nothing was unpacked") -> str:
    """Checks a signature, and returns its trusted comment.

    Args:
        consequence: What follows where it does not fit; ends the message.

    Raises:
        InputError: py-minisign is not installed, there is no such key, or another key or other data was signed.
    """
    _require_minisign("--key")
    from minisign import Error, PublicKey, Signature

    try:
        key = PublicKey.from_file(key_file)
    except (Error, OSError) as error:
        raise InputError(f"--key {key_file}: {_reason(error)}; a public key of minisign is expected") from None
    try:
        parsed = Signature.from_bytes(signature)
        key.verify(data, parsed)
    except Error as error:
        raise InputError(f"--key {key_file}: {_reason(error)}; {consequence}") from None
    return str(parsed.trusted_comment)


def _require_minisign(option: str) -> None:
    if find_spec("minisign") is None:
        raise InputError(f"{option}: needs py-minisign; pip install 'medjudge[sign]'")


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
