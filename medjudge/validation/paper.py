"""What LLMEval-Med measured, to stand beside one's own numbers."""

PAPER_AGREEMENT = {"MK": 94.0, "MLU": 86.62, "MR": 94.26, "MSE": 95.0, "MTG": 67.32}
"""Agreement of GPT-4o with physicians on usable, in percent (LLMEval-Med, arXiv 2506.04078, section 4.4)."""
