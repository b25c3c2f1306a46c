"""Divides work among the processes of one machine, or the workers of a Ray cluster."""
