"""Probes: answers changed in a way that must not change their score, or must make them unusable."""
