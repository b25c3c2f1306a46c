"""Base models: loading, hardware, padding and batching."""
