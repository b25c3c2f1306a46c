"""Makes the built-in judge from DATA, writes it into the package, and measures it.

    python eval/built_in.py DATA WORK [MEASURE ...]

DATA holds mediqa2019-qa/ (its two training files and its validation file), liveqa-med/, medquad/, healthver/,
toyhom-internal/, huatuo-knowledge/ and, for measuring only, llmeval-2/ and llmeval-med/. WORK is a folder for
intermediate files; a step that is finished there is not repeated. `reader_rows.py` has the measures: the ones that are
named here are taken again, and the other rows of the table stay as they are. Where these need no more than the finished
judge, the judge in the package is measured, and nothing is trained.

First comes an ordinal judge of English answers, for a second opinion: the mean of fifteen, one for each of five folds
of the questions and three seeds, of their adapters and heads (Wortsman et al., 2022). `eval/built_in_folds.py` writes
the table of these and of their ablations. Then comes the reader; `eval/reader_judge.py` holds its stages. The table of
the whole is `eval/results/built-in.json`; `eval/reader_page.py` writes it into README.md and docs/results.md.
"""

import shutil
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from built_in_folds import SEEDS, run_jobs, shipped_jobs
from built_in_table import FOLDS, measured_on, summary
from peft import PeftModel
from reader_judge import Made, make
from reader_page import write_pages
from reader_rows import OF_ITS_TRAINING, OF_THE_JUDGE, Rows, record_rows
from safetensors.torch import load_file, save_file
from study import REPOSITORY, Study

from medjudge.files import file_sha256
from medjudge.judge.card import write_readme
from medjudge.judge.folder import TrainedOn, read_card
from medjudge.judge.open import built_in_folder
from medjudge.judge.ordinal import HEAD_FILE
from medjudge.models.loading import load_encoder, load_tokenizer
from medjudge.models.packaged import MINILM
from medjudge.train.lora import write_base_name

LAUNCH = "accelerate launch --num_processes 1 $MEDJUDGE/recipes/train_judge.py"
RANK = 32
SOURCES = ("mediqa2019-qa", "liveqa-med", "medquad")
NOTE = (
    "English questions of consumers about health, with or without a reference. It knows what an answer to the point "
    "looks like; it knows no medicine. The judge that comes with medjudge hears its opinion of English answers."
)


def main(data: Path, work: Path, measures: Sequence[str]) -> None:
    """Runs the steps that are not finished yet, from the data to the judge folder in the package and the table."""
    if unknown := set(measures) - OF_ITS_TRAINING.keys() - OF_THE_JUDGE.keys():
        known = ", ".join((*OF_ITS_TRAINING, *OF_THE_JUDGE))
        sys.exit(f"no measure {', '.join(sorted(unknown))}; choose among {known}")
    study = Study(work, DATA=data.resolve(), MEDJUDGE=REPOSITORY)
    prepare(study)
    taken: dict[str, Callable[[], Rows]] = {}
    if not measures or set(measures) & OF_ITS_TRAINING.keys():
        made = made_and_installed(study, data, work)
        taken |= {name: partial(measure, made) for name, measure in OF_ITS_TRAINING.items()}
    taken |= {name: partial(measure, built_in_folder(), data, work) for name, measure in OF_THE_JUDGE.items()}
    chosen = {name: measure for name, measure in taken.items() if name in (measures or taken)}
    record_rows(chosen, built_in_folder(), work, again=bool(measures))
    write_pages()


def made_and_installed(study: Study, data: Path, work: Path) -> Made:
    """Makes the judge and writes it into the package."""
    second = work / "judges" / "second"
    if not (second / "judge.json").exists():
        make_second(study, data, work, second)
    run_jobs(shipped_jobs(), work.resolve())
    out = work / "judges" / "built-in"
    made = make(data, work, out)
    shutil.rmtree(built_in_folder(), ignore_errors=True)
    shutil.copytree(out, built_in_folder())
    return made


def make_second(study: Study, data: Path, work: Path, out: Path) -> None:
    """Makes the ordinal judge whose opinion the built-in judge hears: the mean of those of all folds and seeds."""
    study.run(f"{LAUNCH} --config $MEDJUDGE/configs/judges/minilm-intermediate.yaml")
    run_jobs(shipped_jobs(), work.resolve())
    members = [work / "folds" / job.name / "judge" for job in shipped_jobs()]
    averaged(members, out)
    complete_card(out, members, data, summary(shipped_jobs(), work, measured_on(work))["per_run"])


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
    if len(sys.argv) < 3:
        sys.exit("usage: python eval/built_in.py DATA WORK [MEASURE ...]")
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
