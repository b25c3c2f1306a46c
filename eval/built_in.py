"""Makes the built-in judge from DATA and writes it into the package.

    python eval/built_in.py DATA WORK

DATA holds mediqa2019-qa/ (its two training files and its validation file), liveqa-med/ and medquad/. WORK is a folder
for intermediate files; a step that is finished there is not repeated. The intermediate stage comes first. Fifteen
judges follow, one for each of five folds of the questions and three seeds; they show how well such a judge does on
questions that it has not seen. Their mean is shipped, of adapters and heads (Wortsman et al., 2022), with a shift
fitted on the held-out answers and MEDIQA's validation file, and a temperature fitted on the latter.
`eval/built_in_folds.py` writes the table of these judges and of the ablations.
"""

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from built_in_folds import SEEDS, run_jobs, shipped_jobs
from built_in_table import FOLDS, Job, intervals, measured_on, pairs_of, summary
from peft import PeftModel
from safetensors.torch import load_file, save_file
from scipy.optimize import minimize
from scipy.special import logit
from study import REPOSITORY, Study

from medjudge.files import file_sha256
from medjudge.judge.adapter import merge_adapter
from medjudge.judge.card import write_readme
from medjudge.judge.folder import JudgeCard, TrainedOn, read_card
from medjudge.judge.open import built_in_folder
from medjudge.judge.ordinal import HEAD_FILE, HEAD_RATE, OrdinalModel, collate, encode
from medjudge.models.loading import MINILM, load_encoder, load_tokenizer
from medjudge.records import TrainingLine
from medjudge.scale import USABLE_FROM
from medjudge.train.lora import write_base_name
from medjudge.train.temperature import as_card, calibrated, ordinal_levels

LAUNCH = "accelerate launch --num_processes 1 $MEDJUDGE/recipes/train_judge.py"
RANK = 32
WEIGHTS = (1.0, 3.0)
"""Of held-out training questions and of the validation file in the shift. The latter has messages as people write them,
and the judges are too strict with those."""
SOURCES = ("mediqa2019-qa", "liveqa-med", "medquad")
NOTE = (
    "The judge that comes with medjudge. English questions of consumers about health, with or without a reference; it "
    "leaves texts in other languages unscored. It knows what an answer to the point looks like; it knows no medicine."
)


class Usable(NamedTuple):
    """Answers with the judge's logit of being usable and whether the expert called them so, both of shape (n,)."""

    logit: np.ndarray
    usable: np.ndarray


def main(data: Path, work: Path) -> None:
    """Runs the steps that are not finished yet, from the data to the judge folder."""
    study = Study(work, DATA=data.resolve(), MEDJUDGE=REPOSITORY)
    prepare(study)
    study.run(f"{LAUNCH} --config $MEDJUDGE/configs/judges/minilm-intermediate.yaml")
    run_jobs(shipped_jobs(), work.resolve())
    out = work / "judges" / "built-in"
    members = [work / "folds" / job.name / "judge" for job in shipped_jobs()]
    averaged(members, out)
    held_out = held_out_answers(shipped_jobs(), work)
    shift_and_temperature(out, measured_on(work).validation, held_out)
    complete_card(out, members, data, summary(shipped_jobs(), work, measured_on(work))["per_run"])
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
    study.run(
        "python $MEDJUDGE/recipes/matching_set.py $DATA/medquad/medquad.jsonl.gz data/matching --questions 5000"
        " --keep-out mediqa/questions.jsonl mediqa-validation/questions.jsonl liveqa/questions.jsonl"
    )


def averaged(folders: list[Path], out: Path) -> None:
    """Writes the mean of several judges that were trained from the same start: of their adapters' products, and heads.

    The mean of the adapters' products has a higher rank; its best approximation of rank 32 is kept, in half precision.
    """
    body = load_encoder(MINILM)
    names = [f"member{number}" for number in range(len(folders))]
    model = PeftModel.from_pretrained(body, str(folders[0]), adapter_name=names[0])
    for name, folder in zip(names[1:], folders[1:], strict=True):
        model.load_adapter(str(folder), adapter_name=name)
    model.add_weighted_adapter(names, [1 / len(names)] * len(names), "mean", combination_type="svd", svd_rank=RANK)
    shutil.rmtree(out, ignore_errors=True)
    model.save_pretrained(str(out), selected_adapters=["mean"])
    for file in (out / "mean").iterdir():
        file.rename(out / file.name)
    (out / "mean").rmdir()
    (out / "README.md").unlink(missing_ok=True)
    write_base_name(out, MINILM)
    weights = load_file(out / "adapter_model.safetensors")
    save_file({name: value.half().contiguous() for name, value in weights.items()}, out / "adapter_model.safetensors")
    heads = [load_file(folder / HEAD_FILE) for folder in folders]
    save_file({name: torch.stack([head[name] for head in heads]).mean(dim=0) for name in heads[0]}, out / HEAD_FILE)
    load_tokenizer(str(folders[0])).save_pretrained(out)
    shutil.copy(folders[0] / "judge.json", out / "judge.json")


def shift_and_temperature(folder: Path, lines: list[TrainingLine], held_out: Usable) -> None:
    """Fits the cut points' common shift and the temperature, and writes both into a judge folder.

    Args:
        folder: The judge.
        lines: The validation file's answers.
        held_out: What the members say of the questions that each was not trained on.
    """
    card = read_card(folder)
    logits, levels = cumulative_logits(folder, card, lines), np.array([line.level for line in lines])
    in_validation = Usable(logits[:, USABLE_FROM - 2], levels >= USABLE_FROM)
    shift = fitted_shift([held_out, in_validation], WEIGHTS)
    calibration = calibrated(logits + shift, np.eye(5)[levels - 1], levels, ordinal_levels)
    head = load_file(folder / HEAD_FILE)
    head["first_cut"] = head["first_cut"] - shift / HEAD_RATE
    save_file(head, folder / HEAD_FILE)
    card.temperature = calibration.temperature
    card.training["calibration"] = {**as_card(calibration), "shift": round(shift, 4)}
    # A shift says nothing of the answers that it was fitted on: each question takes that of the other questions.
    fold_of = np.unique([line.question.group for line in lines], return_inverse=True)[1] % FOLDS
    shifted = logits.copy()
    for fold in range(FOLDS):
        others = fold_of != fold
        shifted[~others] += fitted_shift(
            [held_out, Usable(in_validation.logit[others], in_validation.usable[others])], WEIGHTS
        )
    rows = ordinal_levels(shifted, calibration.temperature)
    probabilities = {
        f"{line.question.id}|{line.answer.model}": list(row) for line, row in zip(lines, rows, strict=True)
    }
    card.training["held_out"] = {
        "on": f"On {len(lines)} answers of MEDIQA's validation file that no training line shares, each with the shift "
        "that the other questions give",
        "measures": intervals(pairs_of(lines, probabilities)),
    }
    card.write(folder)


def held_out_answers(jobs: list[Job], work: Path) -> Usable:
    """What each fold's judge says of the fold's answers, before its temperature."""
    levels = {
        f"{line.question.id}|{line.answer.model}": line.level
        for lines in measured_on(work).mediqa.values()
        for line in lines
    }
    logits, usable = [], []
    for job in jobs:
        folder = work / "folds" / job.name
        temperature = read_card(folder / "judge").temperature
        for name, row in json.loads((folder / "probabilities.json").read_text())["fold"].items():
            if name not in levels:
                continue
            logits.append(logit(np.clip(sum(row[USABLE_FROM - 1 :]), 1e-6, 1 - 1e-6)) * temperature)
            usable.append(levels[name] >= USABLE_FROM)
    return Usable(np.array(logits), np.array(usable))


def cumulative_logits(folder: Path, card: JudgeCard, lines: list[TrainingLine]) -> np.ndarray:
    """What a judge folder's model says before temperature and probabilities, (n, 4)."""
    tokenizer = load_tokenizer(str(folder))
    body = load_encoder(MINILM)
    model = OrdinalModel(merge_adapter(body, folder), body.config.hidden_size).eval()
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


def fitted_shift(sets: list[Usable], weights: Sequence[float]) -> float:
    """The shift at which usable answers are most likely called usable (logistic), each set with its weight.

    The training questions and the validation file differ in style and balance, and so will the answers to be judged.
    """

    def loss(parameters: np.ndarray) -> float:
        shifted = [(usable.logit + parameters[0]) * np.exp(parameters[1]) for usable in sets]
        losses = [
            np.logaddexp(0, np.where(usable.usable, -logit_, logit_)).mean()
            for usable, logit_ in zip(sets, shifted, strict=True)
        ]
        return float(np.average(losses, weights=weights))

    return float(minimize(loss, np.zeros(2), method="Nelder-Mead").x[0])


def complete_card(folder: Path, members: list[Path], data: Path, per_run: list[dict[str, Any]]) -> None:
    """Completes the card: what the judge is for, what it was made from, how its members did on held-out questions."""
    card, cards = read_card(folder), [read_card(member) for member in members]
    raw = {path.name: file_sha256(path) for path in sorted(data.glob("*/*")) if path.parent.name in SOURCES}
    # The pairs of the intermediate stage are numbered by their position in a file: its sha256 names them better.
    learnt = {name for member in cards for name in member.trained_on.question_ids if not name.startswith("pair-")}
    tuned = {name for member in cards for name in member.trained_on.tuned_question_ids if not name.startswith("pair-")}
    # LiveQA's questions are MEDIQA's of the same number, and a converted LiveQA must be recognised.
    learnt |= {name.replace("mediqa-liveqamed-", "liveqa-") for name in learnt}
    card.trained_on = TrainedOn(files=raw, question_ids=sorted(learnt), tuned_question_ids=sorted(tuned))
    card.note = NOTE
    card.only_languages = ["en"]
    card.training |= {
        "started_from": "intermediate training on MedQuAD",
        "mean_of": f"{len(members)} judges: {FOLDS} folds of the questions, each left out once, by {len(SEEDS)} seeds",
        "answers": max(member.training["answers"] for member in cards),
        "questions": len({name for name in learnt if name.startswith("mediqa-")}),
        "seed": ", ".join(map(str, SEEDS)),
        "cross_validation": per_run,
        "cross_validation_note": "Of the judges that this one is the mean of, without its shift; on answers whose text "
        "stands in none of their training lines.",
    }
    for name in ("loss", "validation"):  # of the first member alone
        del card.training[name]
    write_readme(folder, card)
    card.write(folder)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python eval/built_in.py DATA WORK")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
