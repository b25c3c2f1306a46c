"""Base models: where they come from, what they run on, and how texts are batched for them."""
