"""What the training recipes call."""
