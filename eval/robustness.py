"""Whether every reader of files and replies reads or refuses hostile inputs: how many were tried, and the outcomes.

    python eval/robustness.py [INPUTS]

INPUTS is how many inputs each reader gets (300 unless given); they are drawn anew from a seed that the result names. A
reader holds where it returns a typed value that can be written again, or raises the error that it documents, within
10 s of processor time. The result is the entry `readers` of eval/results/robustness.json; other entries are kept.
"""

import sys
from collections import Counter

from hostile_inputs import hostile_files, hostile_texts
from hostile_readers import (
    MOST_SECONDS,
    TEXT_READERS,
    Outcome,
    Reader,
    TextReader,
    outcome_of_file,
    outcome_of_text,
    readers,
)
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

SEED = 17


def tried(reader: Reader | TextReader, inputs: int) -> tuple[Counter[str], dict[str, str]]:
    """Counts the outcomes of one reader; and the first input, as text, of each problem."""
    counts: Counter[str] = Counter()
    problems: dict[str, str] = {}

    @seed(SEED)
    @settings(
        max_examples=inputs, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=[*HealthCheck]
    )
    @given(st.data())
    def count(data: st.DataObject) -> None:
        result, shown = _outcome(reader, data)
        counts["read" if result.read else "broken" if result.problem else "refused"] += 1
        if result.problem:
            problems.setdefault(result.problem, shown[:300])

    count()
    return counts, problems


def _outcome(reader: Reader | TextReader, data: st.DataObject) -> tuple[Outcome, str]:
    if isinstance(reader, Reader):
        content = data.draw(hostile_files(reader))
        return outcome_of_file(reader, content), repr(content)
    text = data.draw(hostile_texts(reader))
    return outcome_of_text(reader, text), repr(text)


def main(inputs: int) -> None:
    """Tries every reader and records the counts; exits with 1 where the property was broken."""
    by_reader: dict[str, dict[str, int]] = {}
    broken: dict[str, dict[str, str]] = {}
    everything: list[Reader | TextReader] = [*TEXT_READERS, *readers()]
    for reader in everything:
        counts, problems = tried(reader, inputs)
        by_reader[reader.name] = {
            "inputs": sum(counts.values()),
            **{k: counts[k] for k in ("read", "refused", "broken")},
        }
        if problems:
            broken[reader.name] = problems
        print(reader.name, by_reader[reader.name], problems, file=sys.stderr, flush=True)
    from study import record_entry  # late, because it loads torch

    totals = {
        name: sum(counts[name] for counts in by_reader.values()) for name in ("inputs", "read", "refused", "broken")
    }
    result = {
        "command": f"python eval/robustness.py {inputs}",
        "seed": SEED,
        "processor_seconds_at_most": MOST_SECONDS,
        **totals,
        "by_reader": by_reader,
        "problems": broken,
    }
    print(totals, file=sys.stderr)
    record_entry("robustness", "readers", result)
    if broken:
        sys.exit(1)


if __name__ == "__main__":
    if len(sys.argv) > 2 or not all(word.isdecimal() for word in sys.argv[1:]):
        sys.exit("usage: python eval/robustness.py [INPUTS]")
    main(int(sys.argv[1]) if len(sys.argv) == 2 else 300)
