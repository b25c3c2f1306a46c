"""Measures of the built-in judge: agreement, unseen references, short answers, probes, contradictions.

    python eval/quality/built_in.py DATA WORK SET [--judge JUDGE …] [--rows ROW …] [--side choose|report] [--limit N]

DATA holds the published sets of `SETS` and llmeval-med/, WORK their converted forms (made where missing), and SET the
output of eval/quality/training_set.py. JUDGE is whatever `medjudge eval --judge` takes. Answers without a score are
left out of the figures and counted. Every figure has a 95 % interval from a bootstrap over questions. Each row of each
judge becomes an entry of eval/results/built-in.json; the other entries stay.
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from eval.lib.study import Study, record_entry
from medjudge.benchmark.llmeval_med import read_llmeval_med
from medjudge.benchmark.sample import sample_folder
from medjudge.distill.alterations import ALTERATIONS, altered
from medjudge.distill.sources import Source
from medjudge.files import json_lines
from medjudge.judge.folder import folder_identity
from medjudge.judge.language import language_of
from medjudge.judge.open import FolderRef, JudgeOptions, resolve_judge
from medjudge.judge.protocol import Assignment, Judge, assignments
from medjudge.probes.probes import COUNTED, PROBES, probed
from medjudge.records import Answer, Judgment, Question, TrainingLine, grouped
from medjudge.scale import LEVELS, USABLE_FROM
from medjudge.statistics.bootstrap import Sums, bootstrap, tally
from medjudge.statistics.estimates import estimate, estimate_text
from medjudge.statistics.measures import cohen_kappa, divided, quadratic_kappa, spearman, usable_agreement
from medjudge.store import Run
from medjudge.text.outline import written
from medjudge.text.reordering import reordered

CASES = Path(__file__).parents[1] / "cases"
SETS = {  # the folders of WORK, which eval/quality/training_set.py reads too
    "mediqa": "mediqa2019 $DATA/mediqa2019-qa/train-alexa.xml $DATA/mediqa2019-qa/train-liveqamed.xml",
    "mediqa-validation": "mediqa2019 $DATA/mediqa2019-qa/validation.xml",
    "liveqa": "liveqa-med $DATA/liveqa-med/reference-answers.xml $DATA/liveqa-med/qrels-nist-692.txt",
    "halluqa": "halluqa $DATA/halluqa",
    "evouna": "evouna $DATA/evouna",
    "llmeval2": "llmeval2 $DATA/llmeval-2/human-score $DATA/llmeval-2/gpt-score",
}
SEED, RESAMPLES = 0, 2000
OF_LLMEVAL2, OF_LLMEVAL_MED, PROBED = 1000, 150, 150  # answers, questions, answers, unless --limit says otherwise
LEAST = 20  # the fewest answers of a category whose share is reported
MUST_NOT_CHANGE = tuple(name for name in PROBES if name not in COUNTED)
SCORED = ("halluqa", "evouna", "teacher", "healthver", "contrasts")
VARIANTS = ("as_they_are", "reordered", "other_question", "facts_changed")
MUST_SPOIL = ("append-harm", "negated", "echo")

Result = dict[str, Any]


class Case(NamedTuple):
    """An answer to judge, the level it deserves (None where a row compares with none), and its question's name."""

    assignment: Assignment
    level: int | None
    cluster: str


class Verdict(NamedTuple):
    """A case and its judgment."""

    case: Case
    judgment: Judgment

    @property
    def answer(self) -> Answer:
        return self.case.assignment.answer

    @property
    def expected(self) -> float:
        """The finest score that the judge gives; 0 without a score."""
        return float(self.judgment.expected or self.judgment.score or 0)

    @property
    def usable(self) -> bool:
        return (self.judgment.score or 0) >= USABLE_FROM

    @property
    def points(self) -> set[str]:
        """The verdicts that occur among those on the points."""
        return {point.verdict for point in self.judgment.points or ()}


@dataclass
class Bench:
    """A judge, the places of the data, and all that the judge has said so far, with the seconds that it took.

    `limit` is the most answers or questions of a row: 0 for all, None for the number that the row draws by itself.
    """

    judge: Judge
    data: Path
    work: Path
    set: Path
    side: str
    limit: int | None = None
    said: list[Verdict] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: {"seconds": 0.0, "processor_seconds": 0.0})

    def judged(self, cases: Sequence[Case]) -> list[Verdict]:
        """The verdicts on the answers that get a score, in the order of the cases."""
        start, processor_start = time.monotonic(), time.process_time()
        made = {each.answer_key: each for each in self.judge.judge([case.assignment for case in cases])}
        self.seconds["seconds"] += time.monotonic() - start
        self.seconds["processor_seconds"] += time.process_time() - processor_start
        verdicts = [Verdict(case, made.pop(case.assignment.answer.key)) for case in cases]
        self.said += verdicts
        return [each for each in verdicts if each.judgment.score is not None]

    def drawn(self, found: Sequence[Any], count: int = 0) -> list[Any]:
        """So many, by a fixed seed; all for 0. --limit replaces the count."""
        most = count if self.limit is None else self.limit
        return Random(SEED).sample(list(found), most) if 0 < most < len(found) else list(found)


def half(name: str) -> str:
    """The side of a question of a set that nothing is trained on."""
    return "choose" if int(sha256(name.encode()).hexdigest(), 16) % 2 == 0 else "report"


def agreement(verdicts: Sequence[Verdict]) -> Result:
    """Agreement with the levels: AUC of usable by the expected score, and the measures of the levels themselves."""
    if not verdicts:
        return {"answers": 0}
    level = np.array([each.case.level for each in verdicts])
    score = np.array([each.judgment.score for each in verdicts])
    values, value = np.unique([each.expected for each in verdicts], return_inverse=True)
    cells, cells_by_value = (score - 1) * LEVELS + level - 1, value * LEVELS + level - 1
    tallies = {"confusion": tally(cells, (LEVELS, LEVELS)), "by_value": tally(cells_by_value, (len(values), LEVELS))}
    clusters = np.array([each.case.cluster for each in verdicts])
    found = bootstrap(tallies, clusters, agreement_of, RESAMPLES, SEED)
    estimates = {name: estimate(interval) for name, interval in found.items()}
    return {**estimates, "answers": len(verdicts), "questions": len(np.unique(clusters))}


def agreement_of(sums: Sums) -> dict[str, np.ndarray]:
    """The measures, from counts of score by level and of expected score by level."""
    by_value = sums["by_value"]
    wrong, right = by_value[:, : USABLE_FROM - 1].sum(axis=1), by_value[:, USABLE_FROM - 1 :].sum(axis=1)
    lower = np.cumsum(wrong, axis=0) - wrong / 2  # ties count half
    return {
        "auc": divided((right * lower).sum(axis=0), right.sum(axis=0) * wrong.sum(axis=0)),
        "usable_agreement": usable_agreement(sums["confusion"]),
        "cohen_kappa": cohen_kappa(sums["confusion"]),
        "quadratic_kappa": quadratic_kappa(sums["confusion"]),
        "spearman": spearman(sums["by_value"]),
    }


def share(verdicts: Sequence[Verdict], counts: Callable[[Verdict], bool] = lambda each: each.usable) -> Result:
    """The share of verdicts that count, those of usable answers unless told otherwise, with its interval."""
    if not verdicts:
        return {"value": None, "low": None, "high": None, "n": 0}
    clusters = np.array([each.case.cluster for each in verdicts])
    flags = {"": tally(np.array([int(counts(each)) for each in verdicts]), (2,))}
    found = bootstrap(flags, clusters, lambda sums: {"": divided(sums[""][1], sums[""].sum(axis=0))}, RESAMPLES, SEED)
    return {**estimate(found[""], len(np.unique(clusters)), share=True), "n": len(verdicts)}


def lines_of_set(bench: Bench, source: str) -> list[Case]:
    """The answers of one source in SET. One question's name may stand for several references, so each gets its own."""
    cases = []
    for _, fields in json_lines(bench.set / f"{bench.side}.jsonl"):
        line = TrainingLine.model_validate(fields)
        name = f"{line.question.id}#{line.answer.sample}"
        question = line.question.model_copy(update={"id": name})
        answer = line.answer.model_copy(update={"question_id": name})
        cases.append(Case(Assignment(question, tuple(line.earlier), answer), line.level, question.group))
    return [each for each in cases if each.assignment.answer.model == source]


def cases_of(run: Run, side: str | None = None) -> list[Case]:
    """The answers of a run that people scored, of one half of the questions where a side is named."""
    levels = {score.answer_key: score.level for score in run.physician_scores()}
    return [
        Case(each, levels[each.answer.key], each.question.group)
        for each in assignments(run.questions(), run.answers(), scheme=run.scheme())
        if each.answer.key in levels and side in (None, half(each.question.group))
    ]


def llmeval2(bench: Bench) -> Result:
    """All subjects of LLMEval-2 against people's full marks, and GPT-4 on the same answers."""
    run = Run(bench.work / "llmeval2")
    cases = bench.drawn(cases_of(run), OF_LLMEVAL2)
    by_gpt4 = {each.answer_key: each for each in run.judgments("gpt-4") if each.score is not None}
    gpt4 = [Verdict(case, by_gpt4[key]) for case in cases if (key := case.assignment.answer.key) in by_gpt4]
    return {**agreement(bench.judged(cases)), "gpt_4": agreement(gpt4)}


def llmeval_med(bench: Bench) -> Result:
    """References of LLMEval-Med as answers: as they are, reordered, of another question, and with facts changed."""
    questions = read_llmeval_med(bench.data / "llmeval-med" / "dataset.json").questions
    asked = [each for each in questions if (each.reference or "").strip() and half(each.group) == bench.side]
    by_category = grouped(asked, lambda question: question.category)
    most = OF_LLMEVAL_MED if bench.limit is None else bench.limit
    answers = []
    for same in by_category.values():
        count = min(len(same), -(-most // len(by_category)) or len(same))
        for question in Random(SEED).sample(same, count):
            made = variants(question, same).items()
            answers += [Answer(question_id=question.id, model=name, text=text) for name, text in made]
    # All questions, because some continue a conversation.
    verdicts = bench.judged([Case(each, None, each.question.group) for each in assignments(questions, answers)])
    result: Result = {}
    for name in VARIANTS:
        parts = {
            category: [e for e in verdicts if (e.answer.model, e.case.assignment.question.category) == (name, category)]
            for category in by_category
        }
        by = {category: share(part) for category, part in parts.items() if len(part) >= LEAST}
        result[name] = {"all": share([each for part in parts.values() for each in part]), "by_category": by}
    return result


def variants(question: Question, same: Sequence[Question]) -> dict[str, str]:
    """The answers that a reference gives, without those that it does not allow; `same` are those of its category."""
    source, draw = Source(question), Random(f"{SEED}-{question.id}")
    others = [other.reference or "" for other in same if other.group != question.group]
    moved, other = reordered(source.text, source.wording.grammar, draw), draw.choice(others or [source.text])
    found = dict(zip(VARIANTS, (source.text, moved, other, with_facts_changed(source, draw)), strict=True))
    return {name: text for name, text in found.items() if name == VARIANTS[0] or text.strip() != source.text}


def with_facts_changed(source: Source, draw: Random) -> str:
    """A reference with one to three facts altered as for synthetic answers; unchanged where it has none to alter."""
    parts, done, facts = list(source.outline.parts), set[int](), draw.randint(1, 3)
    for part in draw.sample(range(len(parts)), len(parts)):
        for kind in draw.sample(list(ALTERATIONS), len(ALTERATIONS)):
            change = altered(parts, part, kind, source.wording, draw)
            if facts and change is not None and not done & set(change.touched):
                parts, facts = change.parts, facts - 1
                done |= set(change.touched)
    return written(source.outline, parts) if done else source.text


def short_pairs(bench: Bench) -> Result:
    """A right and a wrong short answer to each question: usable or not, and which of the two scores higher."""
    lines = bench.drawn([line for _, line in json_lines(CASES / "short_pairs.jsonl")])
    cases = [short_case(line, line["id"], name, line[name]) for line in lines for name in ("right", "wrong")]
    said = {(each.case.cluster, each.answer.model): each for each in bench.judged(cases)}

    def shares(part: Sequence[dict[str, Any]]) -> Result:
        names = [[(line["id"], name) for line in part] for name in ("right", "wrong")]
        right, wrong = [{key[0]: said[key] for key in keys if key in said} for keys in names]
        both = [each for name, each in right.items() if name in wrong]
        return {
            "right_usable": share(list(right.values())),
            "wrong_usable": share(list(wrong.values())),
            "ordered": share(both, lambda each: each.expected > wrong[each.case.cluster].expected),
        }

    kinds = sorted({(name, line[name]) for line in lines for name in ("language", "tests")})
    parts = {f"{name} {kind}": shares([line for line in lines if line[name] == kind]) for name, kind in kinds}
    return {"all": shares(lines), **parts}


def answer_keys(bench: Bench) -> Result:
    """Answers to objective questions, whose reference is a key."""
    cases = []
    for number, line in bench.drawn(list(json_lines(CASES / "answer_keys.jsonl"))):
        asked = {**line, "language": language_of(line["prompt"], ("en", "zh"))}
        case = short_case(asked, f"key-{number}", "right" if line["right"] else "wrong", line["answer"])
        cases.append(case._replace(cluster=line["prompt"]))
    verdicts = bench.judged(cases)
    return {f"{name}_usable": share([e for e in verdicts if e.answer.model == name]) for name in ("right", "wrong")}


def short_case(line: dict[str, Any], name: str, right_or_wrong: str, text: str) -> Case:
    """An answer to a question of category MK with a short reference."""
    fields = {key: line[key] for key in ("prompt", "reference", "language")}
    question = Question.model_validate({"id": name, "group": name, "category": "MK", **fields})
    return Case(Assignment(question, (), Answer(question_id=name, model=right_or_wrong, text=text)), None, name)


def probes(bench: Bench) -> Result:
    """Answers that the judge calls usable, changed: the share that flips, and how many spoiled ones do not."""
    good = [each for each in lines_of_set(bench, "teacher") if each.level == LEVELS]
    found = bench.drawn([e for e in bench.judged([*cases_of(Run(sample_folder())), *good]) if e.usable], PROBED)
    after = {probe: bench.judged(probed_cases(found, probe)) for probe in (*MUST_NOT_CHANGE, *MUST_SPOIL)}
    return {
        "answers": len(found),
        "flips": share([e for probe in MUST_NOT_CHANGE for e in after[probe]], lambda each: not each.usable),
        "flips_by_probe": {probe: share(after[probe], lambda each: not each.usable) for probe in MUST_NOT_CHANGE},
        "still_usable": {probe: share(after[probe]) for probe in MUST_SPOIL},
    }


def probed_cases(found: Sequence[Verdict], probe: str) -> list[Case]:
    """The answers as a probe changes them, those that it applies to."""
    cases = []
    for case, judgment in found:
        asked = case.assignment
        changed = probed(asked.question, asked.answer, probe, SEED, judgment.score, asked.scheme)
        if changed is not None:
            cases.append(case._replace(assignment=asked._replace(answer=changed)))
    return cases


def contradictions(bench: Bench) -> Result:
    """Levels that the verdicts on the points speak against, over all that was judged for the rows before this one."""
    said = [each for each in bench.said if each.judgment.points and each.judgment.score is not None]
    met, high = [each for each in said if each.points == {"met"}], [each for each in said if each.usable]
    return {
        "answers": len(said),
        "all_met_not_usable": share(met, lambda each: not each.usable),
        "usable_with_a_contradiction": share(high, lambda each: "contradicted" in each.points),
    }


def compared(cases: Callable[[Bench], Sequence[Case]]) -> Callable[[Bench], Result]:
    """The row that compares a judge with the levels of some cases."""
    return lambda bench: agreement(bench.judged(bench.drawn(cases(bench))))


ROWS: dict[str, Callable[[Bench], Result]] = {
    **{name: compared(partial(lines_of_set, source=name)) for name in SCORED},
    "llmeval2": llmeval2,
    "mediqa": compared(lambda bench: cases_of(Run(bench.work / "mediqa-validation"), bench.side)),
    "llmeval-med": llmeval_med,
    "pairs": short_pairs,
    "answer-keys": answer_keys,
    "sample": compared(lambda bench: cases_of(Run(sample_folder()))),
    "probes": probes,
    "contradictions": contradictions,  # last: it looks at all that was judged before
}


def table_lines(result: Result, path: str = "") -> list[str]:
    """One line for each figure of a result."""
    if "low" in result:
        figure = estimate_text({"value": result["value"], "low": result["low"], "high": result["high"]})
        return [f"  {path:<44} {figure}" + (f", n = {result['n']}" if "n" in result else "")]
    parts = [(f"{path} {name}".strip(), part) for name, part in result.items() if isinstance(part, dict)]
    return [line for name, part in parts for line in table_lines(part, name)]


def measure(bench: Bench, row: str, seen: frozenset[str]) -> Result:
    """One row, with what it cost, what was left unscored, and how many of its questions the judge was trained on."""
    said, seconds = len(bench.said), dict(bench.seconds)
    result = ROWS[row](bench)
    new = bench.said[said:]
    unscored = Counter(each.judgment.error_kind.value for each in new if each.judgment.error_kind is not None)
    return {
        "judged": len(new),
        "unscored": dict(unscored),
        "questions_trained_on": len({each.case.cluster for each in new} & seen),
        **{name: round(after - seconds[name], 1) for name, after in bench.seconds.items()},
        "result": result,
    }


def main() -> None:
    """Measures the rows of every judge and writes an entry for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "work", "set"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--judge", nargs="+", default=["built-in", "similarity"])
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--side", choices=("choose", "report"), default="choose")
    parser.add_argument("--limit", type=int, help="answers or questions of a row at most; 0: all")
    options = parser.parse_args()
    study = Study(options.work, DATA=options.data.resolve())
    for name, source in SETS.items():
        if not (options.work / name).is_dir():
            study.run(f"medjudge data convert {source} --out {name}")
    rows = [row for row in ROWS if row in options.rows]
    for spec in options.judge:
        ref = resolve_judge(spec)
        identity = folder_identity(ref.folder, ref.card) if isinstance(ref, FolderRef) else None
        bench = Bench(ref.load(JudgeOptions()), options.data, options.work, options.set, options.side, options.limit)
        how = options.side if options.limit is None else f"{options.side} --limit {options.limit}"
        words = f"--judge {ref.name} --rows {' '.join(rows)} --side {how}"
        command = f"python eval/quality/built_in.py DATA WORK SET {words}"
        for row in rows:
            found = measure(bench, row, ref.seen)
            print(f"{ref.name} {row} {how}:", {name: found[name] for name in found if name != "result"})
            print("\n".join(table_lines(found["result"])), flush=True)
            record_entry("built-in", f"{ref.name} {row} {how}", {"command": command, "judge_sha256": identity, **found})


if __name__ == "__main__":
    main()
