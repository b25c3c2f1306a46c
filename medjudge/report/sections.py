"""What the page shows of a run, gathered from its records."""

from collections.abc import Sequence
from typing import Any

from medjudge.agreement.study import agreement_study
from medjudge.records import Answer, AnswerKey, Judgment, PhysicianScore, Question, consensus
from medjudge.report.leaderboard import coverage, score_models
from medjudge.store import Run

_NO_RATES: dict[str, Any] = {"subcategories": {}}


def section(run: Run) -> dict[str, Any]:
    """Everything that `page.html` shows of one run: each judge's rates, its agreement, and its worst disagreements.

    A judge's agreement is left out where it was trained on one of the scored questions.
    """
    questions, answers = run.questions(), run.answers()
    models = list(dict.fromkeys(answer.model for answer in answers))
    scores = run.physician_scores()
    manifest = run.manifest()
    judges = []
    differing: list[dict[str, Any]] = []
    for judge in run.judges():
        judgments = run.judgments(judge)
        rates = score_models(questions, judgments, models)
        study = agreement_study(judge, questions, judgments, scores) if _overlaps(judgments, scores) else None
        seen = set(manifest.get("judges", {}).get(judge, {}).get("seen_question_ids", []))
        if seen & {score.question_id for score in scores}:
            study = None
        judges.append(
            {
                "name": judge,
                "scores": rates,
                "coverage": coverage([answer.key for answer in answers], judgments),
                "status": "Its agreement was measured on scored answers of this run, see below."
                if study
                else "Not validated on this run.",
                "subcategories": [
                    (category, name)
                    for category, names in next(iter(rates["models"].values()), _NO_RATES)["subcategories"].items()
                    for name in names
                ],
                "agreement": study,
                "parts": [("overall", study["overall"]), *study["by_category"].items()] if study else [],
                "largest": max(max(row) for row in study["confusion"]) if study else 1,
            }
        )
        if study:
            differing += _differing(questions, answers, judgments, scores)
    differing.sort(key=lambda one: -abs(one["score"] - one["physician"]))
    return {"name": run.path.resolve().name, "notes": _notes(manifest), "judges": judges, "answers": differing[:30]}


def _overlaps(judgments: Sequence[Judgment], scores: Sequence[PhysicianScore]) -> bool:
    return bool(
        {judgment.answer_key for judgment in judgments if judgment.score is not None}
        & {score.answer_key for score in scores}
    )


def _notes(manifest: dict[str, Any]) -> list[str]:
    notes = []
    if benchmark := manifest.get("benchmark"):
        notes.append(
            f"Benchmark {benchmark['source']}: {benchmark['questions']} questions, sha256 {benchmark['sha256'][:12]}."
        )
    notes += manifest.get("notes", [])
    if manifest.get("updated"):
        notes.append(f"medjudge {manifest['versions']['medjudge']}, {manifest['updated']}.")
    return notes


def _differing(
    questions: Sequence[Question],
    answers: Sequence[Answer],
    judgments: Sequence[Judgment],
    scores: Sequence[PhysicianScore],
) -> list[dict[str, Any]]:
    by_id = {question.id: question for question in questions}
    text = {answer.key: answer.text for answer in answers}
    levels: dict[AnswerKey, list[int]] = {}
    for score in scores:
        levels.setdefault(score.answer_key, []).append(score.level)
    return [
        {
            "question_id": one.question_id,
            "model": one.model,
            "judge": one.judge,
            "score": one.score,
            "physician": consensus(levels[one.answer_key]),
            "prompt": by_id[one.question_id].prompt,
            "reference": by_id[one.question_id].reference,
            "checklist": by_id[one.question_id].checklist,
            "text": text[one.answer_key],
            "rationale": one.rationale,
        }
        for one in judgments
        if one.score is not None
        and one.answer_key in levels
        and abs(one.score - consensus(levels[one.answer_key])) >= 2
    ]
