"""Judges: an answer in, a judgment out. All kinds stand behind one protocol."""
