import json
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medjudge.report.packing import SIGNS, Packed, pack, single_bytes


def bytes_of(text: str) -> bytes:
    bits = ""
    for place in range(0, len(text), 2):
        pair = [SIGNS.index(sign) for sign in text[place : place + 2].encode()]
        bits += f"{pair[0] * 91 + pair[1]:013b}" if len(pair) == 2 else f"{pair[0]:06b}"
    return bytes(int(bits[start : start + 8], 2) for start in range(0, len(bits) // 8 * 8, 8))


def unpacked(packed: Packed) -> list[Any]:
    alphabet = np.frombuffer(bytes_of(packed.alphabet), dtype="<u2")
    single = single_bytes(len(alphabet))
    values = []
    for block in packed.blocks:
        data, units = iter(zlib.decompress(bytes_of(block))), []
        for byte in data:
            units.append(alphabet[byte if byte < single else single + (byte - single) * 256 + next(data)])
        values.append(json.loads(np.array(units, dtype="<u2").tobytes().decode("utf-16-le")))
    return values


@given(st.lists(st.lists(st.text(), max_size=3), min_size=1, max_size=4))
def test_what_is_packed_comes_back(values: list[list[str]]) -> None:
    assert unpacked(pack(values)) == values


@pytest.mark.parametrize("characters", [200, 255, 256, 257, 500, 8000, 55000])
def test_alphabets_of_every_size_come_back(characters: int) -> None:
    text = "".join(chr(0x20 + number) for number in range(characters))
    packed = pack([text, "\U0001f600 \u2028\x00"])
    assert unpacked(packed) == [text, "\U0001f600 \u2028\x00"]
    assert not set("".join([packed.alphabet, *packed.blocks])) & set("<>&\n\x00")


def test_every_rank_fits_its_bytes() -> None:
    for ranks in (1, 256, 257, 511, 512, 8416, 65535, 65536):
        single = single_bytes(ranks)
        assert 0 <= single <= 256
        assert ranks <= single + (256 - single) * 256


def test_chinese_takes_a_fifth_less_than_deflated_utf8_in_base64() -> None:
    draw = np.random.default_rng(0)
    text = "".join(map(chr, 0x4E00 + np.minimum(draw.zipf(1.2, 50_000), 3000)))
    ours = len(pack([text]).blocks[0])
    assert ours < 0.8 * len(zlib.compress(text.encode(), 9)) * 4 / 3
