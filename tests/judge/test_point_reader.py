"""The reader of points on a tiny encoder: what it learns, how it is saved, and what a judge makes of its verdicts."""

from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from reader_points import changes_of
from safetensors.torch import load_file, save_file
from test_reader_judge import assignment, question

from medjudge.errors import InputError
from medjudge.judge.comparison import Reading
from medjudge.judge.evidence import Part, evidence_of
from medjudge.judge.folder import load_judge
from medjudge.judge.point_reader import MOST_ANSWER_TOKENS, POINTS_FILE, PointReader, nearest
from medjudge.judge.points import Span
from medjudge.judge.reader import collate, verdict_numbers
from medjudge.judge.reader_judge import ReaderJudge
from medjudge.judge.states import LAYERS, FrozenEncoder
from medjudge.models.loading import load_encoder
from medjudge.train.reader import Lesson, Schedule, train_point_reader

CPU = torch.device("cpu")
TOLD_APART = ["aspirin", "fever", "cough", "liver", "kidney", "asthma", "insulin", "stroke"]
NEW = ["rash", "ulcer", "anemia", "gout"]


def adapted(base: Path, width: int) -> PointReader:
    """A reader of points with a new adapter on its layers."""
    config = LoraConfig(
        r=4, lora_alpha=8, target_modules=["query", "key", "value", "dense"], task_type="FEATURE_EXTRACTION"
    )
    return PointReader(get_peft_model(load_encoder(str(base)), config), width)


def readings_of(encoder: FrozenEncoder, texts: list[str]) -> list[Reading]:
    """Answers beside a question and a reference of two points."""
    asked, reference = encoder.read(["How is it treated?", "Take 500 mg. Rest."])
    parts = [Part(0, asked, [Span(0, 18)]), Part(1, reference, [Span(0, 12), Span(13, 18)])]
    return [
        Reading((asked, reference, None), answer, [piece for part in parts for piece in evidence_of(part, answer)])
        for answer in encoder.read(texts)
    ]


def lessons_of(encoder: FrozenEncoder, names: list[str]) -> list[Lesson]:
    """Of each name, a passage about it and one about another."""
    made = []
    for at, name in enumerate(names):
        other = names[(at + 3) % len(names)]
        for passage, verdict in ((f"This text is about {name} and no more.", 0), (f"Here {other} is named.", 1)):
            point, answer = encoder.read([f"It names {name}.", passage])
            evidence = evidence_of(Part(1, point, [Span(0, 99)]), answer)
            made.append(Lesson(Reading((None, point, None), answer, evidence), None, [verdict] * len(evidence)))
    return made


@pytest.fixture
def trained(reader_base: Path, reader_encoder: FrozenEncoder) -> PointReader:
    torch.manual_seed(0)
    reader = adapted(reader_base, reader_encoder.width)
    lessons = {"all": lessons_of(reader_encoder, TOLD_APART)}
    list(train_point_reader(reader, lessons, {"all": 1.0}, Schedule(60, 2e-3, 16), seed=0))
    return reader


def test_training_tells_points_about_new_matters_apart(reader_encoder: FrozenEncoder, trained: PointReader) -> None:
    held_out = lessons_of(reader_encoder, NEW)
    said = trained(collate([lesson.reading for lesson in held_out])).argmax(dim=1).numpy()
    assert np.mean(said == np.array([lesson.verdicts[0] for lesson in held_out])) >= 0.75


def test_training_leaves_the_encoder_as_it_is(reader_base: Path, trained: PointReader) -> None:
    published = load_encoder(str(reader_base)).state_dict()
    for name, value in trained.layers.state_dict().items():
        if "base_layer" in name:
            layer, rest = name.replace("base_layer.", "").split(".", 1)
            assert value.equal(published[f"encoder.layer.{LAYERS[0] + int(layer)}.{rest}"])


def test_a_batch_gives_each_piece_what_it_gets_alone(reader_encoder: FrozenEncoder, trained: PointReader) -> None:
    readings = readings_of(reader_encoder, ["Rest and drink. Take 500 mg.", "No.", "Take 500 mg twice and rest " * 9])
    together = trained(collate(readings))
    for at, reading in enumerate(readings):
        alone = trained(collate([reading]))
        assert torch.allclose(alone, together[3 * at : 3 * at + 3], atol=1e-4)
        of_layers = trained.read(collate([reading]))
        assert of_layers[0].eq(0).all()  # the question is no point
        assert of_layers[1:].ne(0).all()


def test_what_is_saved_reads_as_the_trained_adapter_did(
    reader_base: Path, reader_encoder: FrozenEncoder, trained: PointReader, tmp_path: Path
) -> None:
    batch = collate(readings_of(reader_encoder, ["Rest and drink water. Take 500 mg.", "Do not rest."]))
    trained.save(tmp_path, changes_of(trained))
    loaded = PointReader.load(tmp_path, load_encoder(str(reader_base)), reader_encoder.width)
    assert torch.allclose(loaded(batch), trained(batch), atol=2e-2)
    plain = PointReader(load_encoder(str(reader_base)), reader_encoder.width)
    plain.load_state_dict({k: v for k, v in loaded.state_dict().items() if not k.startswith("layers.")}, strict=False)
    assert not torch.allclose(plain(batch), trained(batch), atol=2e-2)


def test_only_the_nearest_tokens_of_an_answer_are_read_in_their_order() -> None:
    count = MOST_ANSWER_TOKENS + 20
    side = torch.tensor([[1, 1, *[2] * count], [1, *[2] * 3, *[0] * (count - 2)]])
    match = torch.zeros(side.shape)
    match[0, 2:12] = 0.9  # the beginning, and
    match[0, 40:60] = 0.95  # a stretch behind
    match[1, 1:4] = 0.9
    index, own, gap = nearest(side, match, torch.zeros(side.shape, dtype=torch.long))
    assert index[0].tolist() == sorted(index[0].tolist())
    assert (own[0] == 2).sum() == MOST_ANSWER_TOKENS
    assert {0, 1, 2, 45, 50} <= set(index[0].tolist())
    first_behind = next(at for at, row in enumerate(index[0].tolist()) if row > 30)
    assert gap[0].nonzero().flatten().tolist() == [first_behind]
    assert own[1].tolist() == [1, 2, 2, 2, *[0] * (len(own[1]) - 4)]
    assert not gap[1].any()


def test_the_numbers_of_an_answer_come_from_its_points_and_are_zero_where_it_has_none(
    reader_encoder: FrozenEncoder, trained: PointReader
) -> None:
    compared, other = readings_of(reader_encoder, ["Rest and drink water. Take 500 mg.", "Do not rest."])
    alone = Reading((other.parts[0], None, None), other.answer, [other.evidence[0]])
    batch = collate([compared, alone])
    with torch.inference_mode():
        logits = trained(batch)
        numbers = verdict_numbers(logits, batch)
    chances = torch.softmax(logits[1:3], dim=1)  # the first piece is the question
    expected = torch.cat([chances.amax(dim=0), chances.amin(dim=0), chances.mean(dim=0)])
    assert torch.allclose(numbers[0], expected)
    assert numbers[1].eq(0).all()


def test_a_judge_takes_its_verdicts_from_the_reader_of_points_and_weighs_them(
    reader_folder: Path, trained: PointReader
) -> None:
    asked = question("It names gout. It names asthma.")
    (before,) = load_judge(reader_folder, "tiny", CPU).judge([assignment("This text is about gout.", asked)])
    trained.save(reader_folder, changes_of(trained))
    judge = load_judge(reader_folder, "tiny", CPU)
    assert isinstance(judge, ReaderJudge)
    (after,) = judge.judge([assignment("This text is about gout.", asked)])
    assert [point.met for point in after.points] != [point.met for point in before.points]
    assert after.expected != before.expected


def test_a_file_that_does_not_fit_is_refused(reader_folder: Path, trained: PointReader) -> None:
    trained.save(reader_folder, changes_of(trained))
    tensors = load_file(reader_folder / POINTS_FILE)
    some = next(name for name in tensors if name.endswith(".down"))
    damaged = [
        {name: value for name, value in tensors.items() if name != "verdict.bias"},
        {name: value for name, value in tensors.items() if name != some},
        tensors | {some: tensors[some][:, :-1].contiguous()},
        tensors | {"verdict.bias": torch.full_like(tensors["verdict.bias"], torch.nan)},
        tensors | {"more": tensors["verdict.bias"].clone()},
    ]
    for content in damaged:
        save_file(content, reader_folder / POINTS_FILE)
        with pytest.raises(InputError, match=POINTS_FILE):
            load_judge(reader_folder, "tiny", CPU)
