"""The alternative annotator test as studies hold it; see `statistics.alt_test`."""

from pydantic import BaseModel, ConfigDict


class _Model(BaseModel):
    # Fields that a later version adds are ignored.
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class RaterComparison(_Model):
    """The judge against one physician, both compared with the remaining physicians; see `statistics.alt_test`."""

    rater: str
    n: int
    rho_judge: float | None
    rho_rater: float | None
    p_value: float | None
    adjusted_p: float | None
    won: bool | None


class AltTestResult(_Model):
    """The alternative annotator test over all physicians; see `statistics.alt_test`."""

    epsilon: float
    omega: float | None
    rho: float | None
    passed: bool | None
    why: str | None
    raters: list[RaterComparison]
