"""The study on real scores from the command line, on a subject that it never saw: files of LLMEval-2's layout."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
CAPITALS = {"法国": "巴黎", "日本": "东京", "埃及": "开罗", "德国": "柏林", "秘鲁": "利马"}
LEVELS = (3, 2, 1)
"""Correctness of a right answer, of one with a doubt, and of a wrong one."""


def subject_files(folder: Path, subject: str, questions: int) -> None:
    """One subject with four models' answers: `human-score/` and, a little more lenient, `gpt-score/`."""
    lands = list(CAPITALS)
    for side in ("human-score", "gpt-score"):
        entries = []
        for number in range(questions):
            land, other = lands[number % 5], lands[(number + 1) % 5]
            texts = (f"答案是{CAPITALS[land]}。", f"可能是{CAPITALS[land]}或{CAPITALS[other]}。", "抱歉，我无法回答。")
            for model in range(4):
                kind = (model + number) % 3
                lenient = side == "gpt-score" and number % 4 == 0
                stars = {"Correctness": min(3, LEVELS[kind] + lenient), "Explanation Correctness": 1 + (kind == 0)}
                prompt = f"{land}的首都是哪里？（{subject}，第{number}问）"
                entries.append(
                    {
                        "question_uuid": f"{subject}_{number}",
                        "dialog_uuid": f"m{model}_{subject}_{number}",
                        "llm_name": f"m{model}",
                        "dialog": [{"role": "user", "content": prompt}, {"role": "llm", "content": texts[kind]}],
                        "hint": f"{land}的首都是{CAPITALS[land]}。",
                        "type": "A",
                        "stars": stars,
                    }
                )
        file = folder / side / f"{subject}_data.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(entries, ensure_ascii=False), encoding="utf-8")


def shape(table: Any) -> Any:
    """The names of a table, at every depth."""
    return {name: shape(entry) for name, entry in table.items()} if isinstance(table, dict) else None


@pytest.mark.slow
def test_the_command_prints_the_studys_tables_for_a_subject_that_it_never_saw(medjudge, tmp_path: Path) -> None:
    for subject in ("Law", "Optics"):
        subject_files(tmp_path / "data" / "llmeval-2", subject, questions=12)
    subject_files(tmp_path / "kept-back", "Geology", questions=10)
    sides = [str(tmp_path / "kept-back" / side) for side in ("human-score", "gpt-score")]
    done = medjudge("data", "convert", "llmeval2", *sides, "--out", "geology")
    assert done.returncode == 0, done.stderr

    command = [sys.executable, str(ROOT / "eval" / "real_distillation.py"), "data", "work", "--unseen", "geology"]
    study = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert study.returncode == 0, study.stderr[-2000:]
    tables = json.loads(study.stdout)

    published = json.loads((ROOT / "eval" / "results" / "real-distillation.json").read_text(encoding="utf-8"))
    assert set(tables) == {"teacher", "calibration", "judges", "few scores", "cascade"}
    assert set(tables["teacher"]) == set(published["teacher"])
    for part in ("calibration", "few scores", "cascade"):
        assert shape(tables[part]) == shape(published[part]), part
    assert set(tables["judges"]) == {"gpt-4", "unseen questions"}
    assert shape(tables["judges"]["unseen questions"]) == shape(published["judges"]["unseen questions"])

    assert set(tables["teacher"]["by_subject"]) == {"Geology"}
    assert tables["teacher"]["overall"]["n"]["value"] == 40
    learned = tables["judges"]["unseen questions"]["3,200 of people's scores"]["judge"]
    assert learned["cohen_kappa"]["value"] > 0.5
    assert not (tmp_path / "work" / "parts").exists()  # nothing of the study itself was made
