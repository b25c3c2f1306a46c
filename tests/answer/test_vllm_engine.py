import sys


def test_without_vllm_the_engine_is_refused_and_nothing_written(medjudge, tiny_lm, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    done = medjudge("answer", "--model", tiny_lm, "--limit", 1, "--engine", "vllm", "--run", tmp_path / "run")
    assert done.returncode == 2
    assert (
        done.stderr == "error: --engine vllm: vLLM is not installed; pip install 'medjudge[vllm]' (Linux with a GPU)\n"
    )
    assert not (tmp_path / "run").exists()
