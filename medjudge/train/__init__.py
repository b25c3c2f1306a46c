"""Training of judges: data, losses, trainers, checkpoints."""
