"""`medjudge doctor`: what this machine has, and what will be slow or missing."""

from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import psutil

from medjudge.errors import InputError
from medjudge.judge.open import FolderRef, resolve_judge
from medjudge.models.hardware import describe, unused_gpu
from medjudge.models.packaged import QUICKSTART, base_states
from medjudge.shipped import shipped

_PACKAGES = (
    "torch",
    "transformers",
    "peft",
    "trl",
    "accelerate",
    "datasets",
    "openai",
    "bitsandbytes",
    "deepspeed",
    "vllm",
)


@dataclass(frozen=True)
class LocalJudge:
    """The judge that `local` means here; where it cannot be used, `problem` says why."""

    name: str | None
    folder: str | None
    kind: str | None
    problem: str | None = None


@dataclass(frozen=True)
class Diagnosis:
    """What was found.

    Attributes:
        hardware: The machine, as manifests name it, and its memory in GiB.
        packages: Versions by package; None for one that is not installed.
        shipped_files: The folders of recipes and configs in this installation.
        bases: The base models that packages carry: `converted` or `installed` and their licence, else how to install.
        local_judge: The judge that `local` means.
        advice: What will be slow or missing, and what to do about it.
    """

    hardware: dict[str, Any]
    packages: dict[str, str | None]
    shipped_files: dict[str, str]
    bases: dict[str, str]
    local_judge: LocalJudge
    advice: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The object that `doctor --json` prints."""
        judge = {name: value for name, value in asdict(self.local_judge).items() if name != "problem" or value}
        return {**asdict(self), "local_judge": judge, "advice": list(self.advice)}


def diagnose() -> Diagnosis:
    """Looks at hardware, packages, and the judge and encoder that work without a network."""
    hardware = describe()
    packages = {name: _version(name) for name in _PACKAGES}
    bases = base_states()
    missing = [base.model for base in bases if base.state == "missing" and base.install == QUICKSTART]
    return Diagnosis(
        hardware=hardware | {"memory_gib": round(psutil.virtual_memory().total / 2**30, 1)},
        packages=packages,
        shipped_files={name: str(shipped(name)) for name in ("recipes", "configs")},
        bases={base.model: str(base) for base in bases},
        local_judge=_local_judge(),
        advice=tuple(_advice(hardware, packages, missing)) or ("nothing is missing",),
    )


def _local_judge() -> LocalJudge:
    try:
        judge_ref = resolve_judge("local")
    except InputError as error:
        return LocalJudge(None, None, None, str(error))
    assert isinstance(judge_ref, FolderRef)
    return LocalJudge(judge_ref.name, str(judge_ref.folder), judge_ref.kind)


def _advice(hardware: dict[str, Any], packages: dict[str, str | None], missing: list[str]) -> list[str]:
    advice = []
    if (gpu := unused_gpu()) is not None:
        advice.append(f"{gpu.name} (driver {gpu.driver}) is not used: {gpu.reason}")
    elif not hardware["gpus"]:
        advice.append(
            "no GPU: ordinal and similarity judges are fine here; answering and generative judges will be slow"
        )
    if not hardware["gpus"] and not hardware["bf16"]:
        advice.append(
            "this CPU has no bfloat16 instructions: training takes about three times as long as on one that has"
        )
    if hardware["gpus"] and packages["bitsandbytes"] is None:
        advice.append("QLoRA needs bitsandbytes: pip install 'medjudge[gpu]'")
    if missing:
        advice.append(f"{', '.join(missing)}: in no package here; {QUICKSTART} brings them without a model hub")
    return advice


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
