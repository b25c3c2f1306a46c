import os

import pytest
import torch

from medjudge.errors import InputError
from medjudge.models import hardware
from medjudge.models.hardware import choose_device


def test_a_gpu_is_requested_and_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="finds no GPU; use --device cpu"):
        choose_device("cuda")
    assert choose_device("auto").type == "cpu"
    with pytest.raises(InputError, match="unknown"):
        choose_device("tpu")


def test_bfloat16_is_used_exactly_where_the_cpu_multiplies_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for has_bf16, dtype in ((True, torch.bfloat16), (False, torch.float32)):
        monkeypatch.setattr(hardware, "cpu_has_bf16", lambda answer=has_bf16: answer)
        assert hardware.fast_dtype(torch.device("cpu")) == dtype


def test_the_machine_is_described() -> None:
    machine = hardware.describe()
    assert machine["cores"] == os.cpu_count()
    assert machine["gpus"] == [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
