"""Bundles that are not what `medjudge pack` wrote: each is refused with one line and leaves nothing behind."""

import io
import json
import os
import shlex
import shutil
import tarfile
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from calls import dead_pid, files_of_at_most

from medjudge.bundle import MANIFEST, SUMS, About, unpack_bundle, write_bundle
from medjudge.errors import InputError
from medjudge.workflows.unpack import unpack

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
FILES = {"benchmark/questions.jsonl": b"{}\n", "judges/j/judge.json": b"x" * 1000, "judges/j/" + "l" * 150: b""}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    sources = {}
    for index, (name, content) in enumerate(FILES.items()):
        sources[name] = tmp_path / f"source-{index}"
        sources[name].write_bytes(content)
    write_bundle(tmp_path / "b.tar", sources, "0.1.0", ABOUT)
    return tmp_path / "b.tar"


def refused(archive: Path) -> str:
    """Unpacks in an empty folder and returns the message; nothing may be left there."""
    place = archive.parent / "place"
    place.mkdir(exist_ok=True)
    with pytest.raises(InputError) as error:
        unpack_bundle(archive, place / "kit")
    assert list(place.iterdir()) == []
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_bundle_comes_back_byte_for_byte_and_standard_tools_read_it(bundle: Path) -> None:
    sources = {name: bundle.parent / f"source-{index}" for index, name in enumerate(FILES)}
    for file in sources.values():
        os.utime(file, (1, 1))
    write_bundle(bundle.parent / "again.tar", sources, "0.1.0", ABOUT)
    assert (bundle.parent / "again.tar").read_bytes() == bundle.read_bytes()
    unpacked = unpack(bundle, bundle.parent / "kit")
    assert {path: (unpacked.folder / path).read_bytes() for path in FILES} == FILES
    with tarfile.open(bundle) as archive:
        assert archive.getnames() == [MANIFEST, SUMS, *sorted(FILES)]
    for line in (unpacked.folder / SUMS).read_text().splitlines():
        digest, name = line.split("  ")
        assert sha256((unpacked.folder / name).read_bytes()).hexdigest() == digest


def test_a_change_of_any_byte_is_refused_or_changes_no_file(bundle: Path) -> None:
    data, kit = bundle.read_bytes(), bundle.parent / "kit"
    # Every byte of headers, manifest and padding would take minutes; steps of a prime meet all of them in turn.
    for position in [*range(0, len(data), 97), len(data) - 1]:
        bundle.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        try:
            unpack_bundle(bundle, kit)
        except InputError:
            assert not kit.exists()
        else:  # a date or the padding
            assert {str(path.relative_to(kit)) for path in kit.rglob("*") if path.is_file()} == {MANIFEST, SUMS, *FILES}
            assert {path: (kit / path).read_bytes() for path in FILES} == FILES
            shutil.rmtree(kit)


def test_what_is_cut_off_lacks_a_file_claims_a_huge_size_or_is_no_bundle_is_refused(bundle: Path) -> None:
    data = bundle.read_bytes()
    with tarfile.open(bundle) as archive:
        end = archive.getmembers()[-1].offset_data
    for length in [0, 1, 511, 512, 700, end // 2, end - 1024, end - 512, end - 1]:
        bundle.write_bytes(data[:length])
        refused(bundle)
    bundle.write_bytes(data)
    rewritten(bundle, lambda members: members.pop(3))  # a missing file
    refused(bundle)
    os.mkfifo(bundle.with_name("pipe"))
    bundle.with_name("text").write_text("x" * 5000)
    for name in ("pipe", "text", "absent"):
        refused(bundle.with_name(name))
    header = tarfile.TarInfo(MANIFEST)
    header.size = 1 << 40
    bundle.write_bytes(header.tobuf(tarfile.GNU_FORMAT))
    assert "not a bundle" in refused(bundle)


def test_a_signature_of_an_earlier_version_is_put_into_place(bundle: Path) -> None:
    signature = tarfile.TarInfo(f"{MANIFEST}.minisig")

    def sign(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        sums, content = members[1]
        line, rest = content.split(b"\n", 1)
        content = line + f"\n{sha256(b'').hexdigest()}  {signature.name}\n".encode() + rest
        sums.size = len(content)
        members[1:2] = [(sums, content), (signature, b"")]

    rewritten(bundle, sign)
    assert unpack(bundle, bundle.parent / "kit").command
    assert (bundle.parent / "kit" / signature.name).is_file()


def rewritten(bundle: Path, change: Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]) -> None:
    """Writes the members of a bundle again, with the manifest that it had, after a change."""
    with tarfile.open(bundle) as archive:
        members = [(member, archive.extractfile(member).read()) for member in archive.getmembers()]  # type: ignore[union-attr]
    change(members)
    with tarfile.open(bundle, "w", format=tarfile.GNU_FORMAT) as archive:
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))


def test_a_sparse_file_larger_than_the_manifest_says_is_refused_before_it_fills_the_disk(bundle: Path) -> None:
    def sparse(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        members[2][0].type = tarfile.GNUTYPE_SPARSE

    rewritten(bundle, sparse)
    data = bytearray(bundle.read_bytes())
    with tarfile.open(bundle) as archive:
        header = archive.getmembers()[2].offset
    # No blocks with data, and the size of the whole: 4 GiB.
    data[header + 386 : header + 512] = bytes(97) + b"40000000000\0" + bytes(17)
    data[header + 148 : header + 156] = b" " * 8
    data[header + 148 : header + 156] = f"{sum(data[header : header + 512]):06o}\0 ".encode()
    bundle.write_bytes(data)
    with files_of_at_most(64 << 20):
        assert "was changed" in refused(bundle)


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info, b""


@pytest.mark.parametrize(
    "added",
    [
        member("judges/j/judge.json", tarfile.SYMTYPE, "/etc/passwd"),
        member("judges/j/judge.json", tarfile.LNKTYPE, "benchmark/questions.jsonl"),
        member("null", tarfile.CHRTYPE),
        member("disk", tarfile.BLKTYPE),
        member("pipe", tarfile.FIFOTYPE),
        member("judges", tarfile.DIRTYPE),
        member("/tmp/outside"),
        member("../outside"),
        member("judges/../../outside"),
        member("C:\\outside"),
        member("evil\x1b[2J\u202e"),
        member("benchmark/questions.jsonl"),
        member("manifest.json"),
        member("judges/j/sitecustomize.py"),
    ],
)
def test_a_member_that_the_manifest_does_not_have_is_named(bundle: Path, added) -> None:
    for position in (3, 5):  # in the middle, and behind the last file
        before = bundle.read_bytes()
        rewritten(bundle, lambda members, at=position: members.insert(at, added))
        message = refused(bundle)
        assert f"{added[0].name!a} is no plain file of the manifest, or is there twice" in message
        assert "\x1b" not in message
        bundle.write_bytes(before)


def test_what_a_killed_pack_or_unpack_left_is_removed_at_the_next_start(bundle: Path) -> None:
    dead = dead_pid()
    kit, other = (bundle.parent / f".kit.abcd.{pid}.part" for pid in (dead, os.getppid()))
    for folder in (kit, other):
        (folder / "judges").mkdir(parents=True)
    half = bundle.parent / f"again.tar.{dead}.part"
    half.write_bytes(b"half")
    unpack(bundle, bundle.parent / "kit")
    write_bundle(bundle.parent / "again.tar", {"a": bundle.parent / "source-0"}, "0.1.0", ABOUT)
    assert [path.exists() for path in (kit, half, other)] == [False, False, True]  # the other process lives


def self_consistent(archive: Path, paths: Sequence[str] = ("a",), twice: str = "", **fields: object) -> None:
    """A bundle whose manifest, sums and members agree, as an attacker writes them; `twice` is put before its judge."""
    manifest = {"format": 1, "medjudge": "0.1.0", "about": ABOUT.model_dump()}
    empty = sha256(b"").hexdigest()
    manifest["files"] = [{"path": path, "size": 0, "sha256": empty} for path in paths]
    data = json.dumps({**manifest, **fields}).replace('"judge": "j"', f'{twice}"judge": "j"').encode()
    sums = f"{sha256(data).hexdigest()}  {MANIFEST}\n" + "".join(f"{empty}  {path}\n" for path in paths)
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as out:
        for name, content in [(MANIFEST, data), (SUMS, sums.encode()), *((path, b"") for path in paths)]:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            out.addfile(info, io.BytesIO(content))


PATHS = [["../outside"], ["/tmp/outside"], ["a/./b"], ["a//b"], ["a\\b"], ["C:x"], ["a\nb"], [""], ["a/" * 11 + "b"]]
PATHS += [["a" * 501], ["a", "a"], ["a", "A"], ["\u00e9", "e\u0301"], ["a", "a/b"], ["Manifest.json"], [SUMS], []]
ABOUT_VALUES: dict[str, list[object]] = {
    "python": ["3.12; touch x", "3.12\n", "-c x"],
    "judge": ["../../../home/user/judge", "/etc", "a/b", "..", "-rf", "a\x1b[2J", ""],
    "kind": ["pickle"],
    "platforms": [["x; touch y"], ["x"] * 51],
    "base_model": ["a\u202eb"],
    "base_revision": ["x\n$ touch y"],
    "scheme": ["s\ntouch y"],
    "scheme_sha256": ["0"],
    "questions": [-1],
}
MANIFESTS: list[tuple[dict, str]] = [
    *(({"paths": paths}, MANIFEST) for paths in PATHS),
    ({"format": 2}, MANIFEST),
    ({"x": 1}, MANIFEST),
    ({"files": [{"path": "a", "size": -1, "sha256": "0" * 64}]}, MANIFEST),
    ({"files": [{"path": "a", "size": 1 << 49, "sha256": "0" * 64}]}, ""),  # reserves nothing
    ({"medjudge": "1; touch x"}, "medjudge: "),
    ({"twice": '"judge": "other", '}, "'judge' occurs twice"),  # some readers take the first of two values
    *(
        ({"about": ABOUT.model_dump() | {name: value}}, f"about.{name}")
        for name, all_ in ABOUT_VALUES.items()
        for value in all_
    ),
]


@pytest.mark.parametrize(("fields", "message"), MANIFESTS)
def test_a_manifest_that_no_pack_wrote_is_refused(tmp_path: Path, fields: dict[str, object], message: str) -> None:
    self_consistent(tmp_path / "b.tar", **fields)
    assert message in refused(tmp_path / "b.tar")


@pytest.mark.parametrize("name", ["-e", "a b; touch x", "$(touch x)", "it's"])
def test_a_shell_reads_the_printed_command_as_meant(bundle: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(bundle.parent)
    about = ABOUT.model_copy(update={"judge": "a b;c"})
    write_bundle(Path(f"{name}.tar"), {"judges/a b/judge.json": bundle}, "0.1.0", about)
    words = shlex.split(unpack(Path(f"{name}.tar")).command)
    place = f"./{name}" if name.startswith("-") else name
    assert words[0] == "medjudge"
    assert words[words.index("--judge") + 1] == f"{place}/judges/a b;c"


def test_an_existing_target_is_never_touched(bundle: Path) -> None:
    target = bundle.parent / "kit"
    target.symlink_to(bundle.parent / "nowhere")
    with pytest.raises(InputError, match="exists already"):
        unpack(bundle, target)
    assert not (bundle.parent / "nowhere").exists()
    for path, message in ((bundle, "exists already"), (bundle / "below-a-file.tar", "nothing was written")):
        with pytest.raises(InputError, match=message):
            write_bundle(path, {"a": bundle.parent / "source-0"}, "0.1.0", ABOUT)
