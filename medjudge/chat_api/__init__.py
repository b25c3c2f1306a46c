"""Chat models behind an OpenAI-compatible API: what the API judge and the answering engine share."""
