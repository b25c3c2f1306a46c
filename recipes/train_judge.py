"""Trains a local judge and writes its folder.

    accelerate launch recipes/train_judge.py --config configs/judges/minilm-ordinal.yaml
    accelerate launch --config_file configs/accelerate/two-cpu.yaml recipes/train_judge.py --config configs/judges/minilm-ordinal.yaml
    accelerate launch --config_file configs/accelerate/zero2.yaml recipes/train_judge.py --config configs/judges/qwen3-1.7b-lora.yaml

Every value of the config can be given on the command line as well (`--num_train_epochs 5`). `--resume` goes on from the
last checkpoint. The training files come from `medjudge distill`.
"""

from medjudge.train.run import main

if __name__ == "__main__":
    main()
