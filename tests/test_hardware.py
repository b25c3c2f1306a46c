import pytest
import torch

from medjudge.errors import InputError
from medjudge.hardware import choose_device, describe, fast_dtype


def test_a_gpu_asked_for_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="sees no GPU here; take --device cpu"):
        choose_device("cuda")
    assert choose_device("auto").type == "cpu"
    with pytest.raises(InputError, match="unknown"):
        choose_device("tpu")


def test_the_dtype_is_one_the_device_is_fast_in() -> None:
    assert fast_dtype(torch.device("cpu")) in (torch.bfloat16, torch.float32)


def test_the_machine_is_described() -> None:
    machine = describe()
    assert machine["cores"] >= 1
    assert machine["cpu"]
