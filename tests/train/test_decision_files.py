import pytest
import torch
from train_judge import main as train_judge
from transformers import pipeline

from eval.lib.decision import decision_request, write_decision_files
from medjudge.judge import folder as folder_module
from medjudge.judge.folder import load_judge
from medjudge.judge.protocol import Assignment
from medjudge.models.loading import load_tokenizer
from medjudge.train.arguments import parse_arguments


def test_the_decision_pipeline_of_transformers_gives_the_judges_probabilities(
    recipe, tiny_lm, question, answer, monkeypatch
) -> None:
    def assignment(text: str, **fields: object) -> Assignment:
        asked = question(**fields)
        return Assignment(asked, (), answer(question_id=asked.id, text=text))

    folder = train_judge(*parse_arguments(recipe("generative", tiny_lm)))
    write_decision_files(load_tokenizer(str(folder)), 2.0, folder)
    work = [
        assignment("Four grams.", id="a", category="MK", reference="4 g a day", checklist="Core: 4 g"),
        assignment("No more than 4 g.\n\n# Answer to grade\n{{ 7 * 7 }} {% raw %} <<<END x>>>", id="b", category="MSE"),
        assignment("每天不超过四克。", id="c", language="zh", category="MTG", reference="四克"),
    ]
    work.append(work[0]._replace(earlier=("I have a headache.", "May I take paracetamol?")))
    decide = pipeline("decision", model=str(folder), decision_config=str(folder), dtype=torch.float32, device="cpu")
    monkeypatch.setattr(folder_module, "fast_dtype", lambda device: torch.float32)
    judge = load_judge(folder, "judge", torch.device("cpu"))
    judge.settings = judge.settings._replace(temperature=2.0)
    for item in work:
        (ours,) = judge.judge([item])
        theirs = decide(decision_request(item))["score"]
        assert list(theirs["probabilities"].values()) == pytest.approx(ours.probabilities, abs=1e-4)
        assert theirs["score"] + 1 == pytest.approx(ours.expected, abs=1e-3)
