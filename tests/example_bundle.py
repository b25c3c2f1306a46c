"""What a bundle says that it holds, for tests that need no real one."""

from medjudge.bundle import About

ABOUT = About(
    judge="j",
    kind="ordinal",
    base_model="b",
    base_revision=None,
    questions=1,
    answers=0,
    scheme="s",
    scheme_sha256="0" * 64,
)
