"""Trains a local judge and writes its folder.

    accelerate launch recipes/train_judge.py --config configs/judges/minilm-ordinal.yaml

On two processes of the CPU, or with DeepSpeed: `accelerate launch --config_file configs/accelerate/two-cpu.yaml ...` or
`zero2.yaml`, with the rest as above.

Every value of the config can be given on the command line as well (`--num_train_epochs 5`). `--resume` goes on from the
last checkpoint. The training files come from `medjudge distill`.
"""

from medjudge.train.run import main

if __name__ == "__main__":
    main()
