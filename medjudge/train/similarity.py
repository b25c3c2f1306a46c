"""Fits the cut points of a `similarity` judge: the baseline of every trained judge."""

from pathlib import Path

import numpy as np

from medjudge.errors import InputError
from medjudge.files import file_sha256
from medjudge.judge.card import write_readme
from medjudge.judge.folder import JudgeCard, TrainedOn
from medjudge.judge.protocol import Assignment
from medjudge.judge.similarity import SentenceEncoder, cosines_to_reference, fit_cut_points
from medjudge.models.loading import load_encoder, load_tokenizer, located, window
from medjudge.models.packaged import MULTILINGUAL_E5, source_of
from medjudge.records import TrainingLine

_PREFIX = "query: "
"""Before both of two texts that are compared with each other (the model card of multilingual-e5-small)."""


def fit_similarity_judge(lines: list[TrainingLine], source: Path, folder: Path, note: str | None = None) -> Path:
    """Fits cut points on scored answers and writes a judge folder of kind `similarity`.

    Args:
        lines: Training lines; those without a reference are left out.

    Raises:
        InputError: Fewer than ten answers have a reference.
    """
    usable = [line for line in lines if line.question.reference]
    if len(usable) < 10:
        raise InputError(f"{source}: {len(usable)} answers have a reference to compare with; at least 10 are needed")
    encoder = SentenceEncoder(
        load_encoder(MULTILINGUAL_E5).eval(), load_tokenizer(MULTILINGUAL_E5), window(MULTILINGUAL_E5), _PREFIX
    )
    work = [Assignment(line.question, tuple(line.earlier), line.answer) for line in usable]
    cosines, _ = cosines_to_reference(encoder, work)
    # This encoder's cosines lie close together: the ridge on the slope expects a spread of about 1.
    mean, spread = float(cosines.mean()), float(cosines.std())
    fitted = fit_cut_points((cosines - mean) / spread, np.array([line.level for line in usable]))
    slope = fitted.slope / spread
    card = JudgeCard(
        kind="similarity",
        base_model=MULTILINGUAL_E5,
        base_source=source_of(Path(located(MULTILINGUAL_E5))),
        max_length=encoder.max_length,
        text_prefix=encoder.prefix,
        slope=round(slope, 6),
        cuts=tuple(round(cut + slope * mean, 6) for cut in fitted.cuts),
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
