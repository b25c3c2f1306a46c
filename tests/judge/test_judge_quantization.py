"""A generative judge on a base in 4 bits, which is another judge."""

from pathlib import Path

import pytest
from tiny_models import build_generative_judge

from medjudge.judge.folder import read_card
from medjudge.judge.generative import GenerativeJudge
from medjudge.judge.open import JudgeOptions, quantised, resolve_judge
from medjudge.models.quantization import QUANTIZATIONS
from medjudge.store import Run, write_records


@pytest.fixture(scope="module")
def folder(tiny_lm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_generative_judge(tmp_path_factory.mktemp("judges") / "tiny", tiny_lm)


def test_what_cannot_be_quantised_is_refused(folder, tiny_lm, medjudge, sample_run, tmp_path) -> None:
    in_4_bits = build_generative_judge(tmp_path / "judge", tiny_lm, quantization={"bits": 4, "type": "nf4"})
    for judge, name, problem in (
        (folder, "int3", "--judge-quantization int3: unknown; use nf4"),
        ("similarity", "nf4", "is for generative judges, and judge similarity is of kind similarity"),
        (in_4_bits, "nf4", "runs on a base quantised to NF4, as it was trained; leave out --judge-quantization"),
    ):
        for command in (("eval", "--run", tmp_path / "run"), ("validate", sample_run)):
            done = medjudge(*command, "--judge", judge, "--judge-quantization", name)
            assert done.returncode == 2
            assert problem in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_judge_in_4_bits_is_another_judge_with_a_validation_of_its_own(folder, medjudge, sample_run) -> None:
    pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed; pip install 'medjudge[gpu]'")
    run, in_4_bits = few_scored(Run(sample_run)), ("--judge", folder, "--judge-quantization", "nf4")
    validate = ("validate", run.path, "--physicians", run.physicians_file, "--resamples", 100)
    evaluate = ("eval", "--benchmark", run.questions_file, "--run", run.path)

    assert medjudge(*validate, "--judge", folder).returncode in (0, 1)
    first = read_card(folder)
    stale = "stale: validated with its base not quantised; run `medjudge validate "
    done = medjudge(*evaluate, *in_4_bits)
    screen = done.stdout + done.stderr
    assert "quantised to NF4, nested, trained on" in screen
    assert stale in done.stdout
    assert f"--judge {folder} --judge-quantization nf4 --physicians FILE" in screen

    # Its judgments stand beside those of the judge as it was trained, under a name and an identity of their own.
    judges = run.manifest()["judges"]
    assert judges["tiny"]["sha256"] != judges["tiny-nf4"]["sha256"]
    assert (judges["tiny"]["quantization"], judges["tiny-nf4"]["quantization"]) == (None, "NF4, nested")
    ours = {judgment.answer_key: judgment.probabilities for judgment in run.judgments("tiny")}
    theirs = {judgment.answer_key: judgment.probabilities for judgment in run.judgments("tiny-nf4")}
    assert any(ours[key] != theirs[key] for key in ours.keys() & theirs.keys())

    assert medjudge(*validate, *in_4_bits).returncode in (0, 1)
    card = read_card(folder)
    assert card.quantization is None
    assert card.validated_on[:1] == first.validated_on
    assert [study.quantization for study in card.validated_on] == [None, "NF4, nested"]
    assert "physicians, on a base quantised to NF4, nested |" in (folder / "README.md").read_text(encoding="utf-8")
    for judge in (in_4_bits, ("--judge", folder)):
        assert "stale" not in medjudge(*evaluate, *judge).stdout


def few_scored(run: Run) -> Run:
    """A run of four questions, whose answers a physician scored."""
    questions = run.questions()[:4]
    kept = {question.id for question in questions}
    scores = [one.model_copy(update={"rater": "dr-a"}) for one in run.physician_scores() if one.question_id in kept]
    write_records(run.questions_file, questions)
    write_records(run.answers_file, [answer for answer in run.answers() if answer.question_id in kept])
    write_records(run.physicians_file, scores)
    return run


def test_weights_in_4_bits_are_not_merged(folder) -> None:
    pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed; pip install 'medjudge[gpu]'")
    quantised_ref = quantised(resolve_judge(str(folder)), "nf4")
    assert quantised_ref.quantization == QUANTIZATIONS["nf4"]
    judge = quantised_ref.load(JudgeOptions("cpu"))
    assert isinstance(judge, GenerativeJudge)
    assert type(judge.model.model.layers[0].self_attn.q_proj.base_layer).__name__ == "Linear4bit"
