"""Divides work among the workers of a Ray cluster."""
