"""Questions -> a model's answers."""
