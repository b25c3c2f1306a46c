"""Every text that a user or a model reads, per language: one folder per language, and the loader (`texts`)."""
