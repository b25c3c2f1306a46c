import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from medjudge.judge.folder import load_judge
from medjudge.judge.open import SIMILARITY
from medjudge.judge.protocol import assignments
from medjudge.judge.similarity import CutPoints, SentenceEncoder, SimilarityJudge, fit_cut_points
from medjudge.models.loading import load_encoder, load_tokenizer
from medjudge.records import ErrorKind
from medjudge.store import Run


def test_fitted_cut_points_recover_the_ones_that_made_the_data() -> None:
    generator = np.random.default_rng(0)
    true = CutPoints(8.0, (3.0, 4.0, 5.5, 6.5))
    cosines = generator.uniform(0, 1, 4000)
    levels = np.array([generator.choice(5, p=row) + 1 for row in true.probabilities(cosines)])
    fitted = fit_cut_points(cosines, levels)
    assert fitted.slope == pytest.approx(8, rel=0.1)
    assert np.array(fitted.cuts) == pytest.approx(np.array(true.cuts), rel=0.15)


def test_a_level_that_never_occurs_and_one_level_only() -> None:
    fitted = fit_cut_points(np.array([0.1, 0.2, 0.8, 0.9] * 5), np.array([1, 1, 5, 5] * 5))
    rows = fitted.probabilities(np.array([0.0, 1.0]))
    assert rows[0, 0] > 0.5
    assert rows[1, 4] > 0.5
    assert np.isfinite(fit_cut_points(np.array([0.1, 0.9]), np.array([3, 3])).cuts).all()


def test_the_reference_itself_scores_highest_and_no_reference_is_unscored(tiny_encoder, assignment) -> None:
    encoder = SentenceEncoder(load_encoder(str(tiny_encoder)).eval(), load_tokenizer(str(tiny_encoder)), 256)
    judge = SimilarityJudge("s", encoder, CutPoints(20, (5, 10, 15, 19)))
    texts = ["At most 4 g a day for an adult.", "Take ten with wine.", "Four grams."]
    work = [assignment(text, id=f"q{n}") for n, text in enumerate(texts)] + [assignment(id="none", reference=None)]
    judgment_of = {judgment.question_id: judgment for judgment in judge.judge(work)}
    assert judgment_of["q0"].score == 5
    assert judgment_of["q0"].expected > max(judgment_of[name].expected for name in ("q1", "q2"))
    assert (judgment_of["none"].score, judgment_of["none"].error_kind) == (None, ErrorKind.NO_REFERENCE)
    assert "no reference" in judgment_of["none"].error


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_packaged_judge_ranks_the_samples_answers(language: str, sample_run) -> None:
    run = Run(sample_run)
    level = {score.answer_key: score.level for score in run.physician_scores()}
    work = [each for each in assignments(run.questions(), run.answers()) if each.question.language == language][:60]
    judged = load_judge(SIMILARITY, "s", torch.device("cpu")).judge(work)
    score = {judgment.answer_key: judgment.expected for judgment in judged}
    assert spearmanr([score[each.answer.key] for each in work], [level[each.answer.key] for each in work])[0] > 0.3
