"""A cascade: a local judge first, an API judge for what it leaves open, people for the rest; what it did and cost."""

from pydantic import BaseModel, ConfigDict, ValidationError

from medjudge.errors import InputError
from medjudge.files import first_problem
from medjudge.store import Run


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class Stage(_Model):
    """One judge of a cascade: how many answers it judged, on how many of them it settled whether they are usable.

    `usd` is what all requests of the run to this judge's model cost: 0 of a local judge, None where the price is
    unknown.
    """

    judge: str
    judged: int
    settled: int
    seconds: float
    usd: float | None
    tokens_in: int = 0
    tokens_out: int = 0

    @property
    def line(self) -> str:
        """The stage in a few words."""
        cost = "price unknown" if self.usd is None else f"{self.usd:.4f} USD"
        tokens = f", {self.tokens_in:,} tokens in, {self.tokens_out:,} out, {cost}" if self.tokens_in else ""
        return f"{self.judge} settled {self.settled} of {self.judged} answers ({self.seconds:.0f} s{tokens})"


class CascadeRecord(_Model):
    """What a cascade did: `cascade` of its entry in `run.json`.

    `for_people` answers are listed in `file`; `asked_again` have no score because their request failed, and the same
    command asks again.
    """

    error_rate: float
    stages: list[Stage]
    for_people: int
    asked_again: int
    file: str

    @property
    def line(self) -> str:
        """All stages in one line."""
        again = f"; {self.asked_again} requests failed and are sent again" if self.asked_again else ""
        stages = "; ".join(stage.line for stage in self.stages)
        return f"Error rate {self.error_rate:g}: {stages}; {self.for_people} left to people ({self.file}){again}"


def read_cascade(run: Run, judge: str) -> CascadeRecord | None:
    """What the cascade of this name did in a run; None where no cascade has this name.

    Raises:
        InputError: The entry of `run.json` is not such a record.
    """
    recorded = run.manifest().get("judges", {}).get(judge, {}).get("cascade")
    if recorded is None:
        return None
    try:
        return CascadeRecord.model_validate(recorded)
    except ValidationError as error:
        raise InputError(
            f"{run.manifest_file}: judges.{judge}.cascade: {first_problem(error)}; run `medjudge eval --escalate-to` "
            "again"
        ) from None
