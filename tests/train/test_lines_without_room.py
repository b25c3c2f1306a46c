"""A question whose reference fills the judge's window: its lines are dropped and named, and training goes on."""

from pathlib import Path

import pytest
from recipe_runs import write_lines
from train_judge import main as train_judge

from medjudge.errors import InputError
from medjudge.judge.folder import read_card
from medjudge.records import TrainingLine
from medjudge.train.arguments import parse_arguments
from medjudge.train.features import read_training_lines


def lengthen(file: Path, question_ids: set[str]) -> None:
    def longer(line: TrainingLine) -> TrainingLine:
        question = line.question.model_copy(update={"reference": "gave 5 mg of it " * 600})
        return line.model_copy(update={"question": question}) if line.question.id in question_ids else line

    write_lines(file, [longer(line) for line in read_training_lines(file)])


def test_lines_without_room_are_named_and_dropped(training_files, recipe, tiny_lm, tmp_path, capsys) -> None:
    train = read_training_lines(training_files[0])
    left_out = train[0].question.id
    lengthen(training_files[0], {left_out})
    arguments = recipe("generative", tiny_lm, max_steps=1, eval_strategy="no", save_strategy="no", use_cpu=True)
    folder = train_judge(*parse_arguments(arguments))
    kept = [line for line in train if line.question.id != left_out]
    said = capsys.readouterr().err
    assert f"{len(train) - len(kept)} of {len(train)} lines dropped" in said
    assert f"({left_out})" in said
    card = read_card(folder)
    assert card.training["answers"] == len(kept)
    assert left_out not in card.trained_on.question_ids


def test_a_file_without_any_line_with_room_is_refused(training_files, recipe, tiny_lm, tmp_path) -> None:
    lengthen(training_files[1], {line.question.id for line in read_training_lines(training_files[1])})
    with pytest.raises(InputError, match=r"validation\.jsonl: in all \d+ lines, .*; raise max_length in the config"):
        train_judge(*parse_arguments(recipe("generative", tiny_lm, use_cpu=True)))
    assert not (tmp_path / "judges" / "generative").exists()
