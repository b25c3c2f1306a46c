"""Trains `minilm-ordinal` on MEDIQA's two training files and validates it on its validation file.

    python eval/quality/mediqa2019.py DATA WORK

DATA is a folder with train-alexa.xml, train-liveqamed.xml and validation.xml of MEDIQA 2019, task 3. WORK is an empty
folder for intermediate files. The result is eval/results/mediqa2019.json. No validation question is seen in
training: the checkpoint is chosen on a tenth of the training questions.
"""

import sys
from pathlib import Path

from eval.lib.study import REPOSITORY, Study


def main(data: Path, work: Path) -> None:
    """Runs the study."""
    study = Study(work, DATA=data.resolve(), MEDJUDGE=REPOSITORY)
    study.run("medjudge data convert mediqa2019 $DATA/train-alexa.xml $DATA/train-liveqamed.xml --out train-set")
    study.run("medjudge data convert mediqa2019 $DATA/validation.xml --out validation-set")
    study.run("medjudge distill train-set --out data")
    study.run(
        "accelerate launch --cpu --num_processes 1 $MEDJUDGE/recipes/train_judge.py"
        " --config $MEDJUDGE/configs/judges/minilm-ordinal.yaml"
    )
    agreement = study.run(
        "medjudge validate validation-set --judge judges/minilm-ordinal --probes --offline --json",
        json_output=True,
        allowed=(0, 1),
    )
    size = sum(file.stat().st_size for file in (work / "judges" / "minilm-ordinal").iterdir() if file.is_file())
    study.write("mediqa2019", {"judge_folder_bytes": size, "agreement": agreement})


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python eval/quality/mediqa2019.py DATA WORK")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
