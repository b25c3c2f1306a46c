"""A panel: judges whose verdicts are combined."""

from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from medjudge.errors import InputError
from medjudge.files import first_problem, read_yaml
from medjudge.statistics.estimates import Record
from medjudge.store import Run

PREFIX = "panel:"
_YAML = (".yaml", ".yml")
Rule = Literal["mean", "median"]


class PanelSettings(BaseModel):
    """A panel as `panel:FILE.yaml` describes it; `panel:a,b,c` has the defaults.

    `at_least` is the number of members that must score an answer, or it is unscored; half of them unless given.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    members: list[str] = Field(min_length=2)
    combine: Rule = "mean"
    at_least: int | None = Field(default=None, ge=1)

    @property
    def fewest(self) -> int:
        """The number of members that must score an answer."""
        return self.at_least or (len(self.members) + 1) // 2


def combined(probabilities: np.ndarray, rule: Rule = "mean") -> np.ndarray:
    """The panel's probabilities of the levels.

    `mean` is the linear opinion pool (Stone, 1961). `median` takes at each level k the median of the members'
    P(level > k), which stays a distribution because each member's P(level > k) falls in k.

    Args:
        probabilities: Shape (n, members, levels), NaN rows where a member did not score.

    Returns:
        Shape (n, levels); NaN where no member scored.
    """
    pooled = np.full((len(probabilities), probabilities.shape[2]), np.nan)
    scored = np.isfinite(probabilities).all(axis=2).any(axis=1)
    if rule == "mean":
        pooled[scored] = np.nanmean(probabilities[scored], axis=1)
        return pooled
    above = np.nanmedian(1 - np.cumsum(probabilities[scored], axis=2)[:, :, :-1], axis=1)
    edge = np.ones((len(above), 1))
    pooled[scored] = -np.diff(np.concatenate([edge, above, 0 * edge], axis=1), axis=1)
    return pooled


class NamedPanel(NamedTuple):
    """A panel's settings, its name, and where the settings stand, for messages."""

    name: str | None
    settings: PanelSettings
    place: str


def is_panel(spec: str) -> bool:
    """True if an argument of `--judge` names a panel."""
    return spec.startswith(PREFIX)


def read_panel(spec: str) -> NamedPanel:
    """Reads `panel:a,b,c`, which has no name of its own, or `panel:FILE.yaml`, which has that of the file.

    Raises:
        InputError: There are fewer than two members, or the file is missing or holds an unknown or wrong entry.
    """
    text = spec.removeprefix(PREFIX).strip()
    if text.endswith(_YAML):
        return _read_file(Path(text))
    members = [member.strip() for member in text.split(",") if member.strip()]
    if len(members) < 2:
        raise InputError(
            f"--judge {spec}: a panel has two members or more; write, for example, panel:built-in,similarity"
        )
    return NamedPanel(None, PanelSettings(members=members), f"--judge {spec}")


def _read_file(path: Path) -> NamedPanel:
    if not path.is_file():
        raise InputError(f"--judge {PREFIX}{path}: no such file")
    fields = read_yaml(path)
    known = list(PanelSettings.model_fields)
    if not isinstance(fields, dict):
        raise InputError(f"{path}: a mapping is expected, such as `members: [built-in, similarity]`")
    for name in fields:
        if name not in known:
            raise InputError(f"{path}: {name}: no such entry; the entries are {', '.join(known)}")
    try:
        settings = PanelSettings.model_validate(fields)
    except ValidationError as error:
        raise InputError(f"{path}: {first_problem(error)}") from None
    if settings.at_least is not None and settings.at_least > len(settings.members):
        raise InputError(
            f"{path}: at_least: is {settings.at_least}, and the panel has {len(settings.members)} members; give a "
            "number up to that"
        )
    return NamedPanel(path.stem, settings, str(path))


class MemberRecord(Record):
    """A member's work in a run: the answers judged, those on which it was left out by reason, its time and cost.

    `waiting` answers are not judged by it yet: the same command goes on with them. `usd` is what all requests of the
    run to this member's model cost: 0 of a local judge, None where the price is unknown or where only its judgments are
    known.
    """

    judge: str
    judged: int
    waiting: int
    left_out: dict[str, int]
    seconds: float
    usd: float | None

    @property
    def line(self) -> str:
        """The member in a few words."""
        reasons = ", ".join(f"{number} {reason}" for reason, number in self.left_out.items())
        missed = f", left out of {sum(self.left_out.values())} ({reasons})" if reasons else ""
        cost = "cost unknown" if self.usd is None else f"{self.usd:.4f} USD"
        return f"{self.judge}: {self.judged} answers{missed}, {cost}"


class PanelRecord(Record):
    """A panel's work: `panel` of its entry in `run.json`. `too_few` answers were scored by fewer than `at_least`."""

    combine: str
    at_least: int
    members: list[MemberRecord]
    too_few: int


def read_panel_record(run: Run, judge: str) -> PanelRecord | None:
    """The work of the panel of this name in a run; None where no panel has this name.

    Raises:
        InputError: The entry of `run.json` is not such a record.
    """
    recorded: Any = run.manifest().get("judges", {}).get(judge, {}).get("panel")
    try:
        return None if recorded is None else PanelRecord.model_validate(recorded)
    except ValidationError as error:
        place = f"{run.manifest_file}: judges.{judge}.panel"
        raise InputError(f"{place}: {first_problem(error)}; run `medjudge eval` again") from None
