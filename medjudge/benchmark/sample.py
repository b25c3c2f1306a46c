"""The bundled sample: written by this project, not by physicians."""

from pathlib import Path

NOTICE = (
    "The sample's questions, answers and constructed levels were written for this project. "
    "No physician wrote or checked them."
)


def sample_folder() -> Path:
    """The folder with the sample's `questions.jsonl`, `answers.jsonl` and `physician_scores.jsonl`.

    The scores in it are the levels that the answers were constructed to deserve; their rater is `constructed`.
    """
    return Path(__file__).parents[1] / "data" / "sample"
