"""Questions and expert-scored sets in: LLMEval-Med as released, the bundled sample, MEDIQA 2019."""
