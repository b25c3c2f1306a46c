"""medjudge: distil expensive judgments of medical answers into a local judge, and say how far it can be trusted."""

__version__ = "0.1.0"
