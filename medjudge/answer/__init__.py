"""Generates a model's answers to questions."""
