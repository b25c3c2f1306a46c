"""A run folder from somebody else: no link in it leads a write elsewhere, and its files are private."""

import os
import stat
from pathlib import Path

import pytest
from calls import files_of_at_most, refused_with

from medjudge.annotate.add_scores import add_records
from medjudge.errors import InputError
from medjudge.files import appending, write_whole
from medjudge.records import Answer
from medjudge.store import Run, append_lines, read_records

PRECIOUS = "precious\n{half a line"


LINKS = [".pid", ".lock", "run.json", "answers.jsonl", "spending.jsonl", "physician_scores.jsonl"]
LINKS += ["judgments/x.jsonl", "agreement/x.json", "annotation/scores.lock", "judgments", "agreement", "annotation"]


@pytest.mark.parametrize("name", LINKS)
def test_a_link_is_refused_by_name_and_what_it_leads_to_stays(tmp_path: Path, medjudge, sample_run, name: str) -> None:
    target = tmp_path / "elsewhere" / "x.jsonl"
    target.parent.mkdir()
    target.write_text(PRECIOUS)
    link = sample_run / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(target if "." in name else target.parent)
    with pytest.raises(InputError, match="is a link") as caught, Run(sample_run).lock():
        pass
    assert str(link) in str(caught.value)
    refused_with(medjudge("report", sample_run), str(link))
    assert [file.read_text() for file in target.parent.iterdir()] == [PRECIOUS]
    assert link.is_symlink()


def test_a_link_that_appears_later_is_not_appended_to(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text(PRECIOUS)
    run = Run(tmp_path / "run")
    with run.lock():
        run.answers_file.symlink_to(target)
        with pytest.raises(OSError, match="symbolic links"):
            run.append(run.answers_file, "{}")
    with pytest.raises(OSError, match="symbolic links"):
        append_lines(run.answers_file, "{}\n")
    assert target.read_text() == PRECIOUS


def test_the_run_folder_itself_and_records_outside_of_it_may_be_links(tmp_path: Path, jsonl, answer) -> None:
    jsonl("real.jsonl", answer().model_dump())
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real.jsonl")
    assert len(read_records(tmp_path / "link.jsonl", Answer)) == 1
    (tmp_path / "large-disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "large-disk")
    run = Run(tmp_path / "run")
    with run.lock():
        run.append(run.answers_file, "{}")
    assert (tmp_path / "large-disk" / "answers.jsonl").read_text() == "{}\n"


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_can_read_scores_and_answers(tmp_path: Path, question, answer, physician_score) -> None:
    before = os.umask(0o022)
    try:
        run = Run(tmp_path / "runs" / "mine")
        with run.lock():
            run.write_questions([question()], run.scheme())
            run.append(run.answers_file, answer().model_dump_json())
            run.append(run.judgments_file("j"), "{}")
            run.update_manifest(id="x")
        append_lines(run.physicians_file, physician_score().model_dump_json())
        write_whole(run.agreement_file("j"), "{}")
    finally:
        os.umask(before)
    entries = [run.path, *run.path.rglob("*")]
    assert {_mode(entry) for entry in entries if entry.is_dir()} == {0o700}
    assert {_mode(entry) for entry in entries if entry.is_file()} == {0o600}
    assert run.physicians_file in entries
    run.manifest_file.chmod(0o644)  # the owner's choice holds
    run.update_manifest(id="y")
    assert _mode(run.manifest_file) == 0o644
    run.physicians_file.chmod(0o664)
    add_records(run, [physician_score(question_id=question().id, rater="another")])
    assert _mode(run.physicians_file) == 0o660  # a group that was let in stays, all others do not


def test_a_full_disk_leaves_the_old_file_and_no_half_line(tmp_path: Path) -> None:
    path, lines, empty, new = (tmp_path / name for name in ("scores.json", "answers.jsonl", "empty", "new"))
    write_whole(path, "old")
    empty.touch()
    append_lines(lines, "{}\n")
    with files_of_at_most(100), pytest.raises(OSError, match="too large") as caught:
        write_whole(path, "x" * 1000)
    assert caught.value.filename == str(path)
    with files_of_at_most(100), pytest.raises(OSError, match="too large") as caught, appending(lines) as out:
        out.write(b"x" * 1000)
    assert caught.value.filename == str(lines)
    for file in (empty, new):
        with files_of_at_most(0), pytest.raises(OSError, match="too large") as caught:
            append_lines(file, "a score\n")
        assert caught.value.filename == str(file)
    assert (path.read_text(), lines.read_text()) == ("old", "{}\n")
    assert sorted(tmp_path.iterdir()) == [lines, empty, path]  # no temporary file, no new one
    with pytest.raises(InputError, match="character 2 is a lone surrogate"):
        write_whole(path, "ab\udcff")
    assert path.read_text() == "old"
