"""The part of a training config that TRL's ModelConfig and SFTConfig do not cover."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from medjudge.judge.open import built_in_folder

TrainableKind = Literal["ordinal", "generative"]
TrainableStyle = Literal["score-first", "brief"]
TRAINABLE_STYLES: tuple[TrainableStyle, ...] = get_args(TrainableStyle)


@dataclass
class JudgeArguments:
    """Kind, data and losses of a judge; model and trainer options are TRL's ModelConfig and SFTConfig."""

    kind: TrainableKind = field(metadata={"help": "cumulative-link head, or score token of a causal LM"})
    train_file: str = field(metadata={"help": "train.jsonl of medjudge distill"})
    validation_file: str = field(metadata={"help": "validation.jsonl of medjudge distill"})
    resume: bool = field(default=False, metadata={"help": "continue from the last checkpoint"})
    save_minutes: float = field(
        default=10.0,
        metadata={"help": "minutes between checkpoints, in addition to save_strategy; 0 for none"},
    )
    start_from: str | None = field(default=None, metadata={"help": "judge folder to continue from, or built-in"})
    windows: int = field(
        default=4,
        metadata={"help": "of an ordinal judge: most stretches of an answer that it reads, each within max_length"},
    )
    points_weight: float = field(
        default=1.0, metadata={"help": "of an ordinal judge: weight of the cross-entropy of verdicts on points"}
    )
    only_languages: list[str] | None = field(
        default=None, metadata={"help": "of an ordinal judge: it leaves texts in other languages unscored"}
    )
    style: TrainableStyle = field(
        default="score-first",
        metadata={"help": "of a generative judge: score first, or brief (score first, without the rubric)"},
    )
    share_prefixes: bool = field(
        default=False,
        metadata={"help": "of a generative judge: packs hold once what their lines begin with; with packing"},
    )
    pack_length: int | None = field(
        default=None,
        metadata={"help": "of a generative judge: tokens of packs with shared prefixes that mix questions"},
    )
    upper_layers: int | None = field(
        default=None, metadata={"help": "how many of the base model's last layers are trained; all by default"}
    )
    score_loss_weight: float = field(
        default=1.0, metadata={"help": "of a generative judge: weight of the cross-entropy over the five levels"}
    )
    regression_weight: float = field(
        default=1.0, metadata={"help": "of a generative judge: weight of the expected level's squared error"}
    )

    @property
    def start_folder(self) -> Path | None:
        """The folder that `start_from` names; `built-in` is the package's."""
        if self.start_from is None:
            return None
        return built_in_folder() if self.start_from == "built-in" else Path(self.start_from)
