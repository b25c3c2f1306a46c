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


@pytest.mark.parametrize(
    ("amx", "avx512", "speedup", "expected"),
    [(True, False, 0.0, True), (False, True, 3.0, True), (False, True, 0.3, False), (False, False, 3.0, False)],
)
def test_bfloat16_needs_amx_or_a_measured_gain(amx, avx512, speedup, expected, monkeypatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512)
    monkeypatch.setattr(hardware, "_bf16_speedup", lambda: speedup)
    monkeypatch.setattr(hardware, "cpu_has_bf16", hardware.cpu_has_bf16.__wrapped__)  # measured each time
    assert hardware.fast_dtype(torch.device("cpu")) == (torch.bfloat16 if expected else torch.float32)


def test_bfloat16_that_a_gpu_emulates_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    assert hardware.fast_dtype(torch.device("cuda")) == torch.float16
