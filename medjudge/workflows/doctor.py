"""`medjudge doctor`: what this machine has, and what will be slow or missing."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import psutil

from medjudge.errors import InputError
from medjudge.judge.open import FolderRef, resolve_judge
from medjudge.models.hardware import describe
from medjudge.models.packaged import PACKAGED, QUICKSTART, base_states
from medjudge.shipped import shipped

_CORE = ("torch", "transformers", "peft", "trl", "accelerate", "datasets", "openai")
_EXTRAS = ("bitsandbytes", "deepspeed", "vllm", "ray", "fastapi", "matplotlib")


def diagnose() -> dict[str, Any]:
    """Looks at hardware, packages, and the judge and encoder that work without a network.

    Returns:
        The object that `doctor --json` prints: `hardware` with its memory in GiB; `packages` with their versions, None
        for one that is not installed; `shipped_files`, the folders of recipes and configs; `bases` that packages carry,
        with their licence or how to install them; the `local_judge`, with a `problem` where it cannot be used; and as
        `advice` what will be slow or missing, and what to do about it.
    """
    hardware = describe()
    packages = {name: _version(name) for name in (*_CORE, *_EXTRAS)}
    bases = base_states()
    of_quickstart = {model for model, row in PACKAGED.items() if row.install == QUICKSTART}
    missing = [model for model, state in bases.items() if model in of_quickstart and state.startswith("in no package")]
    return {
        "hardware": hardware | {"memory_gib": round(psutil.virtual_memory().total / 2**30, 1)},
        "packages": packages,
        "shipped_files": {name: str(shipped(name)) for name in ("recipes", "configs")},
        "bases": bases,
        "local_judge": _local_judge(),
        "advice": _advice(hardware, packages, missing) or ["nothing is missing"],
    }


def _local_judge() -> dict[str, str | None]:
    try:
        judge_ref = resolve_judge("local")
    except InputError as error:
        return {"name": None, "folder": None, "kind": None, "problem": str(error)}
    folder = str(judge_ref.folder) if isinstance(judge_ref, FolderRef) else None
    return {"name": judge_ref.name, "folder": folder, "kind": judge_ref.kind}


def _advice(hardware: dict[str, Any], packages: dict[str, str | None], missing: list[str]) -> list[str]:
    gpus = hardware["gpus"]
    slow = (
        "no GPU that torch sees: ordinal and similarity judges are fine here; answering and generative judges will be "
        "slow. Where nvidia-smi lists a GPU, update its driver, or install a CUDA build of torch for it"
    )
    old_cpu = "this CPU has no bfloat16 instructions: training takes about three times as long as on one that has"
    serve = "the scoring page and `medjudge serve` need fastapi: pip install 'medjudge[annotate]'"
    advice = {
        slow: not gpus,
        old_cpu: not gpus and not hardware["bf16"],
        "QLoRA needs bitsandbytes: pip install 'medjudge[gpu]'": gpus and packages["bitsandbytes"] is None,
        serve: packages["fastapi"] is None,
        "plots need matplotlib: pip install 'medjudge[report]'": packages["matplotlib"] is None,
        f"{', '.join(missing)}: in no package here; {QUICKSTART} brings them without a model hub": missing,
    }
    return [line for line, applies in advice.items() if applies]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
