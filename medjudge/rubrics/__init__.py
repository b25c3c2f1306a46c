"""The judge's prompts: a standard per category and language, and reading a reply back."""
