"""A client for chat models at OpenAI-compatible servers, used by the API judge and the answering engine."""
