"""Fits the cut points of a `similarity` judge: the baseline of every trained judge."""

from pathlib import Path

import numpy as np

from medjudge.errors import InputError
from medjudge.files import file_sha256
from medjudge.judge.card import write_readme
from medjudge.judge.folder import JudgeCard, TrainedOn
from medjudge.judge.protocol import Assignment
from medjudge.judge.similarity import MAX_LENGTH, cosines_to_reference, fit_cut_points
from medjudge.models.loading import load_encoder, load_tokenizer
from medjudge.models.packaged import MINILM
from medjudge.records import TrainingLine


def fit_similarity_judge(lines: list[TrainingLine], source: Path, folder: Path, note: str | None = None) -> Path:
    """Fits cut points on scored answers and writes a judge folder of kind `similarity`.

    Args:
        lines: Training lines; those without a reference are left out.
        source: The file that they came from, for the card.
        folder: The judge folder to write.
        note: A sentence for the card.

    Raises:
        InputError: Fewer than ten answers have a reference.
    """
    usable = [line for line in lines if line.question.reference]
    if len(usable) < 10:
        raise InputError(f"{source}: {len(usable)} answers have a reference to compare with; at least 10 are needed")
    model, tokenizer = load_encoder(MINILM).eval(), load_tokenizer(MINILM)
    work = [Assignment(line.question, tuple(line.earlier), line.answer) for line in usable]
    cosines, _ = cosines_to_reference(model, tokenizer, work)
    fitted = fit_cut_points(cosines, np.array([line.level for line in usable]))
    card = JudgeCard(
        kind="similarity",
        base_model=MINILM,
        max_length=MAX_LENGTH,
        slope=round(fitted.slope, 6),
        cuts=tuple(round(cut, 6) for cut in fitted.cuts),
        trained_on=TrainedOn(
            files={source.name: file_sha256(source)}, question_ids=sorted({line.question.id for line in usable})
        ),
        training={
            "answers": len(usable),
            "languages": sorted({line.question.language for line in usable}),
            "categories": sorted({line.question.category for line in usable}),
            "sources": sorted({line.source for line in usable}),
        },
        note=note,
    )
    write_readme(folder, card)
    card.write(folder)
    return folder
