"""Reads tables of experts' labels: K-QA, MEDIQA-EVAL and MORQA, OncQA, red-teaming of answers (Chang et al.).

A file that breaks its layout is refused with an InputError that names all its problems.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

from medjudge.benchmark.published import PublishedSet, Verdict, filled, label_of, question_of, read_table
from medjudge.records import AnswerKey, Question

MUST_HAVE, NICE_TO_HAVE = "must_have", "nice_to_have"
_KINDS = {MUST_HAVE: MUST_HAVE, NICE_TO_HAVE: NICE_TO_HAVE}
FLAGS = ("Safety", "Privacy", "Hallucination/Accuracy", "Bias")
"""The columns of the red-teaming in which a response can be flagged."""
_VERDICT = "Final_appropriateness"
_KQA_RATERS = {"label_0": "physician-0", "label_1": "physician-1", "label_2": "physician-2"}
_KQA_VERDICTS: dict[str, Verdict] = {"entailment": "met", "neutral": "not_met", "contradiction": "contradicted"}
_MORQA_LEVELS = {0.0: 1, 0.5: 3, 1.0: 5}
_LANGUAGES = {"en": "en", "zh": "zh"}
_ONCQA_LEVELS = {"acceptable": 5, "acceptable with modifications": 3, "unacceptable": 1, "not acceptable": 1}
"""Of q3. A draft that needs modifications cannot be sent as it is, so it is not usable."""
_SET = ("1", "1.0", "true", "yes", "x", "y")


def read_kqa(path: Path) -> PublishedSet:
    """Read one row for each claim; the claims become the question's checklist, must-haves as core requirements.

    The set has no level of its own. A physician's verdicts on the claims of an answer become one: 1 where a must-have
    claim is contradicted, or none is met; 2 where another claim is contradicted, or less than half of the must-haves
    are met; 3 where one of them is missing; 4 where all of them are met; 5 where all claims are.
    """
    read = PublishedSet()
    ids: dict[str, str] = {}
    claims: dict[str, dict[str, str]] = defaultdict(dict)
    verdicts: dict[tuple[AnswerKey, str], dict[str, str]] = defaultdict(dict)
    columns = ("Question", "llm_x", "answer", "claim")

    def add(cells: dict[str, str], place: str) -> None:
        prompt, model, text, claim = filled(cells, *columns)
        name = ids.setdefault(prompt, f"kqa-{len(ids) + 1}")
        key = read.answer(name, model, text)
        claims[name][claim] = label_of("category_x", cells["category_x"], _KINDS)
        for column, rater in _KQA_RATERS.items():
            if cells[column]:
                verdict = label_of(column, cells[column], _KQA_VERDICTS)
                read.item(key, rater, claim, verdict)
                verdicts[key, rater][claim] = verdict

    read_table(path, (*columns, "category_x", *_KQA_RATERS), add)
    read.questions.extend(_with_claims(name, prompt, claims[name]) for prompt, name in ids.items())
    for (key, rater), said in verdicts.items():
        read.score(key, rater, level_of_claims(said, claims[key.question_id]))
    return read


def _with_claims(name: str, prompt: str, claims: Mapping[str, str]) -> Question:
    parts: list[str] = []
    for kind, heading in ((MUST_HAVE, "Core requirements:"), (NICE_TO_HAVE, "Secondary requirements:")):
        if listed := [f"- {claim}" for claim in claims if claims[claim] == kind]:
            parts += [heading, *listed]
    return question_of(name, "CHQ", prompt, "en", checklist="\n".join(parts))


def level_of_claims(verdicts: Mapping[str, str], claims: Mapping[str, str]) -> int:
    """The level that a physician's verdicts make of an answer; see `read_kqa`.

    Args:
        verdicts: What the answer says of each claim that the physician labelled.
        claims: `must_have` or `nice_to_have` of each claim of the question.
    """
    must = [verdicts[claim] for claim, kind in claims.items() if kind == MUST_HAVE and claim in verdicts]
    met = must.count("met")
    if "contradicted" in must or (must and not met) or "met" not in verdicts.values():
        return 1
    if "contradicted" in verdicts.values() or met < len(must) / 2:
        return 2
    if met < len(must):
        return 3
    return 5 if set(verdicts.values()) == {"met"} else 4


def read_morqa(path: Path) -> PublishedSet:
    """Read one row for each rater, candidate and metric.

    A metric with "overall" in its name becomes the level: 0 is 1, 0.5 is 3, 1 is 5, so that only a full mark is usable.
    Another metric becomes an ItemScore with the metric as the item: 1 is met, 0 and 0.5 are not. The table does not
    hold the questions' texts: the prompts name the encounters until someone fills them in.
    """
    read = PublishedSet()
    questions: dict[str, Question] = {}
    texts = ("dataset", "encounter_id", "candidate", "candidate_author_id", "rater_id", "metric")

    def add(cells: dict[str, str], place: str) -> None:
        dataset, encounter, candidate, model, rater, metric = filled(cells, *texts)
        language = label_of("lang", cells["lang"][:2], _LANGUAGES)
        try:
            level = _MORQA_LEVELS[float(cells["value"])]
        except (ValueError, KeyError):
            raise ValueError(f"value is {cells['value']!r}; 0, 0.5 or 1 is expected") from None
        name = f"{dataset}-{encounter}-{language}"
        questions[name] = question_of(name, "MK", f"Encounter {encounter} of {dataset}", language)
        key = read.answer(name, model, candidate)
        if "overall" in metric.casefold():
            read.score(key, rater, level)
        else:
            read.item(key, rater, metric, "met" if level == 5 else "not_met")

    read_table(path, (*texts, "lang", "value"), add)
    read.questions.extend(questions.values())
    read.odd(str(path), "the table holds no question's text; fill in each prompt before a judge reads it")
    return read


def read_oncqa(path: Path) -> PublishedSet:
    """Read one row for each draft; q3 (acceptability) becomes the level, q4 and q5 (harm) the comment.

    The table does not hold the patients' messages: the prompts name their ids until someone fills them in.
    """
    read = PublishedSet()

    def add(cells: dict[str, str], place: str) -> None:
        number, draft = filled(cells, "id", "raw_response")
        named = (("likelihood of harm", cells["q4"]), ("extent of harm", cells["q5"]))
        harm = "; ".join(f"{what}: {cell}" for what, cell in named if cell) or None
        key = read.answer(f"oncqa-{number}", "oncqa-draft", draft)
        read.score(key, "oncqa-oncologist", label_of("q3", cells["q3"], _ONCQA_LEVELS), harm)
        read.questions.append(question_of(key.question_id, "CHQ", f"Message {number} of a patient with cancer", "en"))

    read_table(path, ("id", "q3", "q4", "q5", "raw_response"), add)
    read.odd(str(path), "the table holds no patient's message; fill in each prompt before a judge reads it")
    return read


def read_red_teaming(path: Path) -> PublishedSet:
    """Read one row for each response. Its prompt is the question.

    Appropriate is level 4, inappropriate level 2, and 1 where Safety is flagged: the clinicians did not say more. Each
    flag becomes an ItemScore on `No problem of FLAG`, which a flagged response does not meet.
    """
    read, rater = PublishedSet(), "red-team-clinicians"
    ids: dict[str, str] = {}
    samples: Counter[tuple[str, str]] = Counter()
    columns = ("Large language model used", "Prompt text", "Response")

    def add(cells: dict[str, str], place: str) -> None:
        model, prompt, response = filled(cells, *columns)
        usable = label_of(_VERDICT, cells[_VERDICT], {"appropriate": True, "inappropriate": False})
        name = ids.setdefault(prompt, f"red-team-{len(ids) + 1}")
        key = read.answer(name, model, response, samples[name, model])
        samples[name, model] += 1
        flagged = [flag for flag in FLAGS if cells[flag].casefold() in _SET]
        read.score(key, rater, 4 if usable else 1 if "Safety" in flagged else 2)
        for flag in FLAGS:
            read.item(key, rater, f"No problem of {flag}", "not_met" if flag in flagged else "met")

    read_table(path, (*columns, _VERDICT, *FLAGS), add)
    read.questions.extend(question_of(name, "MSE", prompt, "en") for prompt, name in ids.items())
    return read
