"""Makes the built-in judge from DATA and writes it into the package.

    python eval/built_in.py DATA WORK

DATA holds mediqa2019-qa/ (its two training files and its validation file), liveqa-med/ and medquad/. WORK is a folder
for what is made on the way; a step that is finished there is not made again. First the intermediate stage, then one
judge for each of three seeds on all training questions; their adapters and heads are averaged (Wortsman et al.,
2022), and temperature and shift are fitted on MEDIQA's validation file. `eval/built_in_folds.py` measures the same on
held-out questions; where its result is there, the card carries it.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from built_in_data import Ablation, liveqa_lines, scored_lines, training_lines, write_lines
from peft import PeftModel
from safetensors.torch import load_file, save_file
from scipy.optimize import minimize
from study import REPOSITORY, RESULTS, Study

from medjudge.base_models import MINILM, load_encoder, load_tokenizer
from medjudge.distill.training_set import TrainingLine
from medjudge.judge.folder import JudgeCard, TrainedOn, read_card
from medjudge.judge.open import built_in_folder
from medjudge.judge.ordinal import (
    HEAD_FILE,
    HEAD_RATE,
    OrdinalModel,
    collate,
    encode,
    probabilities,
    with_adapter,
)
from medjudge.store import file_sha256
from medjudge.train.card import write_readme

SEEDS = (0, 1, 2)
LAUNCH = "accelerate launch --num_processes 1 $MEDJUDGE/recipes/train_judge.py"
RANK = 32
NOTE = (
    "The judge that comes with medjudge. English questions of consumers about health, with or without a reference; it "
    "leaves texts in other languages unscored. It knows what an answer to the point looks like; it knows no medicine."
)


def main(data: Path, work: Path) -> None:
    """Makes what is not there yet, from the data to the judge folder."""
    study = Study(work, DATA=data.resolve(), MEDJUDGE=REPOSITORY)
    prepare(study)
    study.run(f"{LAUNCH} --config $MEDJUDGE/configs/judges/minilm-intermediate.yaml")
    lines = training_lines(scored_lines(work / "mediqa"), liveqa_lines(work / "liveqa"), Ablation(), seed=0)
    write_lines(work / "data" / "train.jsonl", lines)
    write_lines(work / "data" / "validation.jsonl", scored_lines(work / "mediqa-validation"))
    for seed in SEEDS:
        study.run(
            f"{LAUNCH} --config $MEDJUDGE/configs/judges/built-in.yaml"
            f" --seed {seed} --output_dir judges/built-in-seed{seed}"
        )
    out = work / "judges" / "built-in"
    averaged([work / "judges" / f"built-in-seed{seed}" for seed in SEEDS], out)
    shift_and_temperature(out, scored_lines(work / "mediqa-validation"))
    complete_card(out, data)
    shutil.rmtree(built_in_folder(), ignore_errors=True)
    shutil.copytree(out, built_in_folder())


def prepare(study: Study) -> None:
    """Brings the data into the project's records."""
    mediqa, liveqa = "$DATA/mediqa2019-qa", "$DATA/liveqa-med"
    study.run(f"medjudge data convert mediqa2019 {mediqa}/train-alexa.xml {mediqa}/train-liveqamed.xml --out mediqa")
    study.run(f"medjudge data convert mediqa2019 {mediqa}/validation.xml --out mediqa-validation")
    study.run(
        f"medjudge data convert liveqa-med {liveqa}/reference-answers.xml {liveqa}/qrels-nist-692.txt --out liveqa"
    )
    study.run("python $MEDJUDGE/recipes/matching_set.py $DATA/medquad/medquad.jsonl.gz data/matching --questions 5000")


def averaged(folders: list[Path], out: Path) -> None:
    """Writes the mean of several judges that were trained from the same start: of their adapters' products, and heads.

    The mean of the adapters' products has a higher rank; its best approximation of rank 32 is kept, in half precision.
    """
    body = load_encoder(MINILM)
    model = PeftModel.from_pretrained(body, str(folders[0]), adapter_name="0")
    for number, folder in enumerate(folders[1:], start=1):
        model.load_adapter(str(folder), adapter_name=str(number))
    names = [str(number) for number in range(len(folders))]
    model.add_weighted_adapter(names, [1 / len(names)] * len(names), "mean", combination_type="svd", svd_rank=RANK)
    shutil.rmtree(out, ignore_errors=True)
    model.save_pretrained(str(out), selected_adapters=["mean"])
    for file in (out / "mean").iterdir():
        file.rename(out / file.name)
    (out / "mean").rmdir()
    (out / "README.md").unlink(missing_ok=True)
    weights = load_file(out / "adapter_model.safetensors")
    save_file({name: value.half().contiguous() for name, value in weights.items()}, out / "adapter_model.safetensors")
    heads = [load_file(folder / HEAD_FILE) for folder in folders]
    save_file({name: torch.stack([head[name] for head in heads]).mean(dim=0) for name in heads[0]}, out / HEAD_FILE)
    load_tokenizer(str(folders[0])).save_pretrained(out)
    shutil.copy(folders[0] / "judge.json", out / "judge.json")


def shift_and_temperature(folder: Path, lines: list[TrainingLine]) -> dict[str, float]:
    """Fits the cut points' common shift and the temperature on scored answers, and writes both into a judge folder."""
    card = read_card(folder)
    logits = cumulative_logits(folder, card, lines)
    shift, temperature = fitted(logits, np.array([line.level for line in lines]))
    head = load_file(folder / HEAD_FILE)
    head["first_cut"] = head["first_cut"] - shift / HEAD_RATE
    save_file(head, folder / HEAD_FILE)
    card.temperature = round(temperature, 4)
    card.write(folder)
    return {"shift": round(shift, 4), "temperature": round(temperature, 4)}


def cumulative_logits(folder: Path, card: JudgeCard, lines: list[TrainingLine]) -> np.ndarray:
    """What a judge folder's model says before temperature and probabilities, (n, 4)."""
    tokenizer = load_tokenizer(str(folder))
    body = load_encoder(MINILM)
    model = OrdinalModel(with_adapter(body, folder), body.config.hidden_size).eval()
    model.load_head(folder)
    rows = []
    for start in range(0, len(lines), 64):
        part = lines[start : start + 64]
        encoded = [
            encode(tokenizer, line.question, line.earlier, line.answer.text, card.max_length, card.windows)
            for line in part
        ]
        batch = collate(encoded, tokenizer.pad_token_id, 8192)
        with torch.inference_mode():
            rows.append(model(*batch).numpy())
    return np.concatenate(rows)


def fitted(logits: np.ndarray, levels: np.ndarray) -> tuple[float, float]:
    """The shift and temperature of the largest likelihood, shift with a standard normal prior: (logits + shift) / T.

    Args:
        logits: Cumulative logits, shape (n, 4).
        levels: The experts' levels, shape (n,).
    """

    def loss(parameters: np.ndarray) -> float:
        shifted = torch.tensor(logits + parameters[0], dtype=torch.float64)
        rows = probabilities(shifted, float(np.exp(parameters[1]))).numpy()
        chosen = np.maximum(rows[np.arange(len(levels)), levels - 1], 1e-9)
        return float(-np.log(chosen).sum() + parameters[0] ** 2 / 2)

    found = minimize(loss, np.zeros(2), method="Nelder-Mead").x
    return float(found[0]), float(np.exp(found[1]))


def complete_card(folder: Path, data: Path) -> None:
    """Says in the card what the judge is for, what it was made from, and how it did on held-out questions."""
    card = read_card(folder)
    files = {path.name: file_sha256(path) for path in sorted(data.glob("*/*")) if path.parent.name != "llmeval-med"}
    # The pairs of the intermediate stage are numbered by their place in a file: its sha256 names them better.
    learnt, tuned = [
        [one for one in ids if not one.startswith("pair-")]
        for ids in (card.trained_on.question_ids, card.trained_on.tuned_question_ids)
    ]
    card.trained_on = TrainedOn(files={**card.trained_on.files, **files}, question_ids=learnt, tuned_question_ids=tuned)
    card.note = NOTE
    card.only_languages = ["en"]
    card.training["averaged_over_seeds"] = list(SEEDS)
    result = RESULTS / "built-in.json"
    if result.exists():
        shipped = json.loads(result.read_text(encoding="utf-8"))["table"]["as shipped"]
        card.training["cross_validation"] = shipped["per_run"]
    write_readme(folder, card)
    card.write(folder)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python eval/built_in.py DATA WORK")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
