"""Judgments and physicians' scores -> a training set."""
