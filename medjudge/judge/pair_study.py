"""What a comparison of models by pairs found: the record in `pairs/JUDGE.json`.

`medjudge.validation.pair_study` fills it.
"""

from shlex import quote
from typing import Literal

from pydantic import BaseModel, ConfigDict

from medjudge.errors import InputError
from medjudge.files import first_problem, model_from_json, read_text
from medjudge.judge.pairs import comparison_file
from medjudge.statistics.estimates import Estimate
from medjudge.store import Run


class _Model(BaseModel):
    # Fields that a later version adds are ignored.
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class RankedModel(_Model):
    """A model's place: `strength` of Davidson's model (mean 0) and the share of pairs it is expected to win, ties half.

    `wins`, `ties` and `losses` count its pairs; where pairs come from distributions, the likeliest verdicts.
    """

    model: str
    strength: Estimate
    win_share: Estimate
    wins: int
    ties: int
    losses: int


class PairRanking(_Model):
    """The models, the strongest first. `tie` is the probability of a tie of two equally strong models.

    `length` is what a longer answer adds to a strength, where length is controlled for: strengths then hold for answers
    of equal length.
    """

    models: list[RankedModel]
    tie: Estimate
    length: Estimate | None


class SwapStudy(_Model):
    """What a change of the order changes: see `medjudge.statistics.verdicts.Swaps`; `disagreeing` pairs are ties."""

    pairs: int
    disagreeing: int
    consistency: Estimate
    shown_first: Estimate


class PairAgreement(_Model):
    """Agreement on pairs: see `medjudge.statistics.verdicts.VerdictAgreement`."""

    pairs: int
    questions: int
    agreement: Estimate
    kappa: Estimate
    decided: Estimate


class PointwisePairs(_Model):
    """The same pairs by the judge's scores of single answers, P(A > B) from the two distributions.

    `with_pairs` is the agreement of both ways; `difference` is the mean distance of A's share of the win, ties half,
    0 to 1. `other_order` lists two models each that the two ways rank in opposite orders.
    """

    ranking: PairRanking
    with_pairs: PairAgreement
    difference: Estimate
    other_order: list[tuple[str, str]]


class PhysicianPairStudy(_Model):
    """The judge's pairs against physicians'. The verdict of several raters is that of more than half, else a tie.

    `among` is the agreement of two raters on the same pair; None where no pair has two. `constructed` says that no
    physician compared these answers.
    """

    raters: list[str]
    constructed: bool
    judge: PairAgreement
    pointwise: PairAgreement | None
    among: PairAgreement | None


class PairStudy(_Model):
    """A comparison. `how`: the judge compared the answers itself, or its scores of single answers stand for pairs.

    `pairs` counts the pairs that were looked at, `possible` all of these models; `unjudged` has the reasons.
    `answer_tokens_cut` counts judgments that did not see a whole answer.
    """

    schema_version: Literal[1] = 1
    judge: str
    how: Literal["pairs", "pointwise"]
    compared: list[str]
    possible: int
    pairs: int
    judged: int
    unjudged: dict[str, int]
    shortened: int
    questions: int
    conversations: int
    interval: str
    length_controlled: bool
    ranking: PairRanking
    swaps: SwapStudy | None
    pointwise: PointwisePairs | None
    physicians: PhysicianPairStudy | None


def read_pair_study(run: Run, judge: str) -> PairStudy | None:
    """The comparison that `medjudge compare` wrote into a run; None where there is none.

    Raises:
        InputError: The file is not a comparison of this version.
    """
    file = comparison_file(run, judge)
    if not file.exists():
        return None
    try:
        return model_from_json(PairStudy, read_text(file))
    except ValueError as error:
        raise InputError(
            f"{file}: {first_problem(error)}; run "
            f"`medjudge compare {quote(str(run.path))} --judge {quote(judge)}` again"
        ) from None
