"""`--engine ray` on a local Ray of two workers: what one process gives, batch by batch, also after a kill."""

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
import torch
from same_judgments import require_same_run, same_judgments

from medjudge.answer import transformers_engine
from medjudge.store import Run

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed; pip install 'medjudge[ray]'")


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Ray of two workers, which this process has joined."""

    def exact() -> None:
        """In bfloat16 a batch's other rows round a token's chances, and two workers make other batches than one."""
        import medjudge.models.hardware

        medjudge.models.hardware.fast_dtype = lambda _: torch.float32

    token = tmp_path_factory.mktemp("ray") / "token"  # Ray would write one into the home folder
    token.write_text(secrets.token_hex(32))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        import ray  # reads these variables

        joined = ray.init(
            address="local",
            num_cpus=2,
            num_gpus=0,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="critical",
            runtime_env={"worker_process_setup_hook": exact},
        )
        yield joined.address_info["gcs_address"]
        ray.shutdown()


@needs_ray
@pytest.mark.slow
@pytest.mark.usefixtures("two_workers")
def test_two_workers_answer_and_judge_as_one_process_does(medjudge, tiny_lm, tmp_path, monkeypatch) -> None:
    command = ["eval", "--judge", "similarity", "--model", tiny_lm, "--limit", 12, "--samples", 2, "--json"]
    command += ["--max-new-tokens", 6, "--offline", "--run"]
    shared = medjudge(*command, "shared", "--engine", "ray")
    monkeypatch.setattr(transformers_engine, "fast_dtype", lambda _: torch.float32)
    alone = medjudge(*command, "alone")
    assert json.loads(shared.stdout) == json.loads(alone.stdout), shared.stderr[-3000:]
    require_same_run(tmp_path / "shared", tmp_path / "alone")


@needs_ray
@pytest.mark.slow
def test_killed_between_two_batches_a_run_keeps_the_first_and_goes_on(medjudge, two_workers, tmp_path) -> None:
    command = ["eval", "--judge", "similarity", "--offline", "--run"]
    process = subprocess.Popen(
        [sys.executable, "-m", "medjudge.cli", *command, "killed", "--engine", "ray"],
        cwd=tmp_path,
        env={**os.environ, "RAY_ADDRESS": two_workers},
        stderr=subprocess.DEVNULL,
    )
    run = Run(tmp_path / "killed")
    while process.poll() is None and not run.judgments_file("similarity").exists():
        time.sleep(0.01)
    process.kill()
    process.wait()
    kept = run.judgments_file("similarity").read_bytes().split(b"\n")[:-1]
    assert 0 < len(kept) < 280
    medjudge(*command, "killed")
    medjudge(*command, "calm")
    assert run.judgments_file("similarity").read_bytes().split(b"\n")[: len(kept)] == kept
    assert same_judgments(run.path, tmp_path / "calm")
    assert (run.path / "scores.json").read_bytes() == (tmp_path / "calm" / "scores.json").read_bytes()


def test_without_ray_the_engine_is_refused(medjudge, monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for command in (["eval"], ["answer", "--model", tmp_path]):
        done = medjudge(*command, "--engine", "ray")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "error: --engine ray: Ray is not installed; pip install 'medjudge[ray]'\n"
    assert "use transformers, vllm or ray" in medjudge("eval", "--engine", "spark").stderr
    assert "'vllm' is not one of 'transformers', 'ray'" in medjudge("eval", "--judge-engine", "vllm").stderr
