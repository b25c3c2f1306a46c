"""Packed files are read within limits; what is damaged is refused in one line."""

import gzip
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from medjudge.benchmark import packed
from medjudge.benchmark.packed import files_in, read_list, read_unpacked, read_zip
from medjudge.errors import InputError


@pytest.mark.parametrize(
    ("content", "end", "message"),
    [
        (b"[1, 2, 3]" * 99, -9, "not valid gzip"),
        (b"\xff\xfe", None, "not UTF-8"),
        (b"[1,", None, "not valid JSON"),
        (b"{}", None, "a list of objects is expected"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes, end: int | None, message: str) -> None:
    file = tmp_path / "a.json.gz"
    file.write_bytes(gzip.compress(content)[:end])
    with pytest.raises(InputError, match=rf"a\.json\.gz: {message}"):
        read_list(file)
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.json\.gz: not valid gzip"):
        read_list(file)


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "LARGEST_DOCUMENT", 1000)
    bomb, archive = tmp_path / "a.json.gz", tmp_path / "a.zip"
    bomb.write_bytes(gzip.compress(b" " * 1001))
    with pytest.raises(InputError, match="which is the limit"):
        read_unpacked(bomb)
    bomb.write_bytes(gzip.compress(b" " * 1000))
    assert len(read_unpacked(bomb)) == 1000
    with ZipFile(archive, "w", ZIP_DEFLATED) as opened:
        opened.writestr("a.txt", " " * 600)
        opened.writestr("b.txt", " " * 600)
    assert list(read_zip(archive, "a.txt")) == ["a.txt"]
    with pytest.raises(InputError, match=r"a\.zip, b\.txt: more than .* unpacked, which is the limit"):
        read_zip(archive, ".txt")


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with ZipFile(archive, "w", ZIP_DEFLATED) as opened:
        opened.writestr("set/a.txt", "set/a.txt")
    data = archive.read_bytes()
    at = data.index(b"set/a.txt") + len(b"set/a.txt")
    for damaged in (data[: at + 2] + b"\xff" + data[at + 3 :], b"PK"):
        archive.write_bytes(damaged)
        with pytest.raises(InputError, match=r"a\.zip: not a readable zip archive"):
            read_zip(archive, ".txt")


def test_a_folder_stands_for_its_files(tmp_path: Path) -> None:
    for name in ("b.json", "a.json.gz", "c.txt"):
        (tmp_path / name).write_text("[1]")
    found = files_in([tmp_path], ".json", ".json.gz")
    assert [file.name for file in found] == ["a.json.gz", "b.json"]
    with pytest.raises(InputError, match=r"no file in it that ends in \.xml"):
        files_in([tmp_path], ".xml")
    (tmp_path / "b.json.gz").write_text("[1]")
    with pytest.raises(InputError, match=r"b\.json\.gz: has the name of .*b\.json; name each file once"):
        files_in([tmp_path], ".json", ".json.gz")
