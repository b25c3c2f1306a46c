"""Judges of items and pairs at work in a run: loading, whose judgments a file holds, and what interrupts them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic

from medjudge.errors import InputError, UnfinishedError
from medjudge.item_records import ItemJudgment
from medjudge.judge.api import ApiJudge
from medjudge.judge.generative import GenerativeJudge
from medjudge.judge.generative_labels import GenerativeLabels
from medjudge.judge.items import ITEM_LABELS
from medjudge.judge.open import ApiRef, JudgeOptions, JudgeRef
from medjudge.judge.ordinal import OrdinalItemJudge, OrdinalJudge
from medjudge.judge.pairs import PAIR_LABELS
from medjudge.judge.protocol import Judge
from medjudge.pair_records import PairJudgment
from medjudge.provenance import stamped
from medjudge.screen import progress_bar, stop_explained
from medjudge.store import Run
from medjudge.workflows.judge import Made, load, most_reply_tokens, rewrite_without_failed
from medjudge.workflows.run_folder import record_spending

_ENTRIES: dict[type, str] = {ItemJudgment: "item_judges", PairJudgment: "pair_judges"}
"""Their place in `run.json`."""
_LABELS: dict[type, Sequence[str]] = {ItemJudgment: ITEM_LABELS, PairJudgment: PAIR_LABELS}
"""The labels of a generative judge."""


@dataclass(frozen=True)
class LabelStation(Generic[Made]):
    """A judge of items or pairs in a run.

    Attributes:
        run: The run.
        judge_ref: The judge.
        options: How it is run.
        file: Where its judgments go.
        record: What a line of the file is.
        prompts_sha256: Of everything that the judge is told.
    """

    run: Run
    judge_ref: JudgeRef
    options: JudgeOptions
    file: Path
    record: type[Made]
    prompts_sha256: str

    def begin(self) -> list[Made]:
        """Removes what another request may bring from the file, and returns the other judgments.

        Raises:
            InputError: The file holds judgments by another judge of this name, or the judge's base is not found.
        """
        recorded = self._entries.get(self.judge_ref.name, {})
        if recorded and recorded.get("sha256") != self.identity and self.file.exists():
            raise InputError(
                f"{self.file}: holds judgments by another judge or server of this name, or by other prompts; move the "
                "file away, or choose another run"
            )
        judgments = self.run.made_from_texts(self.file, self.record)
        return rewrite_without_failed(self.run, self.file, judgments, self.options, recorded)

    def judge(self, work: Sequence[Any], label: str, unit: str, kept: str, loaded: Judge | None = None) -> None:
        """Judges work: each judgment is on disk before the next one is made.

        `run.json` says before the first and after the last one whose judgments these are.

        Args:
            label: The work, and `unit` what is counted, for the progress bar.
            kept: What is said where the work is interrupted, with `{made}` for the number of judgments.
            loaded: The judge where it is in memory already.

        Raises:
            InputError: The judge cannot be loaded, or its files changed while it was.
            UnfinishedError: The judge's files changed meanwhile.
        """
        identity, judge, name, made = self.identity, self._loaded(loaded), self.judge_ref.name, 0
        if self._identity() != identity:
            raise InputError(f"judge {name}: its files changed while it was loaded; run the same command again")
        self._note()
        start, bar = time.monotonic(), progress_bar(len(work), f"{label} ({name})", unit)
        try:
            with stop_explained(lambda: f"{kept.format(made=made)} kept in {self.run.path}"), bar:
                for judgment in stamped(judge.judge(work), self.run.texts()):
                    self.run.append(self.file, judgment.model_dump_json())
                    made += 1
                    bar.update()
        finally:
            self._note(time.monotonic() - start)
            if isinstance(self.judge_ref, ApiRef):
                record_spending(self.run, self.options.limit.prices)
        if self._identity() != identity:
            raise UnfinishedError(
                f"judge {name}: its files changed while it judged, and {self.file} holds judgments by those from "
                "before; restore them, or remove this file"
            )

    def _loaded(self, loaded: Judge | None) -> Any:
        """The judge as one of this task."""
        judge = loaded or load(self.judge_ref, self.options, self.run)
        if isinstance(judge, ApiJudge):
            return judge
        if isinstance(judge, GenerativeJudge):
            return GenerativeLabels(judge, _LABELS[self.record])
        assert isinstance(judge, OrdinalJudge)
        return OrdinalItemJudge(judge)

    @cached_property
    def identity(self) -> str:
        """The judge's identity when the work began."""
        return self._identity()

    @property
    def _entries(self) -> dict[str, Any]:
        return dict(self.run.manifest().get(_ENTRIES[self.record], {}))

    def _identity(self) -> str:
        """The sha256 of everything that changes the judge's verdicts."""
        ref, options = self.judge_ref, self.options
        who: Sequence[str | None] = [ref.identity(options, self.run.scheme())]
        if isinstance(ref, ApiRef):
            who = ref.served(options)
        return sha256("\x1f".join([*map(str, who), self.prompts_sha256]).encode()).hexdigest()

    def _note(self, seconds: float = 0.0) -> None:
        judges, judge_ref = self._entries, self.judge_ref
        before = judges.get(judge_ref.name, {})
        judges[judge_ref.name] = {
            "kind": judge_ref.kind,
            "base_model": judge_ref.model if isinstance(judge_ref, ApiRef) else judge_ref.card.base_model,
            "sha256": self.identity,
            "judgments": len(self.run.made_from_texts(self.file, self.record)),
            "reply_tokens": most_reply_tokens(self.options, before),
            "seconds": round(before.get("seconds", 0.0) + seconds, 1),
        }
        self.run.update_manifest(**{_ENTRIES[self.record]: judges})
